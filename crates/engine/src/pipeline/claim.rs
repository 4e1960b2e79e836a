//! Step 3, claim: reads the slice that is due within the look-ahead, marks it `dispatching` in the store, and puts
//! it on the wheel. Moves nothing in the hot set: if this engine dies, the next one reads the same entries. What
//! the store did not let it mark was cancelled, changed or handled already, and is dropped from the hot set.

use crate::{core::Core, options::STEP_LIMIT, pipeline::fire};
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

#[derive(Debug)]
struct Held {
    place: TaskRef,
    fence: i64,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// The store is being asked. Its instant may come before the answer: then it waits here, fired.
    Asked {
        fired: Option<HotEntry>,
    },
    OnWheel(punctual_wheel::Key),
}

/// What the firing of an entry meets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// It was claimed: it may be offered.
    Claimed,
    /// Its claim is on the way, and will offer it.
    Awaited,
    Unclaimed,
}

impl Held {
    fn fired(self) -> Option<HotEntry> {
        match self.stage {
            Stage::Asked { fired } => fired,
            Stage::OnWheel(_) => None,
        }
    }
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
        let stage = Stage::Asked { fired: None };
        it.held.insert(entry.place.id, Held { place: entry.row(), fence: entry.fence, stage });
        true
    }

    /// An entry has fired: takes it off, if it was claimed with this fence.
    pub(crate) fn release(&self, entry: &HotEntry) -> Release {
        let mut it = self.at(entry.place.partition).lock();
        match it.held.get_mut(&entry.place.id) {
            Some(Held { fence, stage: Stage::Asked { fired }, .. }) if *fence == entry.fence => {
                *fired = Some(entry.clone());
                Release::Awaited
            }
            Some(Held { fence, .. }) if *fence == entry.fence => {
                it.held.remove(&entry.place.id);
                Release::Claimed
            }
            _ => Release::Unclaimed,
        }
    }

    /// Forgets an entry whatever became of its claim, and answers its key on the wheel.
    pub(crate) fn forget(&self, partition: Partition, id: i64, fence: i64) -> Option<punctual_wheel::Key> {
        match self.remove(partition, id, fence)?.stage {
            Stage::OnWheel(key) => Some(key),
            Stage::Asked { .. } => None,
        }
    }

    fn remove(&self, partition: Partition, id: i64, fence: i64) -> Option<Held> {
        let mut it = self.at(partition).lock();
        let known = it.held.get(&id).is_some_and(|held| held.fence <= fence);
        if known { it.held.remove(&id) } else { None }
    }

    /// The store has confirmed the claim. `Ok`: it is on the wheel; `Err`: it is not to be there, because it has
    /// fired meanwhile (then it is given here) or was withdrawn.
    fn confirm(&self, entry: &HotEntry, key: punctual_wheel::Key) -> Result<(), Option<HotEntry>> {
        let mut it = self.at(entry.place.partition).lock();
        let held = it.held.get_mut(&entry.place.id).filter(|held| held.fence == entry.fence).ok_or(None)?;
        if let Stage::Asked { fired: Some(_) } = held.stage {
            return Err(it.held.remove(&entry.place.id).and_then(Held::fired));
        }
        held.stage = Stage::OnWheel(key);
        Ok(())
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
        Ok((won, lost)) => {
            drop_lost(core, lost.into_iter()).await;
            put_on_wheel(core, &won).await
        }
        Err(error) => {
            tracing::warn!(%error, tasks = entries.len(), "claim failed; it will be repeated");
            let held = entries.iter().map(|it| core.claims.remove(it.place.partition, it.place.id, it.fence));
            let fired: Vec<HotEntry> = held.flatten().filter_map(Held::fired).collect();
            core.held_back.lock().extend(fired);
            0
        }
    }
}

/// Asks the store for the mark: who has it, and who is not to fire. What is found marked already, with the same
/// fence, was marked by a claim whose answer was lost, or by a dead owner: it is taken over.
pub(crate) async fn mark(core: &Core, entries: &[HotEntry]) -> Result<(Vec<HotEntry>, Vec<HotEntry>), Error> {
    let (mut won, refused) = ask(core, entries.to_vec(), claim_of).await?;
    if refused.is_empty() {
        return Ok((won, refused));
    }
    let (taken_over, lost) = ask(core, refused, |_| Change::Reclaim).await?;
    won.extend(taken_over);
    Ok((won, lost))
}

async fn ask(
    core: &Core,
    entries: Vec<HotEntry>,
    change: impl Fn(&HotEntry) -> Change,
) -> Result<(Vec<HotEntry>, Vec<HotEntry>), Error> {
    let step = |it: &HotEntry| Step {
        place: it.row(),
        fence: Some(it.fence),
        change: change(it),
        note: core.note(),
    };
    let applied = core.store.apply(entries.iter().map(step).collect(), core.now()).await?;
    let mut applied = applied.into_iter();
    Ok(entries.into_iter().partition(|_| applied.next() == Some(Applied::Moved)))
}

fn claim_of(entry: &HotEntry) -> Change {
    match entry.state {
        State::Dispatching | State::Ready | State::DispatchFailed => Change::Reclaim,
        _ => Change::Claim,
    }
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

/// Answers how many are on the wheel. Those whose instant came before the store's answer are offered at once.
async fn put_on_wheel(core: &Arc<Core>, entries: &[HotEntry]) -> usize {
    let keys = core.timer.insert(entries.iter().map(|it| (it.due_at, it.place.partition)));
    let (mut count, mut fired) = (0, Vec::new());
    for (entry, key) in entries.iter().zip(keys) {
        match core.claims.confirm(entry, key) {
            Ok(()) => count += 1,
            Err(waiting) => {
                core.timer.cancel(key);
                fired.extend(waiting);
            }
        }
    }
    if let Err(error) = fire::offer(core, fired).await {
        tracing::warn!(%error, "fired tasks could not be offered; it will be repeated");
    }
    count
}
