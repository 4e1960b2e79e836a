//! Ownership and signals of an engine that is alone on its store. It holds every partition from its start to
//! its end, and neither sends nor receives signals. Remembers only that it has left. Must not be used if a
//! second engine could use the store: it grants every partition to every caller.

use async_trait::async_trait;
use punctual_contract::{
    Error, Ownership, Signals,
    ownership::{Live, Owner, Says, Signal, Tenure},
};
use punctual_domain::{place::Partition, time::Millis};
use std::{
    future::pending,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    time::Duration,
};

#[derive(Debug)]
pub(crate) struct Alone {
    engine: String,
    partitions: u16,
    has_left: AtomicBool,
}

impl Alone {
    pub(crate) fn new(engine: &str, partitions: u16) -> Self {
        Self { engine: engine.to_owned(), partitions, has_left: AtomicBool::new(false) }
    }
}

#[async_trait]
impl Ownership for Alone {
    /// There is no other engine.
    async fn beat(&self, _engine: &str, _ttl: Duration, _says: &Says) -> Result<Vec<Live>, Error> {
        Ok(Vec::new())
    }

    async fn acquire(
        &self,
        _engine: &str,
        partitions: &[Partition],
        _ttl: Duration,
    ) -> Result<Vec<Option<Tenure>>, Error> {
        Ok(partitions.iter().map(|partition| Some(Tenure::sole(*partition))).collect())
    }

    async fn renew(&self, _engine: &str, held: &[Tenure], _ttl: Duration) -> Result<Vec<bool>, Error> {
        Ok(vec![true; held.len()])
    }

    async fn raise(&self, _engine: &str, held: &[Tenure], above: i64) -> Result<Vec<Option<Tenure>>, Error> {
        let raised = |tenure: &Tenure| Tenure { term: tenure.term.max(above.saturating_add(1)), ..*tenure };
        Ok(held.iter().map(|tenure| Some(raised(tenure))).collect())
    }

    /// Releases nothing: no other engine could acquire the partitions.
    async fn release(&self, _engine: &str, _held: &[Tenure]) -> Result<(), Error> {
        Ok(())
    }

    async fn leave(&self, _engine: &str) -> Result<(), Error> {
        self.has_left.store(true, SeqCst);
        Ok(())
    }

    async fn now(&self) -> Result<Option<Millis>, Error> {
        Ok(None)
    }

    /// The lease of this engine never ends.
    async fn owners(&self) -> Result<Vec<Owner>, Error> {
        let count = if self.has_left.load(SeqCst) { 0 } else { self.partitions };
        let owner = |partition| Owner {
            tenure: Tenure::sole(Partition(partition)),
            engine: self.engine.clone(),
            left: Duration::MAX,
        };
        Ok((0..count).map(owner).collect())
    }
}

#[async_trait]
impl Signals for Alone {
    async fn announce(&self, _signals: Vec<Signal>) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    async fn next(&self) -> Result<Vec<Signal>, Error> {
        pending().await
    }

    /// This engine sees every event itself.
    fn look_after(&self) -> Duration {
        Duration::from_secs(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[tokio::test]
    async fn all_is_its_own_until_it_leaves_and_nobody_hears_of_it() {
        let alone = Alone::new("me", 2);
        let says = Says { has_hot: false, without: vec![0] };
        assert_eq!(alone.beat("me", Duration::ZERO, &says).await.unwrap(), []);
        let own = [Tenure::sole(Partition(0)), Tenure::sole(Partition(1))];
        let acquired = alone.acquire("me", &[Partition(0), Partition(1)], Duration::ZERO).await.unwrap();
        assert_eq!(acquired, own.map(Some));
        assert_eq!(alone.renew("me", &own, Duration::ZERO).await.unwrap(), [true, true]);
        let raised = alone.raise("me", &own, 7).await.unwrap();
        assert_eq!(raised, own.map(|tenure| Some(Tenure { term: 8, ..tenure })));
        let owner = |tenure| Owner { tenure, engine: "me".to_owned(), left: Duration::MAX };
        assert_eq!(alone.owners().await.unwrap(), own.map(owner));
        assert_eq!(alone.now().await.unwrap(), None);
        alone.announce(vec![Signal::Due { partition: Partition(0), due_at: Millis(1) }]).await.unwrap();
        assert!(alone.next().now_or_never().is_none(), "not even itself");
        alone.leave("me").await.unwrap();
        assert_eq!(alone.owners().await.unwrap(), []);
    }
}
