//! Errors between a client and the server. The variants answer the one important question after an error: may
//! it have happened nevertheless?

use std::error::Error as StdError;

use punctual_protocol::{BatchItem, Code, Invalid, Problem};

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server, or a check before sending, refused it. It did not happen.
    #[error("refused: {0}")]
    Refused(Box<Problem>),
    /// The request never reached the server. It did not happen.
    #[error("the server cannot be reached")]
    Unreachable {
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The request was sent, and no answer tells its result. It may have happened.
    #[error("it is not known whether the server has done it")]
    Indeterminate {
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The client or worker is set up in a way that cannot work.
    #[error("{what}")]
    Configuration {
        /// The setting, and its fault.
        what: String,
    },
}

impl Error {
    /// True if the call may have had its effect in spite of the error.
    pub fn may_have_happened(&self) -> bool {
        matches!(self, Self::Indeterminate { .. })
    }

    /// The server's problem document, if it sent one.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Refused(problem) => Some(problem),
            Self::Indeterminate { source } => source.downcast_ref(),
            Self::Unreachable { .. } | Self::Configuration { .. } => None,
        }
    }

    /// True if the server answered with this code.
    pub fn is(&self, code: Code) -> bool {
        self.problem().is_some_and(|problem| problem.is(code))
    }

    /// True if the very same call can succeed later.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Indeterminate { .. } => true,
            Self::Refused(problem) => passing(problem),
            Self::Configuration { .. } => false,
        }
    }

    /// Converts an answer that is not 2xx.
    pub(crate) fn from_problem(problem: Problem) -> Self {
        let boxed = Box::new(problem);
        if boxed.status < 500 || boxed.is(Code::Stopping) || boxed.is(Code::ConnectionsFull) {
            Self::Refused(boxed)
        } else {
            Self::Indeterminate { source: boxed }
        }
    }

    pub(crate) fn configuration(what: impl Into<String>) -> Self {
        Self::Configuration { what: what.into() }
    }
}

/// Refusals that are temporary and not caused by the request.
fn passing(problem: &Problem) -> bool {
    matches!(problem.status, 408 | 429)
        || problem.is(Code::Stopping)
        || problem.is(Code::ConnectionsFull)
        || problem.is(Code::IdempotencyInProgress)
}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Self {
        Self::Refused(Box::new(invalid.into()))
    }
}

/// A batch that stopped half-way.
#[derive(Debug, thiserror::Error)]
#[error("a batch stopped after {} tasks", done.len())]
pub struct BatchError {
    /// The results of the first tasks, in order. Those of the following ones are unknown, or they were not
    /// sent.
    pub done: Vec<BatchItem>,
    /// Why the next part has no result.
    #[source]
    pub source: Error,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_whether_it_may_have_happened() {
        for (code, maybe, later) in [
            (Code::TaskAlreadyFired, false, false),
            (Code::Overload, false, true),
            (Code::Stopping, false, true),
            (Code::ConnectionsFull, false, true),
            (Code::IdempotencyInProgress, false, true),
            (Code::StoreUnavailable, true, true),
            (Code::Internal, true, true),
        ] {
            let error = Error::from_problem(Problem::new(code, ""));
            assert_eq!((error.may_have_happened(), error.may_pass()), (maybe, later), "{code:?}");
            assert!(error.is(code));
        }
        assert!(!Error::Unreachable { source: "refused".into() }.may_have_happened());
    }
}
