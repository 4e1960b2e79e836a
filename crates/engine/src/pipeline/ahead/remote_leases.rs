//! Passes tasks to an engine at which executors wait, before they fire. That engine preleases them together
//! with its own, fires them and hands them over. Order of steps, and what a crash, a hang or a lost message
//! between two of them leaves:
//!
//! 1. *Wanted.* An engine announces each second, and after each batch, how many tasks of a queue its
//!    executors accept. Lost: the tasks fire at the owner of their partition, which sends `Ready`
//!    (`pipeline::remote_tasks`).
//! 2. *Passed.* The owner removes the tasks from its table and sends them in one message. Not sent, or the other
//!    engine does not listen: they return to its table, and that engine gets nothing until its next announcement.
//!    Lost, or the other engine dies: the owner's check of overdue tasks finds them in the store, `overdue_after_ms`
//!    after their due time.
//! 3. *Taken in.* The other engine has them in its table. From here on the steps are those of `ahead`. If it
//!    stops, it moves unfired tasks to the hot set, from which the owner takes them (`Engine::leave`).
//!
//! A cancel or a change at the owner is decided by the store's conditional update, or by the lease that the other engine has made.
//! Only for queues whose starts nothing limits or orders. Must not lease anything.

use crate::{core::Core, live::Loaded, sharing::announce};
use hashbrown::HashMap;
use punctual_contract::{
    hot::HotEntry,
    ownership::{Passed, Signal},
};
use punctual_domain::name::QueueKey;
use std::sync::Arc;

/// Passes candidates that no executor here waits for to engines whose executors do. Returns the others.
/// `is_worked_on`: executors here take tasks of the queue.
pub(super) fn pass_on(
    core: &Arc<Core>,
    near: Vec<HotEntry>,
    is_worked_on: impl Fn(&Arc<QueueKey>) -> bool,
) -> Vec<HotEntry> {
    if !core.holdings.has_others() || !core.sharing.elsewhere.is_something_wanted() {
        return near;
    }
    let doubtful = core.parts.doubtful(core.store.parts());
    let mut stays = Vec::new();
    let mut queues: HashMap<Arc<QueueKey>, Vec<HotEntry>> = HashMap::new();
    for entry in near {
        // A task that was passed to this engine is not passed on. A database that cannot lease it here cannot
        // lease it there either.
        let is_doubtful =
            !doubtful.is_empty() && doubtful.contains(&core.store.part_of(entry.place.partition));
        if core.holdings.tenure(entry.place.partition).is_some() && !is_doubtful {
            queues.entry(Arc::clone(&entry.queue)).or_default().push(entry);
        } else {
            stays.push(entry);
        }
    }
    for (queue, mut entries) in queues {
        let may_go = core.settings.is_plain(&queue) && !core.pushes(&queue) && !is_worked_on(&queue);
        let shares =
            if may_go { core.sharing.elsewhere.share_out(&queue, entries.len()) } else { Vec::new() };
        for (engine, count) in shares {
            let rest = entries.split_off(count.min(entries.len()));
            let going = core.live.lock().pass_ahead(std::mem::replace(&mut entries, rest));
            if !going.is_empty() {
                let (sending, queue) = (Arc::clone(core), Arc::clone(&queue));
                core.work.detach_claim(async move { send(&sending, engine, &queue, going).await });
            }
        }
        stays.extend(entries);
    }
    stays
}

async fn send(core: &Core, engine: String, queue: &QueueKey, entries: Vec<HotEntry>) {
    let passed = Passed {
        to: engine.clone(),
        from: core.options.name.clone(),
        number: Passed::AHEAD,
        queue: queue.clone(),
        entries: entries.clone(),
        granted_at: None,
        has_more: false,
    };
    if let Err(error) = announce::send(core, Signal::Passed(Box::new(passed))).await {
        let tasks = entries.len();
        core.sharing.elsewhere.wants(engine, queue.clone(), 0);
        tracing::warn!(%error, tasks, "tasks could not be passed to another engine before their time; they fire here");
        // Tasks of partitions that were given up meanwhile are in the store for their new owner.
        let loaded = core.live.lock().load(entries, |_| false, |_| true);
        note_loaded(core, &loaded);
    }
}

/// The table has accepted these: the timer must wake for them, and they may be preleased.
pub(super) fn note_loaded(core: &Core, loaded: &Loaded) {
    core.firing.timer.insert(loaded.accepted.iter().map(|entry| entry.due_at));
    if loaded.has_first_candidate {
        core.firing.ahead.something.notify_one();
    }
}
