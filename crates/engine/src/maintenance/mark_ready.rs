//! Tells the store which tasks have fired and wait for an executor. A task that is taken at once never needs it, so
//! it is done a moment later and in batches; nothing but what is shown rests on it, so that a store that is slow is asked
//! for less of it.

use crate::{
    core::{Core, Unmarked},
    options::STEP_LIMIT,
    parts,
    pipeline::ahead,
};
use hashbrown::HashMap;
use punctual_contract::{
    Error,
    store::{Applied, Change, Step},
};
use punctual_domain::{name::QueueKey, time::Millis};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::time::Instant;

/// Tasks that have waited this long are worth the write; those that busy executors will come back for, this long. A mark
/// beside a hand-over of the same task undoes the hand-over, which is begun again.
const WORTH_MS: i64 = 250;
const WORTH_SOON_GONE_MS: i64 = 2_000;
/// Tasks in one unit of work.
const CHUNK: usize = 200;
/// That many at least, however slow the store is.
const FEW: usize = 10;
/// The store is busy with what cannot wait: one unit of work that takes this long is the last of its run.
const SLOW: Duration = Duration::from_millis(20);

/// Tasks looked at.
pub(crate) async fn run_once(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    parts::each(core, "mark_ready", parts::PATIENCE, move |core, part| run_in(core, part, now)).await
}

async fn run_in(core: Arc<Core>, part: usize, now: Millis) -> Result<usize, Error> {
    let core = &*core;
    let before = now.plus(-WORTH_MS);
    let now = core.now();
    let is_here = |it: &Unmarked| parts::is_in(core, part, it.place.partition);
    let (waiting, soon_gone) = worth_it(core, before, now, core.mark_pace.most(), is_here);
    let (mut done, mut result) = (0, Ok(()));
    for chunk in waiting.chunks(CHUNK).chain(soon_gone.chunks(CHUNK)) {
        let began = Instant::now();
        match mark(core, chunk, now).await {
            Ok(()) => {
                done += chunk.len();
                is_marked(core, chunk);
            }
            // One that is refused again and again keeps no other from its mark.
            Err(error) => result = Err(error),
        }
        let is_slow = began.elapsed() > SLOW;
        core.mark_pace.learn(is_slow);
        if is_slow {
            break;
        }
    }
    result.map(|()| done)
}

fn is_marked(core: &Core, marked: &[Unmarked]) {
    let mut unmarked = core.unmarked.lock();
    for it in marked {
        if unmarked.get(&it.place.id).is_some_and(|now| now.fence == it.fence) {
            unmarked.remove(&it.place.id);
        }
    }
}

/// How many of those that busy executors will come for are marked at once: half as many after each slow unit of work,
/// because each mark is three looks and two updates, and hand-overs wait for them.
#[derive(Debug)]
pub(crate) struct MarkPace(AtomicUsize);

impl Default for MarkPace {
    fn default() -> Self {
        Self(AtomicUsize::new(CHUNK))
    }
}

impl MarkPace {
    fn most(&self) -> usize {
        self.0.load(Relaxed)
    }

    fn learn(&self, is_slow: bool) {
        let most = if is_slow { self.most() / 2 } else { self.most() * 2 };
        self.0.store(most.clamp(FEW, CHUNK), Relaxed);
    }
}

/// What waits for executors that are not there, and what waits for busy ones: of these one unit of work, because they are
/// handed over next.
fn worth_it(
    core: &Core,
    before: Millis,
    now: Millis,
    soon_gone_most: usize,
    is_here: impl Fn(&Unmarked) -> bool,
) -> (Vec<Unmarked>, Vec<Unmarked>) {
    let mut queues: HashMap<Arc<QueueKey>, bool> = HashMap::new();
    let (mut waiting, mut soon_gone) = (Vec::new(), Vec::new());
    for it in core.unmarked.lock().values().filter(|it| it.fired_at <= before && is_here(it)) {
        let is_worked_on = || ahead::is_worked_on(core, &it.queue, now);
        let is_worked_on = *queues.entry(Arc::clone(&it.queue)).or_insert_with(is_worked_on);
        let (to, most) =
            if is_worked_on { (&mut soon_gone, soon_gone_most) } else { (&mut waiting, STEP_LIMIT * 10) };
        let is_worth_it = !is_worked_on || it.fired_at <= now.plus(-WORTH_SOON_GONE_MS);
        if is_worth_it && to.len() < most {
            to.push(it.clone());
        }
    }
    (waiting, soon_gone)
}

/// Moved, or handed over meanwhile: either way the store knows.
async fn mark(core: &Core, fired: &[Unmarked], now: Millis) -> Result<(), Error> {
    let step = |it: &Unmarked, change| Step {
        place: it.place,
        fence: Some(it.fence),
        change,
        note: core.note(),
        fired_at: None,
    };
    let fire = |it: &Unmarked| step(it, Change::Fire { fired_at: it.fired_at });
    let applied = core.store.apply(fired.iter().map(fire).collect(), now).await?;
    // What executors waited for when it was claimed was not marked then.
    let lost = fired.iter().zip(applied).filter(|it| it.1 == Applied::Lost).map(|it| it.0);
    let steps: Vec<Step> = lost.flat_map(|it| [step(it, Change::Claim), fire(it)]).collect();
    if !steps.is_empty() {
        core.store.apply(steps, now).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_store_is_asked_for_fewer_marks_and_never_for_none() {
        let pace = MarkPace::default();
        let mut after = |is_slow| {
            pace.learn(is_slow);
            pace.most()
        };
        assert_eq!([true; 6].map(&mut after), [100, 50, 25, 12, 10, 10]);
        assert_eq!([false; 6].map(&mut after), [20, 40, 80, 160, 200, 200]);
    }
}
