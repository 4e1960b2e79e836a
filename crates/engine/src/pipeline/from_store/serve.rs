//! Puts what has fired where executors of this engine are served from. Asks neither the store nor the hot set.

use crate::core::Core;
use hashbrown::HashMap;
use punctual_contract::hot::{HotEntry, Lane};
use punctual_domain::{chooser::Level, name::QueueKey, settings::Retries, state::State};
use std::sync::Arc;

/// Each stands where its queue wants it. How many were not served already.
pub(crate) fn serve(core: &Core, entries: &[HotEntry]) -> usize {
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

/// Beside what executors are served with, in its lane. All are of one queue.
pub(super) fn park(core: &Core, lane: &Lane, entries: &[HotEntry], retries: Retries) {
    let level = |entry: &HotEntry| Level::of(entry.priority, entry.attempt, retries);
    core.live.lock().park(lane, entries, level);
}

/// Of tasks that have come back, those that have fired. The others fire by the next scan of their queue.
pub(crate) fn serve_ready(core: &Core, mut entries: Vec<HotEntry>) {
    entries.retain(|entry| entry.state == State::Ready);
    serve(core, &entries);
    entries.iter().for_each(|entry| core.arrived(&entry.queue, 1));
}
