//! Takes and admissions that the hot set may have carried out and whose answer was lost: what they took is firing there, and
//! nobody has it. Its answer is read from what is firing, at once: the walk of `offer_again` would find it after seconds.
//! What was leased ahead left the hot set with such a take: it is given back with its attempt.
//!
//! Never the only way: a crash forgets what stands here, and the next owner looks at all that is firing. What is offered
//! twice by it, because another engine has it, is refused by its fence.

pub(crate) mod state;

use crate::{
    core::Core,
    maintenance::expire,
    pipeline::{ahead, fire},
};
use punctual_contract::{Error, hot::HotEntry};
use punctual_domain::{name::QueueKey, place::Partition, time::Millis};
use std::{collections::BTreeSet, mem, sync::Arc};

/// Entries that are looked at in one call, and in one partition in all.
const LIMIT: usize = 200;
const WALK_MAX: usize = 10_000;

/// Entries that were found.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, Error> {
    let lost = mem::take(&mut *core.maintenance.unanswered.lost.lock());
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
                core.maintenance.unanswered.keep(partition, takes);
                result = Err(error);
            }
        }
    }
    for queue in lost.admissions {
        match offer_all_of(core, &queue).await {
            Ok(count) => found += count,
            Err(error) => {
                core.maintenance.unanswered.lost.lock().admissions.insert(queue);
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
