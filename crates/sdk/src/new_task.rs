//! A task to insert, built step by step, with Rust's types for times. Contains no rule: faults are reported
//! when it is sent.

use std::ops::Deref;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use punctual_protocol::{InsertTask, Json, OnConflict, Retry};
use serde::Serialize;

/// A task to insert; wherever an `InsertTask` is required, `&` of this one works.
///
/// ```
/// use punctual_sdk::{NewTask, retry};
/// use std::time::Duration;
///
/// # fn run() -> Result<(), serde_json::Error> {
/// let welcome = NewTask::to("mail")
///     .kind("welcome")
///     .payload(&"ada")?
///     .delay(Duration::from_secs(90))
///     .timeout(Duration::from_secs(10))
///     .retry(retry::exponential(Duration::from_secs(1)));
/// assert_eq!((welcome.delay_ms, welcome.timeout_ms), (Some(90_000), Some(10_000)));
/// # Ok(()) }
/// # run().unwrap();
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct NewTask(InsertTask);

impl NewTask {
    /// Creates a task for this queue that is due now.
    pub fn to(queue: impl Into<String>) -> Self {
        Self(InsertTask::new(queue))
    }

    /// Selects the handler.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.0.kind = Some(kind.into());
        self
    }

    /// The handler's payload.
    pub fn payload<T: Serialize + ?Sized>(mut self, payload: &T) -> Result<Self, serde_json::Error> {
        self.0.payload = Some(Json::of(payload)?);
        Ok(self)
    }

    /// Identity in words: inserted again, it is the same task.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.0.key = Some(key.into());
        self
    }

    /// Identity as a number, instead of a key.
    #[must_use]
    pub fn task_id(mut self, task_id: i64) -> Self {
        self.0.task_id = Some(task_id.into());
        self
    }

    /// A higher version supersedes a lower one.
    #[must_use]
    pub fn version(mut self, task_version: i64) -> Self {
        self.0.task_version = Some(task_version.into());
        self
    }

    /// Sets the treatment of an existing task with the same identity.
    #[must_use]
    pub fn on_conflict(mut self, on_conflict: OnConflict) -> Self {
        self.0.on_conflict = Some(on_conflict);
        self
    }

    /// Sets a name for people.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.0.name = Some(name.into());
        self
    }

    /// 1 (first) to 5 (last).
    #[must_use]
    pub fn priority(mut self, priority: u8) -> Self {
        self.0.priority = Some(priority);
        self
    }

    /// This long after the server accepts it; rounded up to a millisecond, so never earlier.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        (self.0.delay_ms, self.0.execute_at_ms, self.0.execute_at) = (Some(ms_up(delay)), None, None);
        self
    }

    /// Sets the execution time, in place of a delay. An instant before 1970 is set to 1970.
    #[must_use]
    pub fn at(mut self, instant: SystemTime) -> Self {
        let since_epoch = instant.duration_since(UNIX_EPOCH).unwrap_or_default();
        (self.0.execute_at_ms, self.0.delay_ms, self.0.execute_at) = (Some(ms_up(since_epoch)), None, None);
        self
    }

    /// Attempts in all.
    #[must_use]
    pub fn max_attempts(mut self, max_attempts: u32) -> Self {
        self.0.max_attempts = Some(max_attempts);
        self
    }

    /// Sets the delay of the next attempt after a failed one; see [`crate::retry`].
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.0.retry = Some(retry);
        self
    }

    /// Sets the time limit of one attempt.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.0.timeout_ms = Some(ms_up(timeout));
        self
    }

    /// Sets the time after the execution time within which an attempt can begin.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.0.deadline_ms = Some(ms_up(deadline));
        self
    }

    /// A text to search by.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>, value: impl Into<String>) -> Self {
        self.0.labels.insert(label.into(), value.into());
        self
    }

    /// Tasks of one queue with the same key share its limits per key.
    #[must_use]
    pub fn concurrency_key(mut self, concurrency_key: impl Into<String>) -> Self {
        self.0.concurrency_key = Some(concurrency_key.into());
        self
    }

    /// Versions of the handler that may run it, such as `>=2.1, <3`.
    #[must_use]
    pub fn handler_versions(mut self, handler_versions: impl Into<String>) -> Self {
        self.0.handler_versions = Some(handler_versions.into());
        self
    }

    /// W3C trace context of the inserting caller: the task's spans are below this one. The server drops an
    /// ill-formed one.
    #[must_use]
    pub fn traceparent(mut self, traceparent: impl Into<String>) -> Self {
        self.0.traceparent = Some(traceparent.into());
        self
    }
}

impl Deref for NewTask {
    type Target = InsertTask;

    fn deref(&self) -> &InsertTask {
        &self.0
    }
}

impl From<NewTask> for InsertTask {
    fn from(new: NewTask) -> Self {
        new.0
    }
}

/// Converts a duration to milliseconds for the wire, rounded up.
pub(crate) fn ms_up(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_never_earlier_than_they_were_given() {
        let task = NewTask::to("q").delay(Duration::from_micros(1_001));
        assert_eq!(task.delay_ms, Some(2));
        let task = task.at(UNIX_EPOCH + Duration::from_nanos(5_000_001));
        assert_eq!((task.execute_at_ms, task.delay_ms), (Some(6), None));
        let task = task.delay(Duration::MAX);
        assert_eq!((task.execute_at_ms, task.delay_ms), (None, Some(i64::MAX)));
        assert_eq!(task.at(UNIX_EPOCH - Duration::from_secs(1)).execute_at_ms, Some(0));
    }

    #[test]
    fn each_step_sets_its_own_field() {
        let built = NewTask::to("q")
            .kind("k")
            .key("order-7")
            .version(3)
            .on_conflict(OnConflict::Keep)
            .name("n")
            .priority(1)
            .max_attempts(2)
            .retry(crate::retry::fixed(Duration::from_secs(3)))
            .timeout(Duration::from_secs(4))
            .deadline(Duration::from_secs(5))
            .label("team", "a")
            .concurrency_key("c")
            .handler_versions(">=1")
            .traceparent("00-1-2-01");
        let expected = concat!(
            r#"{"queue":"q","kind":"k","key":"order-7","on_conflict":"keep","name":"n","task_version":3,"priority":1,"#,
            r#""max_attempts":2,"retry":{"strategy":"fixed","delay_ms":3000},"timeout_ms":4000,"deadline_ms":5000,"#,
            r#""labels":{"team":"a"},"concurrency_key":"c","handler_versions":">=1","traceparent":"00-1-2-01"}"#
        );
        assert_eq!(serde_json::to_string(&*built).unwrap(), expected);
        assert!(built.check().is_ok());
        assert_eq!(NewTask::to("q").task_id(7).task_id, Some(7.into()));
    }
}
