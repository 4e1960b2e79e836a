//! The problem document (RFC 9457): the one shape of every error answer.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::codes::Code;
use crate::fields::{FieldError, Invalid};
use crate::task::Task;

/// Media type of a problem document.
pub const PROBLEM_CONTENT_TYPE: &str = "application/problem+json";

/// The path of a code's page, relative to the server.
const TYPE_PREFIX: &str = "/docs/errors/";

/// An error, as `application/problem+json` (RFC 9457).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Problem {
    /// The address of the page about this code.
    #[serde(rename = "type", default)]
    #[schema(required = true, example = "/docs/errors/task.already_fired")]
    pub kind: Cow<'static, str>,
    /// The same sentence for every occurrence of the code.
    #[serde(default)]
    #[schema(required = true)]
    pub title: Cow<'static, str>,
    /// HTTP status.
    #[serde(default)]
    #[schema(required = true)]
    pub status: u16,
    /// A stable code for programs.
    #[serde(default)]
    #[schema(required = true, example = "task.already_fired")]
    pub code: Cow<'static, str>,
    /// The details of this occurrence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Each field that is not valid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// The existing task in its current state, if it is the reason for the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Task>)]
    pub existing: Option<Box<Task>>,
    /// The time until the next try, like the header `Retry-After`, but in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Members beyond these.
    #[serde(flatten)]
    #[schema(ignore)]
    pub extensions: BTreeMap<String, serde_json::Value>,
}

impl Problem {
    /// A problem of this code, with the details of this occurrence.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        let info = code.info();
        Self {
            kind: format!("{TYPE_PREFIX}{}", info.name).into(),
            title: info.title.into(),
            status: info.status,
            code: info.name.into(),
            detail: detail.into(),
            errors: Vec::new(),
            existing: None,
            retry_after_ms: None,
            extensions: BTreeMap::new(),
        }
    }

    /// Adds the task that is the obstacle.
    #[must_use]
    pub fn with_existing(mut self, existing: Task) -> Self {
        self.existing = Some(Box::new(existing));
        self
    }

    /// Sets when to try again.
    #[must_use]
    pub fn retry_after_ms(mut self, retry_after_ms: u64) -> Self {
        self.retry_after_ms = Some(retry_after_ms);
        self
    }

    /// True if the problem has this code.
    pub fn is(&self, code: Code) -> bool {
        self.code == code.name()
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        Self { errors: invalid.errors.clone(), ..Self::new(invalid.code, invalid.summary()) }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}, {})", self.title, self.code, self.status)?;
        if self.detail.is_empty() { Ok(()) } else { write!(f, ": {}", self.detail) }
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_reads_like_this() {
        let problem = Problem::from(Invalid::from(FieldError::new("/priority", "must be between 1 and 5")));
        let golden = concat!(
            r#"{"type":"/docs/errors/request.invalid","title":"The request is not valid","status":400,"#,
            r#""code":"request.invalid","detail":"/priority: must be between 1 and 5","#,
            r#""errors":[{"pointer":"/priority","detail":"must be between 1 and 5"}]}"#
        );
        assert_eq!(serde_json::to_string(&problem).unwrap(), golden);
        assert_eq!(serde_json::from_str::<Problem>(golden).unwrap(), problem);
    }

    #[test]
    fn the_existing_task_travels_with_its_payload_letter_for_letter() {
        let task = crate::task::tests::sample();
        let problem = Problem::new(Code::TaskVersionSuperseded, "version 3 is known").with_existing(task);
        let json = serde_json::to_string(&problem).unwrap();
        assert!(json.contains(r#""payload":{"to": "x"}"#), "{json}");
        assert_eq!(serde_json::from_str::<Problem>(&json).unwrap(), problem);
    }

    #[test]
    fn members_of_a_newer_server_are_kept() {
        let problem: Problem =
            serde_json::from_str(r#"{"status":409,"code":"task.new_thing","limit":{"a":1}}"#).unwrap();
        assert_eq!(problem.extensions["limit"]["a"], 1);
        assert!(!problem.is(Code::TaskNotFound) && Code::from_name(&problem.code).is_none());
    }
}
