//! Where a task is, and what can happen to it. `steps` says which event is legal in which stage.
//! This file must never decide a move.

/// Where a task is. A task that has left the table has no stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// The store is asked for the claim. `due`: the instant came before the answer.
    Claiming { due: bool },
    /// Claimed. Its instant has not come, and no lease is asked for.
    Waiting,
    /// The store is asked for a lease ahead of the instant. `due`: the instant came before the answer.
    Leasing { due: bool },
    /// Leased ahead of its instant.
    Leased,
    /// A caller has withdrawn the task, and the answer to its lease is on the way.
    Held,
    /// Fired, and kept by this engine, whoever owns its partition: in the line of executors that are busy, or behind a gate.
    Ready { gate: Option<Gate> },
    /// Fired, and the store is asked for the lease of an executor.
    Granting,
    /// In nobody's hands here. What its hand-over needs is known, because this engine has inserted it.
    Known,
    /// An executor has it, and nobody has heard of the attempt since.
    HandedOver,
}

/// Why a ready task is not offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Gate {
    /// The task's database does not answer.
    Database,
}

/// What happened to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The hot set has the entry again, at the same fence.
    PutBack,
    /// The store has made the claim, or none is needed.
    Claimed,
    /// The store refused the claim, or did not answer.
    NotClaimed,
    /// The store is asked for a lease.
    LeaseBegun,
    /// The store has made the lease.
    Granted,
    /// The store refused the lease, or did not answer.
    NotGranted,
    /// The instant has come, and the hot set has given the entry.
    Due,
    /// A caller has taken the entry out of the hot set before its instant.
    Withdrawn,
    /// The entry is not in the hot set, or fires from the store.
    Forgotten,
    /// The lease is given back: the entry did not fire in time, or is loaded again.
    LeaseDropped,
    /// The engine gives the partition up.
    GivenUp,
    /// The store is asked for the lease of an executor.
    GrantBegun,
    /// It has answered, or the call has ended without an answer.
    GrantEnded,
    /// An executor has it.
    HandedOver,
    /// The attempt has ended, or it has given a sign of life.
    Ended,
    /// The gate is shut while the task is ready or its lease is asked for.
    Blocked(Gate),
    /// The task is taken out of the line, or from behind its gate, to be offered elsewhere.
    Taken,
}
