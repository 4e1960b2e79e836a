//! Fire: takes due tasks from the table; from then on they have fired, and a later cancel is refused.
//! No server is asked. Preleased tasks go to executors, the others to waiters or into the lines of their
//! queues. Must not fire a task that is not due on the engine's clock.

use crate::{
    core::Core,
    live::Fired,
    options::STEP_LIMIT,
    parts,
    pipeline::{ahead, drain, line, store_fallback},
};
use hashbrown::{HashMap, HashSet};
use punctual_contract::{Error, hot::HotEntry};
use punctual_domain::{name::QueueKey, state::State};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::mpsc::UnboundedReceiver,
    time::{Instant, sleep},
};

/// A round that lasts longer than this shows a busy machine. After a round with many tasks, the loop rests
/// for a multiple of the excess, in which more tasks fall due: offering one task costs as much as offering
/// twenty.
const BUSY_FROM: Duration = Duration::from_millis(3);
const MANY: usize = 32;
const REST_TIMES: u32 = 4;
const REST_MAX: Duration = Duration::from_millis(10);

/// The interval at which the loop reports its liveness without due tasks.
const IDLE: Duration = Duration::from_secs(1);

/// Fires as the wheel wakes, until the engine stops.
pub(crate) async fn fire_when_due(
    core: Arc<Core>,
    ticks: Arc<tokio::sync::Mutex<UnboundedReceiver<()>>>,
) -> Result<usize, Error> {
    let mut ticks = ticks.lock().await;
    let mut fired = 0;
    let mut idle = tokio::time::interval(IDLE);
    loop {
        let tick = tokio::select! {
            biased;
            () = core.work.stopping.cancelled() => return Ok(fired),
            tick = ticks.recv() => tick,
            _ = idle.tick() => {
                core.health.firing.beat();
                continue;
            }
        };
        if tick.is_none() {
            return Ok(fired);
        }
        while ticks.try_recv().is_ok() {}
        let began = Instant::now();
        let some = fire_all(&core).await;
        fired += some;
        core.health.firing.beat();
        let rest = rest_after(began.elapsed(), some);
        if !rest.is_zero() {
            sleep(rest).await;
        }
    }
}

fn rest_after(round: Duration, fired: usize) -> Duration {
    if fired < MANY {
        return Duration::ZERO;
    }
    (round.saturating_sub(BUSY_FROM) * REST_TIMES).min(REST_MAX)
}

/// Fires all due tasks. Returns their number. Tasks that fire together are offered together, so that their
/// order does not depend on their partitions.
pub(crate) async fn fire_all(core: &Arc<Core>) -> usize {
    let mut count = 0;
    loop {
        let (fired, is_all) = core.live.lock().fire(core.now(), STEP_LIMIT);
        count += fired.len();
        let (mut to_lease, mut leased) = (Vec::new(), Vec::new());
        for task in fired {
            match task {
                Fired::ToLease(entry) => to_lease.push(entry),
                Fired::Leased(ready) => leased.push(*ready),
            }
        }
        ahead::deliver(core, leased).await;
        go_on(core, to_lease);
        if is_all {
            return count;
        }
    }
}

/// Continues with fired tasks. Those that need a mark are marked first.
pub(crate) fn go_on(core: &Arc<Core>, fired: Vec<HotEntry>) -> usize {
    let (to_mark, rest): (Vec<_>, Vec<_>) =
        fired.into_iter().partition(|entry| drain::needs_mark(core, entry));
    let (offered, marked) = (offer(core, rest), to_mark.len());
    for (_, some) in parts::split(core, to_mark, |entry| entry.place.partition) {
        // No caller waits for these: their database may be silent. Each is offered once it is marked.
        core.work.detach_claim(mark_late(Arc::clone(core), some));
    }
    offered + marked
}

/// Marks tasks of one part.
async fn mark_late(core: Arc<Core>, entries: Vec<HotEntry>) {
    match drain::mark(&core, &entries).await {
        // Those that the store refused were cancelled, changed or handed over.
        Ok((won, _)) => drop(offer(&core, won)),
        Err(error) => {
            core.live.lock().hold_back(&entries);
            tracing::warn!(%error, tasks = entries.len(), "tasks could not be marked as they fired; it will be repeated");
        }
    }
}

/// Gives fired tasks to waiters, and puts the others into the lines of their queues. Returns how many.
pub(crate) fn offer(core: &Core, entries: Vec<HotEntry>) -> usize {
    if entries.is_empty() {
        return 0;
    }
    let count = entries.len();
    let counted = core.live.lock().note_fired(&entries);
    for (queue, fired) in by_queue(entries) {
        store_fallback::count_fired(core, fired.iter().filter(|entry| is_new(entry, &counted)));
        core.meters.queue(&queue).fired(&lateness_ms(&fired, &counted));
        let rest = give(core, &queue, fired);
        if !rest.is_empty() {
            line::serve(core, &rest);
            core.arrived(&queue, rest.len());
        }
    }
    count
}

fn by_queue(entries: Vec<HotEntry>) -> HashMap<Arc<QueueKey>, Vec<HotEntry>> {
    let mut queues: HashMap<Arc<QueueKey>, Vec<HotEntry>> = HashMap::new();
    for entry in entries {
        queues.entry(Arc::clone(&entry.queue)).or_default().push(entry);
    }
    queues
}

/// The task had fired before: the store has it as ready, or as unsent. It was counted then.
pub(crate) fn has_fired(entry: &HotEntry) -> bool {
    matches!(entry.state, State::DispatchFailed | State::Ready)
}

fn is_new(entry: &HotEntry, counted: &HashSet<i64>) -> bool {
    !has_fired(entry) && !counted.contains(&entry.place.id)
}

/// The lateness of the tasks that fire for the first time.
fn lateness_ms(fired: &[HotEntry], counted: &HashSet<i64>) -> Vec<i64> {
    let new = fired.iter().filter(|entry| is_new(entry, counted));
    new.map(|entry| entry.fired_at.since(entry.due_at)).collect()
}

/// Gives fired tasks to executors that wait here, if no order and no limit applies. Returns the others.
fn give(core: &Core, queue: &Arc<QueueKey>, fired: Vec<HotEntry>) -> Vec<HotEntry> {
    let is_plain = core.settings.is_plain(queue) && fired.iter().all(|entry| entry.demands().is_none());
    // Tasks in the line precede these, so they wait there for busy executors.
    if !is_plain || core.live.lock().line_counts(queue).ready > 0 {
        return fired;
    }
    core.arrivals.of(queue).give(fired)
}

/// Offers tasks that fired earlier, here or at another engine, and that perhaps no executor has. Returns how
/// many were in no line.
pub(crate) fn offer_again(core: &Core, entries: Vec<HotEntry>) -> usize {
    if entries.is_empty() {
        return 0;
    }
    let (scanned, entries) = core.split_scanned(entries);
    line::serve_ready(core, scanned);
    let mut queues: HashMap<Arc<QueueKey>, usize> = HashMap::new();
    for entry in &entries {
        *queues.entry(Arc::clone(&entry.queue)).or_default() += 1;
    }
    store_fallback::count_fired(core, entries.iter().filter(|entry| !has_fired(entry)));
    let missing = line::serve(core, &entries);
    if missing > 0 {
        core.meters.offered_again(missing);
        queues.iter().for_each(|(queue, count)| core.arrived(queue, *count));
    }
    missing
}

/// Tries again the tasks that fired while the store was unreachable.
pub(crate) fn fire_again(core: &Arc<Core>) -> usize {
    let retry_queue = core.live.lock().take_held_back();
    go_on(core, retry_queue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_busy_machine_with_many_tasks_is_given_a_rest_and_never_a_long_one() {
        let rest = |round| rest_after(Duration::from_micros(round), MANY).as_micros();
        assert_eq!([0, 900, 3_000, 3_500, 5_000, 60_000].map(rest), [0, 0, 0, 2_000, 8_000, 10_000]);
        assert_eq!(rest_after(Duration::from_secs(1), MANY - 1), Duration::ZERO);
    }
}
