//! The challenge of an answer 401: how a caller authenticates. Must never decide whether a request is refused.

use crate::refusal::Refusal;
use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};

const CHALLENGE: HeaderValue = HeaderValue::from_static("Bearer realm=\"punctual\"");

/// The answer of a refusal; with a challenge if the token was missing or invalid.
pub(crate) fn challenged(refusal: Refusal) -> Response {
    with_challenge(refusal.into_response())
}

pub(super) fn with_challenge(mut response: Response) -> Response {
    if response.status() == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, CHALLENGE);
    }
    response
}
