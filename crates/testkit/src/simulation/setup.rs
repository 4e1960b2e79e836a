//! The setup of a simulation: engines, faults, limits, and the source of tasks.

/// States if store and hot set fail now and then.
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

/// The place of due tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// The engine is embedded and alone.
    InStore,
    InRedis,
}

/// The delivery of tasks to executors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hands {
    /// They pull them.
    Pull,
    /// A bus delivers them, which outlives all engines.
    Push,
}
