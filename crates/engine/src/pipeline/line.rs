//! The line of each queue: tasks that this engine has fired or was passed, and that no executor has taken. It
//! is in the live table: tasks in order, and parked ones in lanes. Executors that ask this engine are served
//! from it. Asks neither the store nor the hot set.

use crate::core::Core;
use hashbrown::HashMap;
use punctual_contract::hot::{Admission, HotEntry, ParkReason};
use punctual_domain::{chooser::Level, name::QueueKey, settings::Retries, state::State, time::Millis};
use std::sync::Arc;

/// A task that waits here for this long must not be superseded by a prelease.
const SUPERSEDED_MS: i64 = 100;

/// These have fired: each is where its queue wants it. How many were not served already.
pub(crate) fn serve(core: &Core, entries: &[HotEntry]) -> usize {
    if entries.is_empty() {
        return 0;
    }
    let mut retries: HashMap<&Arc<QueueKey>, Retries> = HashMap::new();
    for entry in entries {
        retries.entry(&entry.queue).or_insert_with(|| core.settings.queue(&entry.queue).retries);
    }
    let level = |entry: &HotEntry| {
        let retries = retries.get(&entry.queue).copied().unwrap_or_default();
        Level::of(entry.priority, entry.attempt, retries)
    };
    core.live.lock().serve(entries, level)
}

/// The next tasks of a queue.
pub(crate) fn admit(core: &Core, queue: &QueueKey, admission: Admission) -> Vec<HotEntry> {
    let (taken, has_room) = {
        let mut table = core.live.lock();
        (table.take_served(queue, admission), table.has_room_again(queue))
    };
    if has_room {
        core.filling.overdue.ask();
    }
    taken
}

/// Discards entries that must not be handed over.
pub(crate) fn discard(core: &Core, entries: &[HotEntry]) {
    core.live.lock().discard(entries);
}

/// Out of the order, into their lane. All are of one queue.
pub(crate) fn park(core: &Core, lane: &ParkReason, entries: &[HotEntry], retries: Retries) {
    let level = |entry: &HotEntry| Level::of(entry.priority, entry.attempt, retries);
    core.live.lock().park(lane, entries, level);
}

/// Brings back at most `limit` tasks from a lane.
pub(crate) fn unpark(core: &Core, queue: &QueueKey, lane: &ParkReason, limit: usize) -> usize {
    core.live.lock().unpark(queue, lane, limit)
}

/// Lanes of a queue in which something is parked, in order, after one, and how much.
pub(crate) fn lanes(
    core: &Core,
    queue: &QueueKey,
    after: Option<&ParkReason>,
    limit: usize,
) -> Vec<(ParkReason, usize)> {
    core.live.lock().lanes(queue, after, limit)
}

/// Lines up returned tasks that have fired. The next scan of their queue fires the others.
pub(crate) fn serve_ready(core: &Core, mut entries: Vec<HotEntry>) {
    entries.retain(|entry| entry.state == State::Ready);
    serve(core, &entries);
    entries.iter().for_each(|entry| core.arrived(&entry.queue, 1));
}

/// True if no task of a queue waits here.
pub(crate) fn is_empty(core: &Core, queue: &QueueKey) -> bool {
    core.live.lock().line_counts(queue).all() == 0
}

/// A prelease would overtake a task that waits here without an executor.
pub(crate) fn would_be_superseded(core: &Core, queue: &QueueKey, now: Millis) -> bool {
    let before = now.plus(-SUPERSEDED_MS);
    core.live.lock().oldest_in(queue).is_some_and(|fired_at| fired_at < before)
}
