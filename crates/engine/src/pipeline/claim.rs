//! Step 3, claim: reads the slice that is due within the look-ahead, marks it `dispatching` in the store, and puts
//! it on the wheel. Moves nothing in the hot set: if this engine dies, the next one reads the same entries. What
//! the store did not let it mark was cancelled, changed or handled already, and is dropped from the hot set.

use crate::{core::Core, options::STEP_LIMIT};
use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::{
    Error,
    hot::HotEntry,
    store::{Applied, Change, Step},
};
use punctual_domain::{
    place::{Partition, TaskRef},
    state::State,
    time::Millis,
};
use std::sync::Arc;

/// What this engine has claimed, by partition.
#[derive(Debug)]
pub(crate) struct Claims {
    partitions: Vec<Mutex<Claimed>>,
}

#[derive(Debug, Default)]
struct Claimed {
    /// All that was due up to here when last looked at has been claimed; whoever loads something earlier
    /// claims it at once.
    until: Millis,
    held: HashMap<i64, Held>,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    place: TaskRef,
    fence: i64,
    /// None: the store is being asked.
    key: Option<punctual_wheel::Key>,
}

impl Claims {
    pub(crate) fn new(partitions: usize) -> Self {
        Self { partitions: (0..partitions).map(|_| Mutex::default()).collect() }
    }

    fn at(&self, partition: Partition) -> &Mutex<Claimed> {
        self.partitions.get(usize::from(partition.0)).expect("places name partitions of this store")
    }

    pub(crate) fn covers(&self, partition: Partition, due_at: Millis) -> bool {
        due_at <= self.at(partition).lock().until
    }

    /// Answers where the slice begins that has not been looked at.
    fn advance(&self, partition: Partition, until: Millis) -> Millis {
        let mut it = self.at(partition).lock();
        let from = it.until;
        it.until = it.until.max(until);
        from
    }

    /// False: it is held already, with this fence or a newer one.
    fn reserve(&self, entry: &HotEntry) -> bool {
        let mut it = self.at(entry.place.partition).lock();
        if it.held.get(&entry.place.id).is_some_and(|held| held.fence >= entry.fence) {
            return false;
        }
        it.held.insert(entry.place.id, Held { place: entry.place, fence: entry.fence, key: None });
        true
    }

    /// Takes an entry off, if it was claimed with this fence and is on the wheel.
    pub(crate) fn release(&self, entry: &HotEntry) -> bool {
        let mut it = self.at(entry.place.partition).lock();
        let claimed =
            it.held.get(&entry.place.id).is_some_and(|held| held.fence == entry.fence && held.key.is_some());
        if claimed {
            it.held.remove(&entry.place.id);
        }
        claimed
    }

    /// Forgets an entry whatever became of its claim, and answers its key on the wheel.
    pub(crate) fn forget(&self, partition: Partition, id: i64, fence: i64) -> Option<punctual_wheel::Key> {
        let mut it = self.at(partition).lock();
        if it.held.get(&id).is_some_and(|held| held.fence <= fence) {
            return it.held.remove(&id).and_then(|held| held.key);
        }
        None
    }

    fn confirm(&self, entry: &HotEntry, key: punctual_wheel::Key) -> bool {
        let mut it = self.at(entry.place.partition).lock();
        match it.held.get_mut(&entry.place.id) {
            Some(held) if held.fence == entry.fence => {
                held.key = Some(key);
                true
            }
            _ => false,
        }
    }

    /// All that is held, with its fence; afterwards nothing is.
    pub(crate) fn drain(&self) -> Vec<(TaskRef, i64)> {
        let taken = self.partitions.iter().flat_map(|it| std::mem::take(&mut it.lock().held));
        taken.map(|(_, held)| (held.place, held.fence)).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.partitions.iter().map(|it| it.lock().held.len()).sum()
    }
}

/// Claims what has come within the look-ahead. Entries claimed.
pub(crate) async fn run_once(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    let until = now.plus(core.options.lookahead_ms);
    let mut claimed = 0;
    for partition in core.partitions() {
        let from = core.claims.advance(partition, until);
        claimed += claim_slice(core, partition, Some((from, i64::MAX)), until).await?;
    }
    Ok(claimed)
}

/// Looks at the whole slice again, from its beginning: what a lost wake-up or a failed claim left behind.
pub(crate) async fn run_again(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    let until = now.plus(core.options.lookahead_ms);
    let mut claimed = 0;
    for partition in core.partitions() {
        claimed += claim_slice(core, partition, None, until).await?;
    }
    Ok(claimed)
}

async fn claim_slice(
    core: &Arc<Core>,
    partition: Partition,
    mut after: Option<(Millis, i64)>,
    until: Millis,
) -> Result<usize, Error> {
    let mut claimed = 0;
    loop {
        let page = core.hot.peek(partition, after, until, STEP_LIMIT).await?;
        let Some(last) = page.last().map(HotEntry::key) else { return Ok(claimed) };
        let more = page.len() == STEP_LIMIT;
        claimed += claim(core, page).await;
        if !more {
            return Ok(claimed);
        }
        after = Some(last);
    }
}

/// Marks entries in the store and puts them on the wheel. A failure leaves them where they were, and they are
/// looked at again.
pub(crate) async fn claim(core: &Arc<Core>, mut entries: Vec<HotEntry>) -> usize {
    entries.retain(|it| core.claims.reserve(it));
    if entries.is_empty() {
        return 0;
    }
    match mark(core, &entries).await {
        Ok(applied) => {
            let (won, lost): (Vec<_>, Vec<_>) =
                entries.into_iter().zip(applied).partition(|(_, it)| *it == Applied::Moved);
            drop_lost(core, lost.into_iter().map(|(entry, _)| entry)).await;
            put_on_wheel(core, won.into_iter().map(|(entry, _)| entry))
        }
        Err(error) => {
            tracing::warn!(%error, tasks = entries.len(), "claim failed; it will be repeated");
            for it in &entries {
                core.claims.forget(it.place.partition, it.place.id, it.fence);
            }
            0
        }
    }
}

/// Asks the store for the mark; used for entries that fired without having been claimed, too.
pub(crate) async fn mark(core: &Core, entries: &[HotEntry]) -> Result<Vec<Applied>, Error> {
    let steps = entries.iter().map(|it| claim_step(core, it)).collect();
    core.store.apply(steps, core.now()).await
}

fn claim_step(core: &Core, entry: &HotEntry) -> Step {
    let change = match entry.state {
        State::Dispatching | State::Ready | State::DispatchFailed => Change::Reclaim,
        _ => Change::Claim,
    };
    Step { place: entry.place, fence: Some(entry.fence), change, note: core.note() }
}

/// The store says that these are not to fire.
pub(crate) async fn drop_lost(core: &Core, entries: impl Iterator<Item = HotEntry>) {
    let lost: Vec<_> = entries.map(|it| (it.place.partition, it.place.id, it.fence)).collect();
    for (partition, id, fence) in &lost {
        core.claims.forget(*partition, *id, *fence);
    }
    if let Err(error) = core.hot.settle(&lost).await {
        tracing::warn!(%error, "stale entries stay in the hot set; the store will refuse them again");
    }
}

fn put_on_wheel(core: &Core, entries: impl Iterator<Item = HotEntry>) -> usize {
    let entries: Vec<HotEntry> = entries.collect();
    let keys = core.timer.insert(entries.iter().map(|it| (it.due_at, it.place.partition)));
    let mut count = 0;
    for (entry, key) in entries.iter().zip(keys) {
        if core.claims.confirm(entry, key) {
            count += 1;
        } else {
            core.timer.cancel(key);
        }
    }
    count
}
