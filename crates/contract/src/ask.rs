//! The parts of a caller's request that executors get and that no other field of a hot entry has. They travel
//! with the entry, so that a hand-over reads nothing. Must contain only what cannot change while a task keeps
//! its fence.

use punctual_domain::{
    task::{Content, NewTask},
    time::Millis,
};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    pub payload: Content,
    pub max_attempts: u32,
    pub execute_at: Millis,
    pub timeout_ms: Option<i64>,
    pub labels: BTreeMap<String, String>,
    pub traceparent: Option<String>,
}

impl Ask {
    /// Bytes of the longest payload that travels with an entry.
    pub const PAYLOAD_LEN_MAX: usize = 1_024;
    /// Bytes of payload, labels and trace together.
    pub const BYTES_MAX: usize = 4_096;

    /// Returns `None` if the task is too long to be copied. Its row is then read before the hand-over.
    #[must_use]
    pub fn of(task: &NewTask) -> Option<Self> {
        let ask = || Self {
            payload: task.payload.clone(),
            max_attempts: task.max_attempts,
            execute_at: task.execute_at,
            timeout_ms: task.timeout_ms,
            labels: task.labels.clone(),
            traceparent: task.traceparent.clone(),
        };
        let has_short_payload = task.payload.bytes.len() <= Self::PAYLOAD_LEN_MAX;
        has_short_payload.then(ask).and_then(Self::fitting)
    }

    /// The same for a row that was read.
    #[must_use]
    pub fn fitting(self) -> Option<Self> {
        let is_short = self.payload.bytes.len() <= Self::PAYLOAD_LEN_MAX && self.bytes() <= Self::BYTES_MAX;
        is_short.then_some(self)
    }

    /// The bytes of the variable parts: payload, labels, trace.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let labels: usize = self.labels.iter().map(|(key, value)| key.len() + value.len()).sum();
        self.payload.bytes.len() + labels + self.traceparent.as_ref().map_or(0, String::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_domain::name::{Name, QueueKey};

    fn task(payload: usize, label: usize) -> NewTask {
        let name = Name::default_namespace;
        let mut task = NewTask::new(QueueKey { namespace: name(), queue: name() }, name(), Millis(1));
        task.payload.bytes = vec![b'x'; payload];
        task.labels.insert("k".into(), "v".repeat(label));
        task
    }

    #[test]
    fn what_is_too_long_does_not_travel() {
        let fits = |payload, label| {
            let ask = Ask::of(&task(payload, label));
            assert_eq!(ask, ask.clone().and_then(Ask::fitting));
            ask.is_some()
        };
        assert!(fits(Ask::PAYLOAD_LEN_MAX, 1) && !fits(Ask::PAYLOAD_LEN_MAX + 1, 1));
        assert!(fits(0, Ask::BYTES_MAX - 1) && !fits(0, Ask::BYTES_MAX));
        assert!(fits(1_024, Ask::BYTES_MAX - 1_025) && !fits(1_024, Ask::BYTES_MAX - 1_024));
    }
}
