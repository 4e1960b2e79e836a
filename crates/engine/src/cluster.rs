//! This engine's information about its cluster: live engines, owners of partitions, reachable databases. The watcher
//! of all engines reads it. Answers only, and decides nothing.

use crate::{core::Core, engine::Engine};
use punctual_contract::ownership::{Live, Owner, Tenure};

impl Engine {
    /// Other engines may work on this store.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        !self.core.holdings.is_sole()
    }

    /// True if tasks can be published to a bus that executors subscribe to.
    #[must_use]
    pub fn can_push(&self) -> bool {
        self.core.options.can_push
    }

    /// The live engines, as of the last heartbeats; empty: none was heard, or the store is not shared.
    #[must_use]
    pub fn live(&self) -> Vec<Live> {
        self.core.holdings.live()
    }

    /// The partitions that this engine works on, with their terms.
    #[must_use]
    pub fn tenures(&self) -> Vec<Tenure> {
        self.core.holdings.tenures()
    }

    /// This engine does what one engine does for all.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.core.leads()
    }

    /// The same for one database: an engine that reaches it.
    #[must_use]
    pub fn leads_in(&self, part: usize) -> bool {
        self.core.leads_in(part)
    }

    /// Every partition that has an owner, in order.
    ///
    /// # Errors
    /// A failing ownership back end.
    pub async fn owners(&self) -> Result<Vec<Owner>, crate::Error> {
        Ok(self.core.shared.ownership.owners().await?)
    }

    /// Databases that this engine does not reach, or that could not be written when last tried, by number.
    #[must_use]
    pub fn databases_away(&self) -> Vec<usize> {
        databases_away(&self.core)
    }
}

pub(crate) fn databases_away(core: &Core) -> Vec<usize> {
    let mut away = core.sharing.reachability.without();
    away.extend(core.health.writers.away());
    away.sort_unstable();
    away.dedup();
    away
}
