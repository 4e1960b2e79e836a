//! The reason why a page, or a part of it, cannot be shown. It has the API's message, word for word.

use axum::http::StatusCode;
use punctual_protocol::{Code, FieldError, Problem};

#[derive(Debug)]
pub(crate) enum Fault {
    /// The API wants a token, or a better one; in its words.
    SignIn(String),
    Refused(Box<Problem>),
    /// The page does not exist.
    NotFound,
    /// A form that no page of ours has sent.
    Forged(&'static str),
    /// The input is not valid here.
    Invalid(String),
    /// The address names a namespace that there cannot be.
    Misnamed(String),
    /// An answer of the API that is not understood: a fault of ours.
    Unreadable(String),
}

impl Fault {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::SignIn(_) => StatusCode::UNAUTHORIZED,
            Self::Refused(problem) => {
                StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
            }
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::Forged(_) => StatusCode::FORBIDDEN,
            Self::Invalid(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Misnamed(_) => StatusCode::BAD_REQUEST,
            Self::Unreadable(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    pub(crate) fn title(&self) -> &str {
        match self {
            Self::SignIn(_) => "Sign in",
            Self::Refused(problem) => &problem.title,
            Self::NotFound => "There is no such page",
            Self::Forged(_) => "This form did not come from the console",
            Self::Invalid(_) => "This cannot be done so",
            Self::Misnamed(_) => "There is no such namespace",
            Self::Unreadable(_) => "The console does not understand the API's answer",
        }
    }

    pub(crate) fn detail(&self) -> &str {
        match self {
            Self::SignIn(text) | Self::Invalid(text) | Self::Misnamed(text) | Self::Unreadable(text) => text,
            Self::Refused(problem) => &problem.detail,
            Self::NotFound => "There is no such page. What it showed may have been deleted.",
            Self::Forged(text) => text,
        }
    }

    /// The stable word, of what the API has refused.
    pub(crate) fn code(&self) -> Option<&str> {
        match self {
            Self::Refused(problem) => Some(&problem.code),
            Self::SignIn(_)
            | Self::NotFound
            | Self::Forged(_)
            | Self::Invalid(_)
            | Self::Misnamed(_)
            | Self::Unreadable(_) => None,
        }
    }

    /// The fields that are not valid.
    pub(crate) fn fields(&self) -> &[FieldError] {
        match self {
            Self::Refused(problem) => &problem.errors,
            Self::SignIn(_)
            | Self::NotFound
            | Self::Forged(_)
            | Self::Invalid(_)
            | Self::Misnamed(_)
            | Self::Unreadable(_) => &[],
        }
    }

    /// The caller's roles or reach do not go so far: nothing is broken.
    pub(crate) fn is_denied(&self) -> bool {
        self.status() == StatusCode::FORBIDDEN
    }

    /// A database did not answer.
    pub(crate) fn is_store_away(&self) -> bool {
        let codes = [Code::StoreUnavailable.name(), Code::StoreOutcomeUnknown.name()];
        self.code().is_some_and(|code| codes.contains(&code))
    }

    /// True if the fault replaces the complete page: the caller is not known.
    pub(crate) fn is_sign_in(&self) -> bool {
        matches!(self, Self::SignIn(_))
    }
}
