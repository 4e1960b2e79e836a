//! Announces to the other engines how many tasks of a queue this engine's executors accept, and loads unfired
//! tasks that owners pass to it. `remote_leases` lists the steps. Must not lease anything.

use super::{may_be_leased, remote_leases::note_loaded, room};
use crate::core::Core;
use punctual_contract::ownership::Passed;
use punctual_domain::name::QueueKey;
use std::sync::Arc;

/// The owner of their partitions has passed these to this engine.
pub(crate) fn take_in(core: &Core, passed: Passed) {
    let loaded = core.live.lock().load_passed(passed.entries, |entry| may_be_leased(core, entry));
    note_loaded(core, &loaded);
    say_wanted(core, &Arc::new(passed.queue));
}

fn say_wanted(core: &Core, queue: &Arc<QueueKey>) {
    if core.holdings.has_others() && core.settings.is_plain(queue) {
        core.sharing.announcer.wanted(queue, room(core, queue, core.now()));
    }
}

/// Announces the demand of each queue that executors poll here.
pub(crate) fn say_all_wanted(core: &Core) {
    let since = core.now().plus(-super::ASKED_LATELY_MS);
    core.arrivals.asked_for(since).iter().for_each(|queue| say_wanted(core, queue));
}
