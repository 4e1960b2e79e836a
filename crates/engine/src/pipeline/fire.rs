//! Step 4, fire: takes what is due out of the hot set, atomically; what it takes has fired, and a cancel that comes
//! after is told so. Never takes what is not due on the engine's clock. What was not claimed before (loaded late)
//! is claimed now, before anyone can get it, unless executors wait for it: then its lease follows at once.

use crate::{
    core::Core,
    live::{Fired, Ready},
    options::STEP_LIMIT,
    parts,
    pipeline::{ahead, claim, ready_set},
};
use futures_util::future::join_all;
use hashbrown::{HashMap, HashSet};
use punctual_contract::{Error, hot::HotEntry};
use punctual_domain::{name::QueueKey, place::Partition, state::State};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::{
    sync::mpsc::UnboundedReceiver,
    time::{Instant, sleep},
};

/// Partitions that are asked at one time for what is due: their answers come together, and nothing waits for more.
const TOGETHER: usize = 8;

/// What is due so soon may be due when it is asked for.
const ALMOST_DUE_MS: i64 = 10;

/// A round of takes that lasts longer than this has a busy machine under it. If it fired many, there is a rest of so many
/// times what it lasted longer, in which more falls due for the next: a take of one costs as much as one of twenty.
const BUSY_FROM: Duration = Duration::from_millis(3);
const MANY: usize = 32;
const REST_TIMES: u32 = 4;
const REST_MAX: Duration = Duration::from_millis(10);

/// With nothing to fire, this is how often it is said that somebody would.
const IDLE: Duration = Duration::from_secs(1);

/// What one take popped.
#[derive(Default)]
struct Taken {
    claimed: Vec<HotEntry>,
    unclaimed: Vec<HotEntry>,
    leased: Vec<Ready>,
    more: bool,
}

/// Fires partitions as the wheel names them, until the engine stops.
pub(crate) async fn fire_when_due(
    core: Arc<Core>,
    partitions: Arc<tokio::sync::Mutex<UnboundedReceiver<Vec<Partition>>>>,
) -> Result<usize, Error> {
    let mut partitions = partitions.lock().await;
    let mut fired = 0;
    let mut idle = tokio::time::interval(IDLE);
    loop {
        let due = tokio::select! {
            biased;
            () = core.work.stopping.cancelled() => return Ok(fired),
            it = partitions.recv() => it,
            _ = idle.tick() => {
                core.health.firing.beat();
                continue;
            }
        };
        let Some(mut due) = due else { return Ok(fired) };
        due.extend(std::iter::from_fn(|| partitions.try_recv().ok()).flatten());
        due.sort_unstable();
        due.dedup();
        let began = Instant::now();
        let some = fire_together(&core, due).await?;
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

/// Fires all that is due in a partition, if it is this engine's. Tasks fired.
pub(crate) async fn fire(core: &Arc<Core>, partition: Partition) -> Result<usize, Error> {
    fire_together(core, vec![partition]).await
}

/// Fires all that is due in partitions, each named once. Tasks fired.
pub(crate) async fn fire_together(core: &Arc<Core>, partitions: Vec<Partition>) -> Result<usize, Error> {
    let (mut fired, mut result) = (0, Ok(()));
    let (leased, none) = (core.live.lock().leased_until(core.now().plus(ALMOST_DUE_MS)), HashSet::new());
    let leased_in = |it: &Partition| leased.get(it).unwrap_or(&none);
    let mut partitions = VecDeque::from(partitions);
    while !partitions.is_empty() {
        // What fires together is offered together: which of it goes first is not for the partitions to say.
        let (mut all, mut again) = (Taken::default(), Vec::new());
        while !partitions.is_empty() && all.claimed.len() + all.unclaimed.len() < STEP_LIMIT {
            let some: Vec<Partition> = partitions.drain(..partitions.len().min(TOGETHER)).collect();
            let takes = join_all(some.iter().map(|it| take(core, *it, leased_in(it)))).await;
            for (partition, taken) in some.into_iter().zip(takes) {
                match taken {
                    Ok(it) => {
                        all.claimed.extend(it.claimed);
                        all.unclaimed.extend(it.unclaimed);
                        all.leased.extend(it.leased);
                        again.extend(it.more.then_some(partition));
                    }
                    // The others have fired.
                    Err(error) => result = Err(error),
                }
            }
            fired += all.leased.len();
            ahead::deliver(core, std::mem::take(&mut all.leased)).await;
        }
        for some in offer_or_claim(core, all).await {
            match some {
                Ok(count) => fired += count,
                // It is held back; the rest of what is due fires.
                Err(error) => result = Err(error),
            }
        }
        partitions.extend(again);
    }
    result.map(|()| fired)
}

async fn offer_or_claim(core: &Arc<Core>, mut all: Taken) -> [Result<usize, Error>; 2] {
    let (unmarked, unclaimed) = ahead::split(core, all.unclaimed);
    all.claimed.extend(unmarked);
    let offered = offer(core, all.claimed).await;
    [claim_late(core, unclaimed).await, offered]
}

/// What a take has popped whose answer was lost, and is firing since: it goes on as if the answer had come.
pub(crate) async fn go_on_with(
    core: &Arc<Core>,
    partition: Partition,
    mut popped: Vec<HotEntry>,
) -> Result<(), Error> {
    let mut taken = {
        let _nothing_is_given_up_meanwhile = core.holdings.taking(partition).await;
        if core.holdings.tenure(partition).is_none() {
            // Its next owner looks at all that is firing.
            return Ok(());
        }
        // The others are of another take at the same instant.
        let is_known = |entry: &HotEntry| {
            let table = core.live.lock();
            table.keeps(entry) || table.unpersisted_at(entry.place.id, entry.fence).is_some()
        };
        popped.retain(|entry| !is_known(entry));
        sorted(core, popped, &HashSet::new())
    };
    ahead::deliver(core, std::mem::take(&mut taken.leased)).await;
    let [claimed, offered] = offer_or_claim(core, taken).await;
    claimed.and(offered).map(drop)
}

/// `leased`: what was leased ahead, by id and fence.
async fn take(core: &Core, partition: Partition, leased: &HashSet<(i64, i64)>) -> Result<Taken, Error> {
    let _nothing_is_given_up_meanwhile = core.holdings.taking(partition).await;
    let Some(tenure) = core.holdings.tenure(partition) else { return Ok(Taken::default()) };
    if core.from_store.is_away() {
        return Ok(Taken::default());
    }
    let now = core.now();
    let settled: Vec<(i64, i64)> = leased.iter().copied().collect();
    let asked = core.hot.take_settling(tenure, now, STEP_LIMIT, &settled).await;
    let lost = |error: &Error| core.maintenance.unanswered.take(&core.live, error, partition, now, leased);
    let mut popped = asked.inspect_err(lost)?;
    let more = popped.len() == STEP_LIMIT;
    // What is due with the last of a full step may be left.
    let until = popped.last().filter(|_| more).map_or(now, |it| it.due_at.plus(-1));
    core.holdings.has_taken(partition, until);
    popped.iter_mut().for_each(|it| it.fired_at = now);
    Ok(Taken { more, ..sorted(core, popped, leased) })
}

/// `leased`: what has left the hot set as it was popped, by id and fence.
fn sorted(core: &Core, popped: Vec<HotEntry>, leased: &HashSet<(i64, i64)>) -> Taken {
    let mut taken = Taken::default();
    for fired in core.live.lock().fire(popped, leased) {
        match fired {
            Fired::Leased(ready) => taken.leased.push(*ready),
            Fired::Awaited => {}
            Fired::Claimed(entry) => taken.claimed.push(entry),
            Fired::Unclaimed(entry) => taken.unclaimed.push(entry),
        }
    }
    taken
}

/// At several parts nobody waits for them: one may be silent, and what they claim they offer by themselves.
async fn claim_late(core: &Arc<Core>, entries: Vec<HotEntry>) -> Result<usize, Error> {
    if entries.is_empty() {
        return Ok(0);
    }
    if core.store.parts() == 1 {
        return claim_late_in(core, entries).await;
    }
    let count = entries.len();
    for (_, some) in parts::split(core, entries, |it| it.place.partition) {
        let its = Arc::clone(core);
        core.work.detach_claim(async move {
            if let Err(error) = claim_late_in(&its, some).await {
                tracing::warn!(%error, "fired tasks could not be offered; it will be repeated");
            }
        });
    }
    Ok(count)
}

async fn claim_late_in(core: &Arc<Core>, entries: Vec<HotEntry>) -> Result<usize, Error> {
    match claim::mark(core, &entries).await {
        Ok((won, lost)) => {
            claim::drop_lost(core, lost.into_iter()).await;
            offer(core, won).await
        }
        Err(error) => {
            tracing::warn!(%error, tasks = entries.len(), "claim at the instant of firing failed; it will be repeated");
            core.live.lock().hold_back(&entries);
            Ok(0)
        }
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
    if let Err(error) = ready_set::offer(core, all.clone()).await {
        // Not counted yet.
        core.live.lock().persisted(&all);
        core.live.lock().hold_back(&all);
        core.maintenance.unanswered.offer(&error);
        return Err(error);
    }
    others_came();
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

/// Of those that fire for the first time.
fn lateness_ms(fired: &[HotEntry], counted: &HashSet<i64>) -> Vec<i64> {
    let is_new = |entry: &&HotEntry| !has_fired(entry) && !counted.contains(&entry.place.id);
    fired.iter().filter(is_new).map(|it| it.fired_at.since(it.due_at)).collect()
}

/// Gives what has fired to executors that wait here with nothing, where no order and no limit has to be kept. Answers
/// the rest.
fn give(core: &Core, queue: &Arc<QueueKey>, fired: Vec<HotEntry>, counted: &HashSet<i64>) -> Vec<HotEntry> {
    if !core.settings.is_plain(queue) || fired.iter().any(|entry| !entry.demands().is_none()) {
        return fired;
    }
    let all = fired.clone();
    let rest = ahead::lie(core, queue, core.arrivals.of(queue).give(fired));
    // Given from the front.
    let given = all.split_at(all.len() - rest.len()).0;
    if !given.is_empty() {
        core.meters.queue(queue).fired(&lateness_ms(given, counted));
    }
    rest
}

/// Offers what was fired before, here or by another engine, and is perhaps in nobody's hands.
pub(crate) async fn offer_again(core: &Arc<Core>, entries: Vec<HotEntry>) -> Result<(), Error> {
    if entries.is_empty() {
        return Ok(());
    }
    let mut queues: HashMap<Arc<QueueKey>, usize> = HashMap::new();
    for it in &entries {
        *queues.entry(Arc::clone(&it.queue)).or_default() += 1;
    }
    ready_set::offer(core, entries).await?;
    queues.iter().for_each(|(queue, count)| core.arrived(queue, *count));
    Ok(())
}

/// Everything due in every partition of this engine: what a tick of the wheel that nobody saw would have fired.
pub(crate) async fn fire_all(core: &Arc<Core>) -> Result<usize, Error> {
    let (mut fired, mut result) = (0, Ok(()));
    for partition in core.owned() {
        match fire(core, partition).await {
            Ok(count) => fired += count,
            // The others fire all the same.
            Err(error) => result = Err(error),
        }
    }
    result.map(|()| fired)
}

/// Tries again what fired while the store or the ready sets could not be reached.
pub(crate) async fn fire_again(core: &Arc<Core>) -> Result<usize, Error> {
    if core.from_store.is_away() {
        return Ok(0);
    }
    let held_back = core.live.lock().take_held_back();
    claim_late(core, held_back).await
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
