//! The state that all parts of a run share, and the words of the interface that they need. Not the server's own
//! types: a change there that would break clients must break here.

use super::{book::Book, recorder::Recorder};
use crate::http::{HttpAnswer, Target};
use parking_lot::Mutex;
use serde_json::Value;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) target: Target,
    pub(crate) engines: usize,
    /// Task `n` has the id `base + n`.
    pub(crate) base: i64,
    pub(crate) book: Mutex<Book>,
    pub(crate) recorder: Mutex<Recorder>,
    /// The instant after which no insert begins, true microseconds; it moves while faults are still to come.
    ends_us: AtomicI64,
    /// Set if missing acknowledgements will never arrive.
    gives_up: AtomicBool,
}

impl Field {
    pub(crate) fn new(target: Target, engines: usize, base: i64) -> Self {
        let (ends_us, gives_up) = (AtomicI64::new(0), AtomicBool::new(false));
        let (book, recorder) = Default::default();
        Self { target, engines, base, book, recorder, ends_us, gives_up }
    }

    pub(crate) fn end_at(&self, ends_us: i64) {
        self.ends_us.store(ends_us, Relaxed);
    }

    pub(crate) fn ends_us(&self) -> i64 {
        self.ends_us.load(Relaxed)
    }

    pub(crate) fn give_up(&self) {
        self.gives_up.store(true, Relaxed);
    }

    pub(crate) fn has_given_up(&self) -> bool {
        self.gives_up.load(Relaxed)
    }

    pub(crate) fn task_id(&self, n: usize) -> i64 {
        self.base + i64::try_from(n).unwrap_or(i64::MAX - self.base)
    }

    /// `None` for no task of this run.
    pub(crate) fn index(&self, task_id: i64) -> Option<usize> {
        usize::try_from(task_id.checked_sub(self.base)?).ok()
    }
}

/// The meaning of an answer that is no success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum No {
    /// Nothing was done, and another try may help.
    Passing(String),
    /// It may have been done.
    Unknown(String),
    /// Nothing was done, and another try would not help.
    Final(String),
}

pub(crate) fn no(status: u16, code: &str) -> No {
    let code_or_status = if code.is_empty() { status.to_string() } else { code.to_owned() };
    match code {
        "store.outcome_unknown" | "internal" => No::Unknown(code_or_status),
        _ if status == 429 || status == 503 => No::Passing(code_or_status),
        _ if status >= 500 => No::Unknown(code_or_status),
        _ => No::Final(code_or_status),
    }
}

pub(crate) fn value(answer: &HttpAnswer<'_>) -> Value {
    serde_json::from_slice(answer.body).unwrap_or(Value::Null)
}

pub(crate) fn code(body: &Value) -> &str {
    body.get("code").and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn text<'a>(body: &'a Value, name: &str) -> &'a str {
    body.get(name).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn integer(body: &Value, name: &str) -> i64 {
    body.get(name).and_then(Value::as_i64).unwrap_or_default()
}

pub(crate) fn attempt(body: &Value) -> u32 {
    u32::try_from(integer(body, "attempt")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_say_what_was_done() {
        assert_eq!(no(503, "store.unavailable"), No::Passing("store.unavailable".into()));
        assert_eq!(no(503, "store.outcome_unknown"), No::Unknown("store.outcome_unknown".into()));
        assert_eq!(no(500, "internal"), No::Unknown("internal".into()));
        assert_eq!(no(502, ""), No::Unknown("502".into()));
        assert_eq!(no(429, "overload"), No::Passing("overload".into()));
        assert_eq!(no(409, "task.already_fired"), No::Final("task.already_fired".into()));
    }
}
