//! Tasks that callers change, in queues that hand over without their database. No lease by the store would
//! refuse an entry that this engine still has of them. So their entries are removed from the table and the
//! hot set. Late results of earlier reads are refused for a while (`live::for_later`). Other queues need none
//! of this. Must not change a task.

use super::hand_over::is_allowed;
use crate::{core::Core, pipeline::store_fallback::with_hot_set};
use futures_util::future::join_all;
use punctual_contract::hot::HotEntry;
use punctual_domain::place::Partition;

/// Callers have changed these, which are as they were before, or may have.
fn changed(core: &Core, mut tasks: Vec<HotEntry>) {
    tasks.retain(|task| is_allowed(core, &task.queue));
    if !tasks.is_empty() {
        core.live.lock().changed_lately(tasks, core.now());
    }
}

/// These have replaced older versions of their tasks. Their queue may be allowed to hand over before an
/// earlier read ends: then its tasks are noted too, while there is room to spare.
pub(crate) fn replaced(core: &Core, tasks: &[HotEntry]) {
    if tasks.is_empty() || core.maintenance.for_later.journal().is_none() {
        return;
    }
    let mut table = core.live.lock();
    let has_spare_room = table.has_spare_room_for_changes();
    let noted = tasks.iter().filter(|task| has_spare_room || is_allowed(core, &task.queue));
    let before = noted.map(|task| HotEntry { fence: task.fence - 1, ..task.clone() }).collect();
    table.changed_lately(before, core.now());
}

/// The older versions leave the hot set. A load of the new version replaces them there; but it is not loaded where it is due soon, or
/// beyond the horizon.
pub(crate) async fn withdraw_replaced(core: &Core, tasks: &[HotEntry]) {
    let withdrawn =
        tasks.iter().map(|task| withdraw(core, (task.place.partition, task.place.id, task.fence - 1)));
    // While the hot set is unavailable nothing is drained from it.
    let work = async { Ok(join_all(withdrawn).await.len()) };
    let _ = with_hot_set(core, work).await;
}

/// Tasks that were changed while they were loaded are removed from the hot set.
pub(crate) async fn withdraw_changed(core: &Core, loaded: &[HotEntry]) {
    let changed = core.live.lock().changed_of(loaded);
    for name in changed {
        withdraw(core, name).await;
    }
}

async fn withdraw(core: &Core, (partition, id, fence): (Partition, i64, i64)) {
    if let Err(error) = core.hot.withdraw(partition, id, fence).await {
        tracing::debug!(%error, "a task that was changed may be left in the hot set");
    }
}

/// The store reports this state of a waiting or finished task: all traces of its earlier state are removed
/// here.
pub(crate) fn read_as(core: &Core, task: HotEntry) {
    if !(task.state.is_waiting() || task.state.is_finished()) || !is_allowed(core, &task.queue) {
        return;
    }
    // A move that ends a task keeps its fence; one that lets it wait again raises it.
    let fence = if task.state.is_finished() { task.fence } else { task.fence - 1 };
    let before = HotEntry { fence, ..task };
    {
        let mut table = core.live.lock();
        table.withdraw(before.place.id, before.fence);
        table.forget_fired(before.place.id, before.fence);
    }
    changed(core, vec![before]);
}

/// A running change of a task, from before the store is asked until its answer is known. If it is dropped,
/// its caller is gone, and the store may still make the change.
pub(crate) struct Changing<'c> {
    core: &'c Core,
    /// The task before the change. `None` if nothing is marked, or the answer is known.
    task: Option<HotEntry>,
}

/// Begins a change. From here on, late results of reads are not given to executors. `takes_fired` states that the
/// change removes the task from its line. Returns `None` if an executor has the task, or is about to get it.
pub(crate) fn begin(core: &Core, task: HotEntry, takes_fired: bool) -> Option<Changing<'_>> {
    if !is_allowed(core, &task.queue) {
        return Some(Changing::unmarked(core));
    }
    let may_go_on = core.live.lock().begin_change(&task, takes_fired);
    may_go_on.then_some(Changing { core, task: Some(task) })
}

impl<'c> Changing<'c> {
    /// Creates the guard of a preleased task, which is not marked: its stage keeps it from executors.
    pub(crate) const fn unmarked(core: &'c Core) -> Self {
        Self { core, task: None }
    }

    /// The store has made it. A load may have put the task, as it was before, into the hot set.
    pub(crate) async fn made(mut self) {
        if let Some(task) = self.task.take() {
            self.core.live.lock().end_change(&task, self.core.now());
            withdraw(self.core, (task.place.partition, task.place.id, task.fence)).await;
        }
    }

    /// It has not happened: the task is as it was.
    pub(crate) fn undone(mut self) {
        if let Some(task) = self.task.take() {
            self.core.live.lock().undo_change(&task);
        }
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            self.core.live.lock().end_change(&task, self.core.now());
        }
    }
}
