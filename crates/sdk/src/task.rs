//! A task in the hands of a handler, and the other end of it, by which whoever runs the handler tells it to stop and
//! learns how far it is.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use punctual_protocol::{Json, LeasedTask};
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

    /// When it should fire, epoch milliseconds.
    pub fn execute_at_ms(&self) -> i64 {
        self.leased.execute_at_ms
    }

    /// When it fired, epoch milliseconds.
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

    /// Says how far the task is; the newest word goes out with the next heartbeat.
    pub fn progress<T: Serialize + ?Sized>(&self, progress: &T) -> Result<(), serde_json::Error> {
        self.control.set_progress(Json::of(progress)?);
        Ok(())
    }

    /// Waits until the task is asked to stop. What the handler returns after that is still its outcome.
    pub async fn cancelled(&self) {
        self.control.cancel.cancelled().await;
    }

    /// Whether the task is asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.control.cancel.is_cancelled()
    }
}

/// The other end of a running task.
#[derive(Clone, Debug, Default)]
pub struct Control {
    cancel: CancellationToken,
    progress: Arc<Mutex<Option<Json>>>,
}

impl Control {
    /// Asks the handler to stop.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// What the handler last said of its progress, once.
    pub fn take_progress(&self) -> Option<Json> {
        self.lock().take()
    }

    fn set_progress(&self, progress: Json) {
        *self.lock() = Some(progress);
    }

    /// Puts back what could not be sent, unless there is newer.
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
