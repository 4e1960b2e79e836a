//! Step 1, insert: tasks are stored first, and what is due soon goes straight to the hot set after the commit.
//! Never acknowledges before the commit. Nothing rests on the load that follows it: the sweep finds what a crash
//! between the two left out.

use crate::{core::Core, pipeline::claim};
use punctual_contract::{Error, hot::HotEntry, store::Inserted};
use punctual_domain::{
    insert::Decision,
    task::{NewTask, Task},
    time::Millis,
};
use std::sync::Arc;

pub(crate) async fn insert(core: &Arc<Core>, tasks: Vec<NewTask>, by: &str) -> Result<Vec<Inserted>, Error> {
    let inserted = core.store.insert(tasks, by, core.now()).await?;
    let mut entries = Vec::new();
    for it in &inserted {
        if matches!(it.decision, Decision::Create | Decision::Replace) {
            core.meters.queue(&it.task.ask.queue).inserted(1);
            entries.push(entry_of(&it.task));
        }
    }
    admit_to_hot_set(core, entries).await;
    Ok(inserted)
}

/// Loads those that are due within what the hot set covers; the preloader brings the others in their time.
/// A failure here is not the caller's: the task is kept, and the sweep loads it.
pub(crate) async fn admit_to_hot_set(core: &Arc<Core>, mut entries: Vec<HotEntry>) {
    entries.retain(|it| it.due_at <= core.frontier(it.place.partition));
    if let Err(error) = load_and_claim(core, entries).await {
        tracing::warn!(%error, "tasks could not be loaded after their commit; the sweep will load them");
    }
}

/// Loads entries, and then sees that those are claimed that the claim loop has passed by. In this order: an entry that
/// is looked up before it is loaded could be missed by both. Nobody waits for the claim: one whose instant comes
/// before it is answered fires with the answer.
pub(crate) async fn load_and_claim(core: &Arc<Core>, entries: Vec<HotEntry>) -> Result<usize, Error> {
    if entries.is_empty() {
        return Ok(0);
    }
    let loaded = core.hot.load(entries.clone()).await?;
    let passed_by = |it: &HotEntry| core.claims.covers(it.place.partition, it.due_at);
    let soon: Vec<HotEntry> = entries.into_iter().filter(passed_by).collect();
    if !soon.is_empty() {
        let claiming = Arc::clone(core);
        core.detach_claim(async move {
            claim::claim(&claiming, soon).await;
        });
    }
    Ok(loaded)
}

pub(crate) fn entry_of(task: &Task) -> HotEntry {
    let deadline_at = task.ask.deadline_ms.map_or(Millis::MAX, |it| task.ask.execute_at.plus(it));
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
    }
}
