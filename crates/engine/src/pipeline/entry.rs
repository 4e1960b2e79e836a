//! Builds a task's entry for the table and the hot set from its row. Must not do I/O.

use punctual_contract::{
    Ask,
    hot::{Details, HotEntry},
};
use punctual_domain::{task::Task, time::Millis};
use std::sync::Arc;

pub(crate) fn entry_of(task: &Task) -> HotEntry {
    let deadline_at =
        task.ask.deadline_ms.map_or(Millis::MAX, |deadline_ms| task.ask.execute_at.plus(deadline_ms));
    HotEntry {
        place: task.place,
        due_at: task.due_at,
        fence: task.fence,
        queue: Arc::new(task.ask.queue.clone()),
        priority: task.ask.priority,
        task_id: task.task_id(),
        task_version: task.ask.task_version,
        deadline_at,
        state: task.state,
        fired_at: Millis::ZERO,
        attempt: task.attempt,
        details: Arc::new(Details {
            kind: Some(task.ask.kind.clone()),
            demands: task.ask.demands.clone(),
            ask: Ask::of(&task.ask).map(Arc::new),
        }),
    }
}
