//! The audit's data about the change of one task: as the change found it, and as it was read right after it. Never
//! contents: payloads, results and log lines of handlers stay with the task.

use crate::{access::Changed, answer};
use parking_lot::Mutex;
use punctual_domain::{history::clip, task::Task};
use punctual_protocol::State;
use serde::Serialize;
use std::sync::Arc;

/// Lines of the history of a task that is gone, the newest ones.
const LINES_MAX: usize = 50;
/// The maximum length of each error in it, in bytes.
const ERROR_MAX: usize = 512;

#[derive(Serialize)]
struct Brief<'a> {
    r#ref: String,
    task_id: i64,
    queue: &'a str,
    state: State,
    execute_at_ms: i64,
    priority: u8,
    attempt: u32,
    max_attempts: u32,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    payload_replaced: bool,
}

fn brief(task: &Task, payload_replaced: bool) -> Option<String> {
    let brief = Brief {
        r#ref: task.place.to_string(),
        task_id: task.task_id(),
        queue: task.ask.queue.queue.as_str(),
        state: answer::state(answer::shown(task)),
        execute_at_ms: task.ask.execute_at.0,
        priority: task.ask.priority.level(),
        attempt: task.attempt,
        max_attempts: task.ask.max_attempts,
        payload_replaced,
    };
    serde_json::to_string(&brief).ok()
}

/// A task as a change finds it: noted at each try, so that in the end it is the one from which the change was made, whatever
/// others did meanwhile.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskBefore(Arc<Mutex<Option<String>>>);

impl TaskBefore {
    pub(crate) fn note(&self, task: &Task) {
        *self.0.lock() = brief(task, false);
    }

    /// Returns a function that notes the task before its change.
    pub(crate) fn noting(&self) -> impl Fn(&Task) + Send + Sync + 'static {
        let found = self.clone();
        move |task| found.note(task)
    }

    /// The change, with the task after it.
    pub(crate) fn became(&self, after: &Task) -> Changed {
        self.became_with(after, false)
    }

    pub(crate) fn became_with(&self, after: &Task, payload_replaced: bool) -> Changed {
        Changed { before: self.0.lock().take(), after: brief(after, payload_replaced), reason: None }
    }
}

/// The change of a deleted task, with its history, which is stored nowhere else.
pub(crate) fn gone(task: &Task) -> Changed {
    let mut shown = answer::task(task.clone());
    (shown.payload, shown.payload_base64, shown.result) = (None, None, None);
    (shown.progress, shown.log) = (None, Vec::new());
    let passed_over = shown.history.len().saturating_sub(LINES_MAX);
    shown.history.drain(..passed_over);
    for text in shown.history.iter_mut().filter_map(|entry| entry.error.as_mut()).chain(&mut shown.last_error)
    {
        text.truncate(clip(text, ERROR_MAX).len());
    }
    Changed { before: serde_json::to_string(&shown).ok(), ..Changed::default() }
}
