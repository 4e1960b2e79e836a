//! What the engine answers to the callers for a change. Every answer is definite, or is an error that says so.

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

/// What became of the wish to cancel.
#[derive(Debug, Clone, PartialEq)]
pub enum Cancelled {
    /// It has not fired and will not (or, when asked to, it had fired and was withdrawn before an executor had it).
    Cancelled(Box<Task>),
    /// It is with an executor, which learns of the wish at its next heartbeat.
    StopRequested(Box<Task>),
    /// It has fired, or it is finished otherwise.
    AlreadyFired(Box<Task>),
}

/// What became of the wish to change a task.
#[derive(Debug, Clone, PartialEq)]
pub enum Changed {
    Changed(Box<Task>),
    /// Its state does not allow the change; the task in its current state.
    Refused(Box<Task>),
}

/// What became of the wish to delete a task.
#[derive(Debug, Clone, PartialEq)]
pub enum Deleted {
    /// It is gone; as it was.
    Deleted(Box<Task>),
    /// It is not finished; or it is in an archive, from which nothing is deleted. The task in its current state.
    Refused(Box<Task>),
}

/// What became of an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reported {
    Accepted,
    /// The attempt is not (or no longer) the one that holds the task.
    Stale,
    /// Its database does not answer; it is durable in this engine's journal, and is applied when the database is back, if the
    /// attempt holds the task then.
    ForLater,
}
