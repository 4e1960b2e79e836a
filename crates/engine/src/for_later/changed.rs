//! Tasks that callers change, where tasks are handed over while their database is away: no lease by the store would refuse what this
//! engine still has of them. So nothing of them is left in the table or in the hot set, and what a read that began before brings late
//! is refused for a while (`live::for_later`). Elsewhere nothing of this is done. Must not change a task.

use super::hand_over::is_allowed;
use crate::core::Core;
use punctual_contract::hot::HotEntry;
use punctual_domain::{place::Partition, state::State};

/// Callers have changed these, which are as they were before, or may have.
pub(crate) fn changed(core: &Core, mut tasks: Vec<HotEntry>) {
    tasks.retain(|task| is_allowed(core, &task.queue));
    if !tasks.is_empty() {
        core.live.lock().changed_lately(tasks, core.now());
    }
}

/// The store has changed this, which is as it was before. A load may have put it into the hot set since it was taken out.
pub(crate) async fn changed_everywhere(core: &Core, task: HotEntry) {
    if is_allowed(core, &task.queue) {
        let name = (task.place.partition, task.place.id, task.fence);
        changed(core, vec![task]);
        withdraw(core, name).await;
    }
}

/// What was changed while it was loaded into the hot set leaves it.
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

/// The store says this of a task that waits or has ended: nothing is left here of what it was before.
pub(crate) fn read_as(core: &Core, task: HotEntry) {
    if !(task.state.is_waiting() || task.state.is_finished()) || !is_allowed(core, &task.queue) {
        return;
    }
    // What ends a task keeps its fence; what has it wait again makes a new one.
    let fence = if task.state.is_finished() { task.fence } else { task.fence - 1 };
    let before = HotEntry { fence, ..task };
    {
        let mut table = core.live.lock();
        table.withdraw(before.place.id, before.fence);
        table.forget_fired(before.place.id, before.fence);
    }
    changed(core, vec![before]);
}

/// A caller takes out a task that has fired: no executor is given it meanwhile. False: one has it, or is about to.
pub(crate) fn take_out_fired(core: &Core, task: &HotEntry) -> bool {
    if !matches!(task.state, State::Ready | State::DispatchFailed) || !is_allowed(core, &task.queue) {
        return true;
    }
    let mut table = core.live.lock();
    let (id, fence) = (task.place.id, task.fence);
    if table.for_later(id, fence + 1).is_some_and(|lease| lease.written_until.is_none()) {
        return false;
    }
    table.forget_fired(id, fence);
    table.discard(std::slice::from_ref(task));
    true
}
