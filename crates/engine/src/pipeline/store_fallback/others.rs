//! Tasks that other engines have fired, for executors that poll here, while engines cannot pass tasks through the hot
//! set. They are read from the store and lined up here too. The store leases each task to one of the engines, by its
//! fence; another one is refused, and removes it. Must not fire anything: the owner does.

use super::scanned::{PAGES, Scanned, became_due_lately, next_page};
use crate::{
    core::Core,
    pipeline::{line, scan::state::Positions},
};
use hashbrown::{HashMap, HashSet};
use punctual_contract::{Error, hot::HotEntry};
use punctual_domain::{name::QueueKey, place::Partition, state::State};
use std::sync::Arc;

/// Tasks that fired this recently are left to the executors of their own engine.
const OWNERS_FIRST_MS: i64 = 100;
/// The maximum number of tasks of one queue that are lined up here before other engines are searched for more.
pub(in crate::pipeline) const SERVED_MAX: usize = 1_000;

/// Executors that ask at an interval, and do not wait, ask again within this.
pub(in crate::pipeline) const ASKED_WITHIN_MS: i64 = 10_000;

/// The number of further tasks that may be lined up, by queue that executors request here.
pub(in crate::pipeline) type Wanted = HashMap<Arc<QueueKey>, usize>;

/// The queues that executors request here, and the partitions to search. `None` if there are none. Tasks of other
/// queues are removed.
pub(in crate::pipeline) fn wanted(core: &Core) -> Option<(Wanted, HashSet<Partition>)> {
    let others: HashSet<Partition> = core.holdings.others().into_iter().collect();
    if others.is_empty() {
        return None;
    }
    let asked_for = serve_asked_for(core);
    let table = core.live.lock();
    let left = |queue: &QueueKey| SERVED_MAX.saturating_sub(table.line_counts(queue).all());
    // `scan` looks for tasks of scanned queues.
    let asked_for = asked_for.iter().filter(|queue| !core.settings.is_scanned(queue));
    let wanted: Wanted = asked_for.map(|queue| (Arc::clone(queue), left(queue))).collect();
    (!wanted.is_empty()).then_some((wanted, others))
}

/// Lines up tasks of other engines' partitions while executors request their queue here. Returns these
/// queues.
pub(in crate::pipeline) fn serve_asked_for(core: &Core) -> HashSet<Arc<QueueKey>> {
    let asked_for = core.arrivals.asked_for(core.now().plus(-ASKED_WITHIN_MS));
    let is_over = |queue: &QueueKey| !asked_for.contains(queue);
    let is_others = |entry: &HotEntry| core.holdings.tenure(entry.place.partition).is_none();
    drop(core.live.lock().serve_no_more(is_over, is_others));
    asked_for
}

/// Drops tasks of other engines' partitions: their owners line them up, or pass them.
pub(in crate::pipeline) fn serve_no_more(core: &Core) {
    let is_others = |entry: &HotEntry| core.holdings.tenure(entry.place.partition).is_none();
    drop(core.live.lock().serve_no_more(|queue| !core.settings.is_scanned(queue), is_others));
}

/// Reads until a task was found, or nothing is left to read.
pub(in crate::pipeline) async fn serve_partition(
    core: &Arc<Core>,
    positions: &Positions,
    partition: Partition,
    wanted: &Wanted,
    scanned: &mut Scanned,
) -> Result<usize, Error> {
    let mut served = 0;
    for _ in 0..PAGES {
        let (page, is_last) = next_page(core, positions, partition, scanned).await?;
        served = serve_some(core, page, |queue| wanted.get(queue).is_some_and(|left| *left > 0));
        if is_last {
            return Ok(served);
        }
        if served > 0 {
            break;
        }
    }
    // The pass continues in the next run: its queues' tasks keep their order, and tasks of other queues do
    // not wait for its end.
    let lately = became_due_lately(core, partition).await?;
    let are_served = core.live.lock().count_served();
    let is_wanted = |queue: &QueueKey| wanted.contains_key(queue) && !are_served.contains_key(queue);
    Ok(served + serve_some(core, lately, is_wanted))
}

fn serve_some(core: &Core, mut found: Vec<HotEntry>, is_wanted: impl Fn(&QueueKey) -> bool) -> usize {
    let before = core.now().plus(-OWNERS_FIRST_MS);
    found.retain(|entry| entry.state == State::Ready && entry.fired_at <= before && is_wanted(&entry.queue));
    let mut queues: HashMap<Arc<QueueKey>, usize> = HashMap::new();
    {
        let table = core.live.lock();
        found.retain(|entry| !table.serves(entry));
    }
    line::serve(core, &found);
    for entry in &found {
        *queues.entry(Arc::clone(&entry.queue)).or_default() += 1;
    }
    for (queue, count) in queues {
        core.arrived(&queue, count);
    }
    found.len()
}
