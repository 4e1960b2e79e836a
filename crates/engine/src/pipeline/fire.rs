//! Step 4, fire: what the table says is due has fired, and a cancel that comes after is told so. No server is asked. What was leased
//! ahead goes to executors, the rest to those who wait or into the ready sets. Must not fire what is not due on the engine's
//! clock.

use crate::{
    core::Core,
    live::Fired,
    options::STEP_LIMIT,
    parts,
    pipeline::{ahead, drain, from_store},
};
use hashbrown::{HashMap, HashSet};
use punctual_contract::{Error, Happened, hot::HotEntry};
use punctual_domain::{name::QueueKey, state::State};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::mpsc::UnboundedReceiver,
    time::{Instant, sleep},
};

/// A round that lasts longer than this has a busy machine under it. If it fired many, there is a rest of so many times what it
/// lasted longer, in which more falls due for the next: an offer of one costs as much as one of twenty.
const BUSY_FROM: Duration = Duration::from_millis(3);
const MANY: usize = 32;
const REST_TIMES: u32 = 4;
const REST_MAX: Duration = Duration::from_millis(10);

/// With nothing to fire, this is how often it is said that somebody would.
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
        let some = fire_all(&core).await?;
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

/// Fires all that is due. Tasks fired. What fires together is offered together: which of it goes first is not for their
/// partitions to say.
pub(crate) async fn fire_all(core: &Arc<Core>) -> Result<usize, Error> {
    let (mut count, mut result) = (0, Ok(()));
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
        if let Err(error) = go_on(core, to_lease).await {
            // It is held back; the rest of what is due fires.
            result = Err(error);
        }
        if is_all {
            return result.map(|()| count);
        }
    }
}

/// Goes on with what has fired: what still needs a mark has it first.
pub(crate) async fn go_on(core: &Arc<Core>, fired: Vec<HotEntry>) -> Result<usize, Error> {
    if fired.is_empty() {
        return Ok(0);
    }
    let (to_mark, rest): (Vec<_>, Vec<_>) =
        fired.into_iter().partition(|entry| drain::needs_mark(core, entry));
    let (offered, marked) = (offer(core, rest).await, to_mark.len());
    // Nobody waits for them: their database may be silent, and what is marked is offered by itself.
    parts::apart(core, to_mark, |entry| entry.place.partition, mark_late).await;
    Ok(offered? + marked)
}

/// Of one part.
async fn mark_late(core: Arc<Core>, entries: Vec<HotEntry>) {
    let offered = match drain::mark(&core, &entries).await {
        // Those that the store refused were cancelled, changed or handed over.
        Ok((won, _)) => offer(&core, won).await,
        Err(error) => {
            core.live.lock().hold_back(&entries);
            Err(error)
        }
    };
    if let Err(error) = offered {
        tracing::warn!(%error, tasks = entries.len(), "tasks could not be marked or offered as they fired; it will be repeated");
    }
}

/// Gives fired tasks to who waits for them, and puts the rest into the ready sets.
pub(crate) async fn offer(core: &Arc<Core>, entries: Vec<HotEntry>) -> Result<usize, Error> {
    if entries.is_empty() {
        return Ok(0);
    }
    let count = entries.len();
    let counted = core.live.lock().note_fired(&entries);
    let rest: HashMap<_, _> = by_queue(entries)
        .into_iter()
        .map(|(queue, fired)| (Arc::clone(&queue), give(core, &queue, fired, &counted)))
        .collect();
    let all: Vec<HotEntry> = rest.values().flatten().cloned().collect();
    if all.is_empty() {
        return Ok(count);
    }
    // Said before they can be seen there, so that nothing lies down behind what they take turns with; and again after it,
    // for what has lain down meanwhile.
    let others_came = || {
        for (queue, fired) in &rest {
            let arrival = core.arrivals.of(queue);
            if arrival.has_older_than(fired) {
                // A task of the backlog goes before it: the order of all is found in the ready set.
                arrival.something_else_came();
            }
        }
    };
    others_came();
    if let Err(error) = from_store::offer(core, all.clone()).await {
        // Not counted yet.
        core.live.lock().persisted(&all);
        core.live.lock().hold_back(&all);
        if error.happened == Happened::Maybe {
            core.filling.gaps.ask();
        }
        return Err(error);
    }
    others_came();
    from_store::count_fired(core, all.iter().filter(|entry| is_new(entry, &counted)));
    for (queue, fired) in rest.iter().filter(|it| !it.1.is_empty()) {
        core.meters.queue(queue).fired(&lateness_ms(fired, &counted));
        core.arrived(queue, fired.len());
    }
    Ok(count)
}

fn by_queue(entries: Vec<HotEntry>) -> HashMap<Arc<QueueKey>, Vec<HotEntry>> {
    let mut queues: HashMap<Arc<QueueKey>, Vec<HotEntry>> = HashMap::new();
    for it in entries {
        queues.entry(Arc::clone(&it.queue)).or_default().push(it);
    }
    queues
}

/// Before it came here: the store knows it as ready, or as what could not be sent. It was counted then.
pub(crate) fn has_fired(entry: &HotEntry) -> bool {
    matches!(entry.state, State::DispatchFailed | State::Ready)
}

fn is_new(entry: &HotEntry, counted: &HashSet<i64>) -> bool {
    !has_fired(entry) && !counted.contains(&entry.place.id)
}

/// Of those that fire for the first time.
fn lateness_ms(fired: &[HotEntry], counted: &HashSet<i64>) -> Vec<i64> {
    let new = fired.iter().filter(|entry| is_new(entry, counted));
    new.map(|entry| entry.fired_at.since(entry.due_at)).collect()
}

/// Gives what has fired to executors that wait here with nothing, where no order and no limit has to be kept. Answers
/// the rest.
fn give(core: &Core, queue: &Arc<QueueKey>, fired: Vec<HotEntry>, counted: &HashSet<i64>) -> Vec<HotEntry> {
    let is_plain = core.settings.is_plain(queue) && fired.iter().all(|entry| entry.demands().is_none());
    let is_served_here = core.fires_from_store(queue);
    // What stands in the table goes before it, and so it waits there for executors that are busy.
    if !is_plain || is_served_here && core.live.lock().standing(queue).ready > 0 {
        return fired;
    }
    let all = fired.clone();
    let rest = core.arrivals.of(queue).give(fired);
    let rest = if is_served_here { rest } else { ahead::lie(core, queue, rest) };
    // Given from the front.
    let given = all.split_at(all.len() - rest.len()).0;
    if !given.is_empty() {
        from_store::count_fired(core, given.iter().filter(|entry| is_new(entry, counted)));
        core.meters.queue(queue).fired(&lateness_ms(given, counted));
    }
    rest
}

/// Offers what was fired before, here or by another engine, and is perhaps in nobody's hands. How many stood in no ready set.
pub(crate) async fn offer_again(core: &Arc<Core>, entries: Vec<HotEntry>) -> Result<usize, Error> {
    if entries.is_empty() {
        return Ok(0);
    }
    let (scanned, entries) = core.split_scanned(entries);
    from_store::serve_ready(core, scanned);
    let mut queues: HashMap<Arc<QueueKey>, usize> = HashMap::new();
    for entry in &entries {
        *queues.entry(Arc::clone(&entry.queue)).or_default() += 1;
    }
    from_store::count_fired(core, entries.iter().filter(|entry| !has_fired(entry)));
    let missing = from_store::offer(core, entries).await?;
    if missing > 0 {
        core.meters.offered_again(missing);
        queues.iter().for_each(|(queue, count)| core.arrived(queue, *count));
    }
    Ok(missing)
}

/// Tries again what fired while the store or the ready sets could not be reached.
pub(crate) async fn fire_again(core: &Arc<Core>) -> Result<usize, Error> {
    let held_back = core.live.lock().take_held_back();
    go_on(core, held_back).await
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
