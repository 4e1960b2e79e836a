//! Why a call about a schedule was not carried out.

use punctual_contract::Error as BackendError;
use punctual_domain::schedule::Invalid;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no such schedule")]
    NotFound,
    /// The caller expected another revision. The current revision is this; 0 if the schedule does not exist.
    #[error("the schedule is at revision {0}")]
    Otherwise(i64),
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// An expression costs more than it may.
    #[error("{}: {}", .0.field, .0.problem)]
    Budget(Invalid),
    /// The maximum number of instants and expressions waits to be computed.
    #[error("more schedules and expressions wait to be computed than may wait; try again later")]
    Busy,
    /// Others changed it again and again.
    #[error("others change the schedule again and again")]
    Contended,
    #[error(transparent)]
    Engine(#[from] punctual_engine::Error),
}

impl From<BackendError> for Error {
    fn from(error: BackendError) -> Self {
        Self::Engine(error.into())
    }
}
