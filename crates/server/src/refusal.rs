//! Every answer that is not a success: a problem document. The only place where an error becomes a status.

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use punctual_contract::{Error as BackendError, Happened};
use punctual_engine::Error;
use punctual_protocol::{Code, FieldError, Invalid, PROBLEM_CONTENT_TYPE, Problem};

/// The pause before the next try after a failure that is expected to pass.
const RETRY_AFTER_MS: u64 = 1_000;

/// The code of a refusal, attached to the answer for the counters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RefusedWith(pub(crate) Code);

/// A request that was not carried out (or, for two codes, may not have been).
#[derive(Debug)]
pub(crate) struct Refusal(Box<Problem>);

impl Refusal {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        let mut problem = Problem::new(code, detail);
        if matches!(code.status(), 429 | 503) {
            problem.retry_after_ms = Some(RETRY_AFTER_MS);
        }
        Self(Box::new(problem))
    }

    /// One field, parameter or path segment that is not valid.
    pub(crate) fn field(pointer: &str, detail: impl Into<String>) -> Self {
        FieldError::new(pointer, detail).into()
    }

    pub(crate) fn into_problem(self) -> Problem {
        *self.0
    }

    /// One of many, of which one line is logged.
    pub(crate) fn quietly(error: &BackendError) -> Self {
        let code = match error.happened {
            Happened::No => Code::StoreUnavailable,
            Happened::Maybe => Code::StoreOutcomeUnknown,
        };
        Self::new(code, error.to_string())
    }

    /// Converts an error after the requested change: the answer must not state that nothing was done.
    pub(crate) fn after_a_change(self) -> Self {
        if self.0.code != Code::StoreUnavailable.name() {
            return self;
        }
        let detail = format!("the change was made, and could not be read again: {}", self.0.detail);
        Self::new(Code::StoreOutcomeUnknown, detail)
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self(Box::new(problem))
    }
}

impl From<Invalid> for Refusal {
    fn from(invalid: Invalid) -> Self {
        Problem::from(invalid).into()
    }
}

impl From<FieldError> for Refusal {
    fn from(error: FieldError) -> Self {
        Invalid::from(error).into()
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            Error::NotFound => Self::new(Code::TaskNotFound, "the namespace has no task with this ref"),
            Error::Contended => Self::new(Code::TaskContended, error.to_string()),
            Error::Stopping => Self::new(Code::Stopping, error.to_string()),
            Error::Backend(error) => error.into(),
        }
    }
}

impl From<BackendError> for Refusal {
    fn from(error: BackendError) -> Self {
        let refusal = Self::quietly(&error);
        tracing::warn!(code = %refusal.0.code, %error, "a request failed in a back end");
        refusal
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let problem = self.0;
        let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        if let Some(code) = Code::from_name(&problem.code) {
            response.extensions_mut().insert(RefusedWith(code));
        }
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_CONTENT_TYPE));
        if let Some(ms) = problem.retry_after_ms {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(ms.div_ceil(1_000)));
        }
        response
    }
}
