//! The strong ETag of a task, and the two conditions that clients make with it (RFC 9110, section 13).

use axum::http::{HeaderMap, HeaderValue, header};
use punctual_domain::task::Task;

/// Changes with everything that an answer about the task shows.
pub(crate) fn of(task: &Task) -> String {
    format!("\"{:x}.{}.{:x}.{:x}\"", task.fence, task.state.code(), task.updated_at.0, task.attempt)
}

pub(crate) fn header(task: &Task) -> HeaderValue {
    HeaderValue::try_from(of(task)).unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}

/// `If-None-Match` names the present state: the client has it already. Weak comparison.
pub(crate) fn is_known(headers: &HeaderMap, task: &Task) -> bool {
    named(headers, header::IF_NONE_MATCH).is_some_and(|text| {
        let tag = of(task);
        text.split(',').map(str::trim).any(|text| text == "*" || text.trim_start_matches("W/") == tag)
    })
}

/// `If-Match` as the client sent it, or `None` means no condition.
pub(crate) fn condition(headers: &HeaderMap) -> Option<String> {
    named(headers, header::IF_MATCH)
}

/// Strong comparison: a weak tag never matches.
pub(crate) fn matches(condition: &str, task: &Task) -> bool {
    let tag = of(task);
    condition.split(',').map(str::trim).any(|text| text == "*" || text == tag)
}

/// Several headers of one name mean the same as one with commas.
fn named(headers: &HeaderMap, name: header::HeaderName) -> Option<String> {
    let values: Vec<&str> =
        headers.get_all(name).iter().map(|header| header.to_str().unwrap_or("")).collect();
    if values.is_empty() { None } else { Some(values.join(",")) }
}

/// The ETag of settings: their revision.
pub(crate) fn of_revision(revision: i64) -> HeaderValue {
    HeaderValue::try_from(format!("\"{revision}\"")).unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}

/// `If-Match` names this revision. `*`: anything that is set.
pub(crate) fn is_revision(condition: &str, revision: i64) -> bool {
    let tag = format!("\"{revision}\"");
    condition.split(',').map(str::trim).any(|text| (text == "*" && revision > 0) || text == tag)
}
