//! Where a task is, and what can happen to it. `steps` says which event is legal in which stage.
//! This file must never decide a move.

/// Where a task is. A task that has left the table has no stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// The store is asked for the claim, which tasks of push queues have. `due`: the instant came before the answer.
    Claiming { due: bool },
    /// Its instant has not come, and no lease is asked for.
    Waiting,
    /// The store is asked for a lease ahead of the instant. `due`: the instant came before the answer.
    Leasing { due: bool },
    /// Leased ahead of its instant.
    Leased,
    /// A caller has withdrawn the task, and the answer to its lease is on the way.
    Held,
    /// Fired, and given to an executor that waits, or left to the store because its line is long. It is in the table as long as
    /// something of it is to be settled with the store.
    Offered,
    /// Fired, and passed to another engine, which asks the store for its lease.
    Passed,
    /// Fired, and kept by this engine, whichever engine owns its partition: in the line of its queue, from which the executors that ask here are
    /// served, or behind a gate.
    Ready { gate: Option<Gate> },
    /// Fired, and the store is asked for the lease of an executor.
    Granting,
    /// An executor's lease that was made, of which nobody has heard, and which could not be given back. The entry has the fence of
    /// the lease.
    InDoubt,
    /// With an executor. The entry has the fence of the lease. Where its lease was made ahead the store does not know at first who
    /// has it; where nothing is to be reported it is in the table as long as what is known of the attempt may save a look.
    HandedOver { report: HolderReport },
}

/// Whether the store knows who has a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HolderReport {
    /// It does not, and is to be told.
    Owed,
    /// It is asked to write it down; until it has answered, an outcome may still be first.
    Asked,
    /// It does, or the lease is over.
    Done,
    /// Its database is unavailable. The lease is in the engine's journal, and the store learns of it when it is back (`for_later`).
    ForLater,
}

/// Why a ready task is not offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Gate {
    /// The task's database does not answer.
    Database,
    /// The store could not be reached when it was to be marked. It is tried again every second, and anybody else may offer it
    /// meanwhile.
    Retry,
    /// A limit, a version or a kind keeps it from going: it is in a lane beside the line of its queue.
    Lane,
}

/// What happened to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TaskEvent {
    /// The entry is loaded again, at the same fence.
    PutBack,
    /// The store has made the claim.
    Claimed,
    /// It is unknown whether the store has made the claim.
    NotClaimed,
    /// The store refused the claim: the entry is not to fire.
    ClaimRefused,
    /// The store is asked for a lease.
    LeaseBegun,
    /// The store has made the lease.
    Granted,
    /// The store refused the lease, or did not answer.
    NotGranted,
    /// The instant has come.
    Due,
    /// A caller has taken the task out before its instant.
    Withdrawn,
    /// The lease is given back: the entry did not fire in time, or nothing is to be leased ahead.
    LeaseDropped,
    /// The engine gives the partition up.
    GivenUp,
    /// The store is asked for the lease of an executor.
    GrantBegun,
    /// It has answered, or the call has ended without an answer.
    GrantEnded,
    /// The gate is shut while the task is ready or its lease is asked for.
    Blocked(Gate),
    /// What keeps it in its lane may be over: it is in its order again.
    Opened,
    /// It is put into the line of its queue.
    Lined,
    /// Another engine asked for it.
    PassedOn,
    /// The task is taken out of the line, or from behind its gate, to be offered elsewhere.
    Taken,
    /// The store is asked to write down who has it.
    ReportBegun,
    /// The store knows, or the lease is over.
    Reported,
    /// The store may not know.
    NotReported,
    /// Its outcome is here, or it did not reach its executor.
    Ended,
    /// Nothing of it is left to be settled with the store, nor known of its attempt.
    Settled,
}
