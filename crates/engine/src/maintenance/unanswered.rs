//! Takes and admissions that the hot set may have carried out and whose answer was lost: what they took is firing there, and
//! nobody has it. Its answer is read from what is firing, at once: the walk of `offer_again` would find it after seconds.
//! What was leased ahead left the hot set with such a take: it is given back with its attempt.
//!
//! Never the only way: a crash forgets what stands here, and the next owner looks at all that is firing. What is offered
//! twice by it, because another engine has it, is refused by its fence.

use crate::{
    core::Core,
    live::Live,
    maintenance::expire,
    pipeline::{ahead, fire},
};
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use punctual_contract::{Error, Happened, hot::HotEntry};
use punctual_domain::{name::QueueKey, place::Partition, time::Millis};
use std::{collections::BTreeSet, mem, sync::Arc};
use tokio::sync::Notify;

/// Entries that are looked at in one call, and in one partition in all.
const LIMIT: usize = 200;
const WALK_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Unanswered {
    lost: Mutex<Lost>,
    asked: Notify,
}

#[derive(Debug, Default)]
struct Lost {
    /// When they were: what they popped says so.
    takes: HashMap<Partition, BTreeSet<Millis>>,
    admissions: HashSet<Arc<QueueKey>>,
}

impl Unanswered {
    /// `leased`: what was leased ahead, by id and fence, and would have left the hot set with it.
    pub(crate) fn take(
        &self,
        live: &Live,
        error: &Error,
        partition: Partition,
        at: Millis,
        leased: &HashSet<(i64, i64)>,
    ) {
        if error.happened == Happened::Maybe {
            live.lock().take_lost(leased);
            self.lost.lock().takes.entry(partition).or_default().insert(at);
            self.asked.notify_one();
        }
    }

    pub(crate) fn admission(&self, error: &Error, queue: &Arc<QueueKey>) {
        if error.happened == Happened::Maybe {
            self.lost.lock().admissions.insert(Arc::clone(queue));
            self.asked.notify_one();
        }
    }

    /// What could not be offered is held back by this engine.
    pub(crate) fn offer(&self, error: &Error) {
        if error.happened == Happened::Maybe {
            self.asked.notify_one();
        }
    }

    pub(crate) async fn asked(&self) {
        self.asked.notified().await;
    }

    /// It could not be looked for: the next run does it.
    fn keep(&self, partition: Partition, takes: BTreeSet<Millis>) {
        self.lost.lock().takes.entry(partition).or_default().extend(takes);
    }
}

/// Entries that were found.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, Error> {
    let lost = mem::take(&mut *core.unanswered.lost.lock());
    if core.from_store.is_away() {
        // The store says what there is. When the hot set is back, all that is firing there is looked at.
        core.from_store.passes_by();
        return Ok(0);
    }
    let (mut found, mut result) = (0, fire::fire_again(core).await.map(drop));
    for (partition, takes) in lost.takes {
        match take_again(core, partition, &takes).await {
            Ok(count) => found += count,
            Err(error) => {
                core.unanswered.keep(partition, takes);
                result = Err(error);
            }
        }
    }
    for queue in lost.admissions {
        match offer_all_of(core, &queue).await {
            Ok(count) => found += count,
            Err(error) => {
                core.unanswered.lost.lock().admissions.insert(queue);
                result = Err(error);
            }
        }
    }
    result.map(|()| found)
}

/// What those takes have not popped is taken now; what they have is fired, as if their answers had come.
async fn take_again(
    core: &Arc<Core>,
    partition: Partition,
    takes: &BTreeSet<Millis>,
) -> Result<usize, Error> {
    fire::fire(core, partition).await?;
    let popped = popped(core, partition, takes).await?;
    let found = popped.len();
    fire::go_on_with(core, partition, popped).await?;
    ahead::give_back_unfired(core, partition).await;
    Ok(found)
}

/// What is firing since one of those instants.
async fn popped(core: &Core, partition: Partition, takes: &BTreeSet<Millis>) -> Result<Vec<HotEntry>, Error> {
    let Some(last) = takes.last() else { return Ok(Vec::new()) };
    let (mut found, mut walked) = (Vec::new(), 0);
    while walked < WALK_MAX {
        let page = core.hot.firing(partition, last.plus(1), walked..walked + LIMIT).await?;
        walked += LIMIT;
        let is_last = page.len() < LIMIT;
        found.extend(page.into_iter().filter(|it| takes.contains(&it.fired_at)));
        if is_last {
            break;
        }
    }
    Ok(found)
}

/// What an admission has popped may be of any partition. What stands in the ready set already stays as it is.
async fn offer_all_of(core: &Arc<Core>, queue: &Arc<QueueKey>) -> Result<usize, Error> {
    let (now, mut offered) = (core.now(), 0);
    for partition in (0..core.store.partitions()).map(Partition) {
        let mut firing = core.hot.firing(partition, now, 0..LIMIT).await?;
        firing.retain(|it| it.queue == *queue && !core.settings.is_deleting(&it.queue.namespace));
        let mut some = expire::keep_those_in_time(core, firing).await;
        some.retain(|it| !core.has(it));
        offered += some.len();
        fire::offer_again(core, some).await?;
    }
    Ok(offered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_have_happened_is_looked_for() {
        let (unanswered, live, none) = (Unanswered::default(), Live::new(1, true), HashSet::new());
        let refused = Error::did_not_happen("take", "refused");
        unanswered.take(&live, &refused, Partition(0), Millis(5), &none);
        assert!(unanswered.lost.lock().takes.is_empty());
        let lost = Error::may_have_happened("take", "no answer");
        unanswered.take(&live, &lost, Partition(0), Millis(5), &none);
        unanswered.take(&live, &lost, Partition(0), Millis(9), &none);
        let takes = unanswered.lost.lock().takes.remove(&Partition(0)).unwrap();
        assert_eq!(takes, BTreeSet::from([Millis(5), Millis(9)]));
    }
}
