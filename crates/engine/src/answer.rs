//! The engine's answers to callers that change tasks. Every answer is definite, or is an error that says it
//! is not.

use punctual_contract::Error as BackendError;
use punctual_domain::task::Task;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no such task")]
    NotFound,
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// Others changed the task again and again while this change was tried.
    #[error("the task is being changed by others; try again")]
    Contended,
    #[error("the engine is stopping")]
    Stopping,
}

/// The result of a cancel.
#[derive(Debug, Clone, PartialEq)]
pub enum Cancelled {
    /// It has not fired and will not (or, when asked to, it had fired and was withdrawn before an executor had it).
    Cancelled(Box<Task>),
    /// An executor has the task, and learns of the stop request at its next heartbeat.
    StopRequested(Box<Task>),
    /// It has fired, or it is finished otherwise.
    AlreadyFired(Box<Task>),
}

/// The result of a change of a task.
#[derive(Debug, Clone, PartialEq)]
pub enum Changed {
    Changed(Box<Task>),
    /// The task's state does not allow the change. The variant has the task in its current state.
    Refused(Box<Task>),
}

/// The result of a deletion.
#[derive(Debug, Clone, PartialEq)]
pub enum Deleted {
    /// The deleted task, in its last state.
    Deleted(Box<Task>),
    /// The task is not finished, or is in an archive, from which nothing is deleted. The task in its current
    /// state.
    Refused(Box<Task>),
}

/// The result of an outcome report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reported {
    Accepted,
    /// The attempt is not (or no longer) the one that holds the task.
    Stale,
    /// The task's database does not answer. The outcome is durable in this engine's journal, and is applied when the
    /// database is back, if the attempt holds the task then.
    ForLater,
}
