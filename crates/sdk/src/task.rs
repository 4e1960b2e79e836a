//! A task as its handler has it, and its other end, by which the executor asks the handler to stop and reads
//! its progress.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use punctual_protocol::limits::{LOG_LEVEL_MAX_CHARS, LOG_LINES_MAX, LOG_TEXT_MAX_CHARS};
use punctual_protocol::{Json, LeasedTask, NewLogLine};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::handlers::HandlerError;

/// A task to run. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Task {
    leased: Arc<LeasedTask>,
    control: Control,
}

impl Task {
    /// A task outside of a worker, for tests of handlers and for engines that run them in process.
    pub fn new(leased: LeasedTask, control: Control) -> Self {
        Self { leased: Arc::new(leased), control }
    }

    /// Works for ever, with every call about this task.
    pub fn reference(&self) -> &str {
        &self.leased.r#ref
    }

    pub fn task_id(&self) -> i64 {
        self.leased.task_id
    }

    pub fn task_version(&self) -> i64 {
        self.leased.task_version
    }

    pub fn queue(&self) -> &str {
        &self.leased.queue
    }

    pub fn kind(&self) -> &str {
        &self.leased.kind
    }

    /// Number of this attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.leased.attempt
    }

    pub fn max_attempts(&self) -> u32 {
        self.leased.max_attempts
    }

    /// The requested execution time, epoch milliseconds.
    pub fn execute_at_ms(&self) -> i64 {
        self.leased.execute_at_ms
    }

    /// The instant at which the attempt fired, epoch milliseconds.
    pub fn fired_at_ms(&self) -> i64 {
        self.leased.fired_at_ms
    }

    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.leased.labels
    }

    /// W3C trace context of the insert.
    pub fn traceparent(&self) -> Option<&str> {
        self.leased.traceparent.as_deref()
    }

    /// The payload as a type of the caller's. One that does not fit is rejected, not retried: it will never fit.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, HandlerError> {
        let text = self.leased.payload.as_ref().map_or("null", Json::get);
        serde_json::from_str(text).map_err(|e| HandlerError::reject(format!("the payload does not fit: {e}")))
    }

    /// The payload as bytes: those that were sent as such, or the text of the JSON.
    pub fn payload_bytes(&self) -> Cow<'_, [u8]> {
        match (&self.leased.payload_base64, &self.leased.payload) {
            (Some(bytes), _) => Cow::Borrowed(&bytes.0),
            (None, Some(json)) => Cow::Borrowed(json.get().as_bytes()),
            (None, None) => Cow::Borrowed(&[]),
        }
    }

    /// Sets the task's progress; the newest value is sent with the next heartbeat.
    pub fn progress<T: Serialize + ?Sized>(&self, progress: &T) -> Result<(), serde_json::Error> {
        self.control.set_progress(Json::of(progress)?);
        Ok(())
    }

    /// Adds a log line that is stored with the task. Sent with the next heartbeat, or with the outcome; if
    /// there are too many lines until then, the oldest are dropped.
    pub fn log(&self, level: &str, text: impl Into<String>) {
        self.control.say(level, text.into());
    }

    /// Waits until the task is asked to stop. The handler's later result is still its outcome.
    pub async fn cancelled(&self) {
        self.control.cancel.cancelled().await;
    }

    /// True if the task is requested to stop.
    pub fn is_cancelled(&self) -> bool {
        self.control.cancel.is_cancelled()
    }
}

/// The other end of a running task.
#[derive(Clone, Debug, Default)]
pub struct Control {
    cancel: CancellationToken,
    progress: Arc<Mutex<Option<Json>>>,
    log: Arc<Mutex<VecDeque<NewLogLine>>>,
}

impl Control {
    /// Asks the handler to stop.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// The handler's latest progress, returned once.
    pub fn take_progress(&self) -> Option<Json> {
        self.lock().take()
    }

    /// The handler's log lines since the last call, the oldest first; each line once.
    pub fn take_log(&self) -> Vec<NewLogLine> {
        self.lines().drain(..).collect()
    }

    fn say(&self, level: &str, text: String) {
        let level = Some(level.chars().take(LOG_LEVEL_MAX_CHARS).collect())
            .filter(|letter: &String| !letter.is_empty());
        let text = text.chars().take(LOG_TEXT_MAX_CHARS).collect();
        let mut lines = self.lines();
        if lines.len() >= LOG_LINES_MAX {
            lines.pop_front();
        }
        lines.push_back(NewLogLine { at_ms: None, level, text });
    }

    /// Puts back unsent lines, before newer ones.
    pub(crate) fn restore_log(&self, unsent: Vec<NewLogLine>) {
        let mut lines = self.lines();
        for line in unsent.into_iter().rev() {
            if lines.len() < LOG_LINES_MAX {
                lines.push_front(line);
            }
        }
    }

    fn lines(&self) -> std::sync::MutexGuard<'_, VecDeque<NewLogLine>> {
        // Nothing panics while it is held.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_progress(&self, progress: Json) {
        *self.lock() = Some(progress);
    }

    /// Puts back unsent progress, unless there is a newer value.
    pub(crate) fn restore_progress(&self, progress: Option<Json>) {
        let mut newest = self.lock();
        *newest = newest.take().or(progress);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Json>> {
        // Nothing panics while it is held, and a half-written Option does not exist.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(payload: Option<&str>) -> Task {
        let payload = payload.map(|text| Json::from_text(text.into()).unwrap());
        Task::new(LeasedTask { payload, ..LeasedTask::default() }, Control::default())
    }

    #[test]
    fn a_payload_is_read_as_the_callers_type() {
        assert_eq!(task(Some("[1,2]")).payload::<Vec<u8>>().unwrap(), [1, 2]);
        assert_eq!(task(None).payload::<Option<u8>>().unwrap(), None);
        assert!(matches!(task(Some("{}")).payload::<u8>(), Err(HandlerError::Reject { .. })));
    }

    #[test]
    fn a_payload_has_bytes_whatever_it_is() {
        assert_eq!(task(Some("[1, 2]")).payload_bytes().as_ref(), b"[1, 2]");
        let leased = LeasedTask {
            payload_base64: Some(punctual_protocol::Base64(vec![255])),
            ..LeasedTask::default()
        };
        assert_eq!(Task::new(leased, Control::default()).payload_bytes().as_ref(), [255]);
        assert!(task(None).payload_bytes().is_empty());
    }

    #[test]
    fn of_what_is_said_too_fast_the_oldest_lines_go() {
        let task = task(None);
        task.log("info", "é".repeat(5_000));
        (0..LOG_LINES_MAX).for_each(|nth| task.log("", nth.to_string()));
        let said = task.control.take_log();
        assert_eq!((said.len(), said[0].text.as_str(), &said[0].level), (LOG_LINES_MAX, "0", &None));
        assert_eq!(task.control.take_log(), []);
        task.log("a level that is too long", "later");
        task.control.restore_log(said[98..].to_vec());
        let texts: Vec<_> = task.control.take_log().into_iter().map(|line| line.text).collect();
        assert_eq!(texts, ["98", "99", "later"]);
    }

    #[test]
    fn progress_is_told_once_and_newer_wins_over_what_comes_back() {
        let task = task(None);
        task.progress(&1).unwrap();
        let unsent = task.control.take_progress();
        assert_eq!((unsent.as_ref().map(Json::get), task.control.take_progress()), (Some("1"), None));
        task.progress(&2).unwrap();
        task.control.restore_progress(unsent.clone());
        assert_eq!(task.control.take_progress().as_ref().map(Json::get), Some("2"));
        task.control.restore_progress(unsent);
        assert_eq!(task.control.take_progress().as_ref().map(Json::get), Some("1"));
    }
}
