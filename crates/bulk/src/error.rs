//! Why a call about a bulk operation was not carried out.

use punctual_contract::Error as BackendError;
use punctual_domain::bulk::BulkState;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no such bulk operation")]
    NotFound,
    /// The call is not allowed in the operation's state.
    #[error("the operation is {}", .0.word())]
    IsIn(BulkState),
    /// The operation is not at the step that the caller has previewed. The current step is this.
    #[error("the operation is at step {0}")]
    Otherwise(i64),
    #[error("the preview is too old: what it has counted may be wrong by now; make another")]
    TooOld,
    /// The action leaves no state that the filter allows.
    #[error("nothing that the filter allows can be changed by this action")]
    Nothing,
    /// Others changed it again and again.
    #[error("others change the operation again and again")]
    Contended,
    #[error(transparent)]
    Engine(#[from] punctual_engine::Error),
}

impl From<BackendError> for Error {
    fn from(error: BackendError) -> Self {
        Self::Engine(error.into())
    }
}
