//! Owners of partitions, in memory. Stricter than necessary: an expired lease is not renewed, and an engine
//! that acquires it again gets a new term.

use async_trait::async_trait;
use parking_lot::Mutex;
use punctual_contract::{
    Clock, Error, Ownership,
    ownership::{Live, Owner, Says, Tenure},
};
use punctual_domain::{place::Partition, time::Millis};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

/// Compares leases on the clock that it is given: the keeper's.
#[derive(Debug)]
pub struct MemoryOwnership {
    clock: Arc<dyn Clock>,
    is_away: AtomicBool,
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    /// The instant until which each engine counts as alive, and its report.
    alive: BTreeMap<String, (Millis, Says)>,
    leases: BTreeMap<Partition, Lease>,
}

#[derive(Debug, Default, Clone)]
struct Lease {
    term: i64,
    engine: String,
    until: Millis,
}

impl Lease {
    fn is_held_by(&self, engine: &str, term: i64, now: Millis) -> bool {
        self.engine == engine && self.term == term && self.until > now
    }
}

fn until(now: Millis, ttl: Duration) -> Millis {
    now.plus(i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX))
}

impl MemoryOwnership {
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, is_away: AtomicBool::new(false), books: Mutex::default() }
    }

    /// Sets this term of every partition, under any owner, as after a restore from an older backup.
    pub fn set_terms(&self, term: i64) {
        self.books.lock().leases.values_mut().for_each(|lease| lease.term = term);
    }

    /// While it is unavailable, every call fails and changes nothing.
    pub fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, SeqCst);
    }

    fn call<T>(&self, doing: &'static str, work: impl FnOnce(&mut Books, Millis) -> T) -> Result<T, Error> {
        if self.is_away.load(SeqCst) {
            return Err(Error::did_not_happen(doing, "a test has sent the owners' book away"));
        }
        Ok(work(&mut self.books.lock(), self.clock.now()))
    }
}

#[async_trait]
impl Ownership for MemoryOwnership {
    async fn beat(&self, engine: &str, ttl: Duration, says: &Says) -> Result<Vec<Live>, Error> {
        self.call("beat", |books, now| {
            books.alive.insert(engine.to_owned(), (until(now, ttl), says.clone()));
            books.alive.retain(|_, pair| pair.0 > now);
            books.alive.iter().map(|(engine, (_, says))| Live::new(engine, says)).collect()
        })
    }

    async fn acquire(
        &self,
        engine: &str,
        partitions: &[Partition],
        ttl: Duration,
    ) -> Result<Vec<Option<Tenure>>, Error> {
        self.call("acquire partitions", |books, now| {
            let one = |partition: &Partition| {
                let lease = books.leases.entry(*partition).or_default();
                if lease.until <= now {
                    *lease = Lease { term: lease.term + 1, engine: engine.to_owned(), until: now };
                }
                let mine = lease.engine == engine;
                if mine {
                    lease.until = until(now, ttl);
                }
                mine.then_some(Tenure { partition: *partition, term: lease.term })
            };
            partitions.iter().map(one).collect()
        })
    }

    async fn renew(&self, engine: &str, held: &[Tenure], ttl: Duration) -> Result<Vec<bool>, Error> {
        self.call("renew leases", |books, now| {
            let one = |tenure: &Tenure| match books.leases.get_mut(&tenure.partition) {
                Some(lease) if lease.is_held_by(engine, tenure.term, now) => {
                    lease.until = until(now, ttl);
                    true
                }
                _ => false,
            };
            held.iter().map(one).collect()
        })
    }

    async fn raise(&self, engine: &str, held: &[Tenure], above: i64) -> Result<Vec<Option<Tenure>>, Error> {
        self.call("raise terms", |books, now| {
            let one = |tenure: &Tenure| {
                let lease = books.leases.get_mut(&tenure.partition)?;
                if !lease.is_held_by(engine, tenure.term, now) {
                    return None;
                }
                lease.term = lease.term.max(above + 1);
                Some(Tenure { partition: tenure.partition, term: lease.term })
            };
            held.iter().map(one).collect()
        })
    }

    async fn release(&self, engine: &str, held: &[Tenure]) -> Result<(), Error> {
        self.call("release partitions", |books, now| {
            for tenure in held {
                let lease = books.leases.get_mut(&tenure.partition);
                if let Some(lease) = lease.filter(|lease| lease.is_held_by(engine, tenure.term, now)) {
                    lease.until = now;
                }
            }
        })
    }

    async fn leave(&self, engine: &str) -> Result<(), Error> {
        self.call("leave", |books, _| {
            books.alive.remove(engine);
        })
    }

    async fn now(&self) -> Result<Option<Millis>, Error> {
        self.call("read the keeper's clock", |_, now| Some(now))
    }

    async fn owners(&self) -> Result<Vec<Owner>, Error> {
        self.call("list owners", |books, now| {
            let owner = |(partition, lease): (&Partition, &Lease)| Owner {
                tenure: Tenure { partition: *partition, term: lease.term },
                engine: lease.engine.clone(),
                left: Duration::from_millis(u64::try_from(lease.until.since(now)).unwrap_or(0)),
            };
            books.leases.iter().map(owner).collect()
        })
    }
}
