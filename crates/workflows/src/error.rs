//! Why a call about a workflow was not carried out.

use punctual_contract::Error as BackendError;
use punctual_domain::workflow::{Invalid, Refused};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no such workflow")]
    NotFound,
    #[error("the workflow has no such node")]
    NoSuchNode,
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The state of the workflow does not allow the change.
    #[error("{}", told(*.0))]
    Refused(Refused),
    /// Others moved it on again and again.
    #[error("others change the workflow again and again")]
    Contended,
    /// Too many documents wait to be read.
    #[error("more expressions wait to be evaluated than may wait; try again later")]
    Busy,
    #[error(transparent)]
    Engine(#[from] punctual_engine::Error),
}

/// Inside of a [`BackendError`], for the caller of a command.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("others change the workflow again and again")]
pub(crate) struct Contended;

impl From<BackendError> for Error {
    fn from(error: BackendError) -> Self {
        Self::Engine(error.into())
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

const fn told(refused: Refused) -> &'static str {
    match refused {
        Refused::Finished => "the workflow is over, or about to be",
        Refused::Running => "the workflow is not over",
        Refused::Ended => "the node has ended",
        Refused::Undone => "what the workflow had done was undone: run a copy of it",
    }
}
