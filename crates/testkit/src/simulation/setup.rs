//! What a simulation is run with: engines, faults, limits, and where tasks come from.

/// Whether store and hot set fail now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faults {
    None,
    /// One call in ten fails; the seed of the dice.
    Some(u64),
}

impl Faults {
    pub(super) const fn seed(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Some(seed) => seed,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// One: it does not share its store.
    pub engines: usize,
    pub faults: Faults,
    pub hands: Hands,
    /// The queue, its keys and its retries have limits, and the queue a rate.
    pub limits: bool,
    pub due: Due,
}

/// Where engines have due tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// As an embedded engine, which is one.
    InStore,
    InRedis,
}

/// How executors get tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hands {
    /// They pull them.
    Pull,
    /// By a bus, which outlives all engines.
    Push,
}
