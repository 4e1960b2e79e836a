//! The stages of a task, and their events. `steps` has the legal events of each stage. This file must never decide a
//! move.

/// The stage of a task. A task that has left the table has no stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// The store is asked for the claim, which tasks of push queues have. `due`: the task became due before
    /// the answer.
    Claiming { due: bool },
    /// The task is not due yet, and no lease is requested.
    Waiting,
    /// The store is asked for a prelease. `due`: the task became due before the answer.
    Leasing { due: bool },
    /// Leased ahead of its instant.
    Leased,
    /// A caller has withdrawn the task, and the answer to its lease is on the way.
    Held,
    /// Fired, and given to a waiting executor, or left to the store because its line is long. It stays in the
    /// table while something about it is unsettled with the store.
    Offered,
    /// Fired, and passed to another engine, which asks the store for its lease.
    Passed,
    /// The task has fired, and this engine keeps it, whichever engine owns its partition: in the line of its queue,
    /// from which the executors that poll here are served, or behind a gate.
    Ready { gate: Option<Gate> },
    /// Fired, and the store is asked for the lease of an executor.
    Granting,
    /// An executor's lease was made, did not reach the executor, and could not be returned. The entry has the
    /// fence of the lease.
    InDoubt,
    /// An executor has the task. The entry has the fence of the lease. After a prelease, the store does not know the
    /// holder at first. Once no report is needed, it stays in the table while its facts may save a read.
    HandedOver { report: HolderReport },
}

/// States if the store knows the holder of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HolderReport {
    /// It does not, and must learn it.
    Owed,
    /// It is asked to write it down; until it has answered, an outcome may still be first.
    Asked,
    /// It does, or the lease is over.
    Done,
    /// The task's database is unavailable. The lease is in the engine's journal; the store learns of it after the
    /// outage (`for_later`).
    ForLater,
}

/// Why a ready task is not offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Gate {
    /// The task's database does not answer.
    Database,
    /// The store could not be reached to mark it. It is tried again every second, and any caller may offer it
    /// meanwhile.
    Retry,
    /// A limit, a version or a kind keeps it from going: it is in a lane beside the line of its queue.
    Lane,
}

/// An event of a task.
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
    /// The task is due.
    Due,
    /// A caller has taken the task out before it fired.
    Withdrawn,
    /// The lease is returned: the task did not fire in time, or preleasing has ended.
    LeaseDropped,
    /// The engine gives the partition up.
    GivenUp,
    /// The store is asked for an executor's lease.
    GrantBegun,
    /// It has answered, or the call has ended without an answer.
    GrantEnded,
    /// The gate is closed while the task is ready or its lease is requested.
    Blocked(Gate),
    /// The reason for its lane may have ended: it is in the order again.
    Opened,
    /// It is put into the line of its queue.
    Lined,
    /// Another engine requested it.
    PassedOn,
    /// The task is taken out of the line, or from behind its gate, to be offered elsewhere.
    Taken,
    /// The store is asked to record its holder.
    ReportBegun,
    /// The store knows, or the lease is over.
    Reported,
    /// The store may not know its holder.
    NotReported,
    /// The outcome of the attempt is here, or the attempt did not reach its executor.
    Ended,
    /// The store needs no more calls, and no facts of its attempt are known.
    Settled,
}
