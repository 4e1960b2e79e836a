//! Step 3, claim: reads the slice that is due within the look-ahead, marks it `dispatching` in the store where its lease
//! will not follow at once, and puts it on the wheel. Moves nothing in the hot set: if this engine dies, the next one
//! reads the same entries. What the store did not let it mark was cancelled, changed or handled already, and is dropped
//! from the hot set.

use crate::{
    core::Core,
    options::STEP_LIMIT,
    parts,
    pipeline::{ahead, fire},
};
use hashbrown::{HashMap, HashSet};
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

/// What is on the wheel and was not taken this long after its instant is not in the hot set any more. Should it be
/// there after all, it fires all the same: what was not claimed is claimed late.
const FORGET_AFTER_MS: i64 = 10_000;

/// What this engine has claimed, by partition.
#[derive(Debug)]
pub(crate) struct Claims {
    partitions: Vec<Mutex<Claimed>>,
}

#[derive(Debug, Default)]
struct Claimed {
    /// This engine works on the partition; otherwise it claims nothing there and holds nothing.
    is_open: bool,
    /// All that was due up to here when last looked at has been claimed; whoever loads something earlier
    /// claims it at once.
    until: Millis,
    held: HashMap<i64, Held>,
}

#[derive(Debug)]
struct Held {
    place: TaskRef,
    fence: i64,
    /// As the store has it, once it is on the wheel.
    state: State,
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

/// What was held of a partition that this engine works on no more.
#[derive(Debug, Default)]
pub(crate) struct Closed {
    pub(crate) keys: Vec<punctual_wheel::Key>,
    /// Claimed and not fired, with the fence.
    pub(crate) claimed: Vec<(TaskRef, i64)>,
    /// Fired while their claim was on its way.
    pub(crate) fired: Vec<HotEntry>,
}

/// What the firing of an entry meets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// It was claimed: it may be offered. In this state the store has it.
    Claimed(State),
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
    pub(crate) fn new(partitions: usize, are_open: bool) -> Self {
        let claimed = || Claimed { is_open: are_open, ..Claimed::default() };
        Self { partitions: (0..partitions).map(|_| Mutex::new(claimed())).collect() }
    }

    /// Work on the partition begins: nothing has been looked at there.
    pub(crate) fn open(&self, partition: Partition) {
        let mut it = self.at(partition).lock();
        (it.is_open, it.until) = (true, Millis::ZERO);
    }

    /// Work on the partition ends. A claim that is on its way finds, when it is answered, that it is not wanted.
    pub(crate) fn close(&self, partition: Partition) -> Closed {
        let mut it = self.at(partition).lock();
        (it.is_open, it.until) = (false, Millis::ZERO);
        let mut closed = Closed::default();
        for (_, held) in it.held.drain() {
            match held.stage {
                Stage::OnWheel(key) => {
                    closed.keys.push(key);
                    closed.claimed.push((held.place, held.fence));
                }
                Stage::Asked { fired } => closed.fired.extend(fired),
            }
        }
        closed
    }

    fn at(&self, partition: Partition) -> &Mutex<Claimed> {
        self.partitions.get(usize::from(partition.0)).expect("places name partitions of this store")
    }

    pub(crate) fn covers(&self, partition: Partition, due_at: Millis) -> bool {
        let it = self.at(partition).lock();
        it.is_open && due_at <= it.until
    }

    /// Answers where the slice begins that has not been looked at.
    fn advance(&self, partition: Partition, until: Millis) -> Millis {
        let mut it = self.at(partition).lock();
        let from = it.until;
        if it.is_open {
            it.until = it.until.max(until);
        }
        from
    }

    /// False: it is held already, with this fence or a newer one; or it is not for this engine to hold.
    fn reserve(&self, entry: &HotEntry) -> bool {
        let mut it = self.at(entry.place.partition).lock();
        if !it.is_open || it.held.get(&entry.place.id).is_some_and(|held| held.fence >= entry.fence) {
            return false;
        }
        let stage = Stage::Asked { fired: None };
        let held = Held { place: entry.row(), fence: entry.fence, state: entry.state, stage };
        it.held.insert(entry.place.id, held);
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
            Some(Held { fence, state, .. }) if *fence == entry.fence => {
                let state = *state;
                it.held.remove(&entry.place.id);
                Release::Claimed(state)
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
            let fired = it.held.remove(&entry.place.id).and_then(Held::fired);
            return Err(fired.map(|fired| HotEntry { state: entry.state, ..fired }));
        }
        (held.state, held.stage) = (entry.state, Stage::OnWheel(key));
        Ok(())
    }

    /// Forgets what was due before this and did not fire here: another engine has withdrawn it, or taken it. Answers
    /// what had fired, and whose claim was never answered.
    fn forget_old(&self, partition: Partition, before: Millis) -> Vec<HotEntry> {
        let old = |held: &Held| held.place.due_at < before;
        let mut it = self.at(partition).lock();
        it.held.extract_if(|_, held| old(held)).filter_map(|(_, held)| held.fired()).collect()
    }

    /// It has been claimed with this fence, and has not fired.
    pub(crate) fn holds(&self, entry: &HotEntry) -> bool {
        let it = self.at(entry.place.partition).lock();
        it.held.get(&entry.place.id).is_some_and(|held| held.fence == entry.fence)
    }

    pub(crate) fn len(&self) -> usize {
        self.partitions.iter().map(|it| it.lock().held.len()).sum()
    }
}

/// Claims what has come within the look-ahead. Entries claimed.
pub(crate) async fn run_once(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    let until = now.plus(core.options.lookahead_ms);
    let slices = core.owned().map(|it| (it, Some((core.claims.advance(it, until), i64::MAX)))).collect();
    claim_slices(core, slices, until).await
}

/// Claims what is due at or after `from` and within the look-ahead, although it may have been passed by.
pub(crate) async fn claim_from(core: &Arc<Core>, partition: Partition, from: Millis) -> Result<usize, Error> {
    let until = core.now().plus(core.options.lookahead_ms);
    let reached = core.claims.advance(partition, until);
    claim_slices(core, vec![(partition, Some((from.min(reached), i64::MIN)))], until).await
}

/// Looks at the whole slice again, from its beginning: what a lost wake-up or a failed claim left behind. Forgets what
/// is not there any more.
pub(crate) async fn run_again(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    let until = now.plus(core.options.lookahead_ms);
    let mut slices = Vec::new();
    for partition in core.owned() {
        let fired = core.claims.forget_old(partition, now.plus(-FORGET_AFTER_MS));
        core.held_back.lock().extend(fired);
        slices.push((partition, None));
    }
    claim_slices(core, slices, until).await
}

/// Of what is claimed in a partition, what has not fired.
pub(crate) async fn not_fired(
    core: &Core,
    partition: Partition,
    mut claimed: Vec<(TaskRef, i64)>,
) -> Result<Vec<(TaskRef, i64)>, Error> {
    let Some(until) = claimed.iter().map(|it| it.0.due_at).max() else { return Ok(claimed) };
    let (mut due, mut after) = (HashSet::new(), None);
    loop {
        let page = core.hot.peek(partition, after, until, STEP_LIMIT).await?;
        due.extend(page.iter().map(|it| (it.place.id, it.fence)));
        after = page.last().map(HotEntry::key);
        if page.len() < STEP_LIMIT {
            break;
        }
    }
    claimed.retain(|(place, fence)| due.contains(&(place.id, *fence)));
    Ok(claimed)
}

/// Where a slice begins: after this entry.
type After = Option<(Millis, i64)>;

/// What is found in several partitions is marked together: a transaction for each of them would cost more than the
/// marks. What was found before a partition could not be read is claimed all the same.
async fn claim_slices(
    core: &Arc<Core>,
    slices: Vec<(Partition, After)>,
    until: Millis,
) -> Result<usize, Error> {
    let (mut claimed, mut found, mut result) = (0, Vec::new(), Ok(()));
    for (partition, mut after) in slices {
        loop {
            let page = match core.hot.peek(partition, after, until, STEP_LIMIT).await {
                Ok(page) => page,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            };
            let is_last = page.len() < STEP_LIMIT;
            after = page.last().map(HotEntry::key);
            found.extend(page);
            if found.len() >= STEP_LIMIT {
                claimed += claim(core, std::mem::take(&mut found)).await;
            }
            if is_last {
                break;
            }
        }
    }
    claimed += claim(core, found).await;
    result.map(|()| claimed)
}

/// Marks entries in the store and puts them on the wheel. A failure leaves them where they were, and they are
/// looked at again. What executors wait for is not marked: its lease follows, decides the same, and is one write
/// instead of two.
pub(crate) async fn claim(core: &Arc<Core>, mut entries: Vec<HotEntry>) -> usize {
    entries.retain(|it| core.claims.reserve(it));
    let (unmarked, entries) = ahead::split(core, entries);
    let mut claimed = put_on_wheel(core, &unmarked).await;
    if core.store.parts() == 1 {
        return claimed + mark_and_put(core, entries).await;
    }
    // Nobody waits for a part that is silent: what fires before its claim is answered waits for that.
    for (_, some) in parts::split(core, entries, |it| it.place.partition) {
        claimed += some.len();
        let its = Arc::clone(core);
        core.detach_claim(async move {
            mark_and_put(&its, some).await;
        });
    }
    claimed
}

async fn mark_and_put(core: &Arc<Core>, mut entries: Vec<HotEntry>) -> usize {
    if entries.is_empty() {
        return 0;
    }
    entries.sort_by_key(|it| it.place.partition);
    let mut parts = entries.chunk_by(|a, b| a.place.partition == b.place.partition);
    match mark(core, &entries).await {
        Ok(marked) => settle_marks(core, marked).await,
        // One partition that is between two databases must not keep the others' tasks from being claimed.
        Err(_) if parts.clone().nth(1).is_some() => {
            let mut claimed = 0;
            for part in parts.by_ref() {
                claimed += claim_reserved(core, part).await;
            }
            claimed
        }
        Err(error) => not_claimed(core, &entries, &error),
    }
}

async fn claim_reserved(core: &Arc<Core>, entries: &[HotEntry]) -> usize {
    match mark(core, entries).await {
        Ok(marked) => settle_marks(core, marked).await,
        Err(error) => not_claimed(core, entries, &error),
    }
}

async fn settle_marks(core: &Arc<Core>, (won, lost): (Vec<HotEntry>, Vec<HotEntry>)) -> usize {
    drop_lost(core, lost.into_iter()).await;
    put_on_wheel(core, &won).await
}

fn not_claimed(core: &Core, entries: &[HotEntry], error: &Error) -> usize {
    tracing::warn!(%error, tasks = entries.len(), "claim failed; it will be repeated");
    let held = entries.iter().map(|it| core.claims.remove(it.place.partition, it.place.id, it.fence));
    let fired: Vec<HotEntry> = held.flatten().filter_map(Held::fired).collect();
    core.held_back.lock().extend(fired);
    0
}

/// Asks the store for the mark: who has it, and who is not to fire. What is found marked already, with the same
/// fence, was marked by a claim whose answer was lost, or by a dead owner: it is taken over. Who has it says so of its state.
pub(crate) async fn mark(core: &Core, entries: &[HotEntry]) -> Result<(Vec<HotEntry>, Vec<HotEntry>), Error> {
    let (mut won, refused) = ask(core, entries.to_vec(), claim_of).await?;
    // What was ready before, or could not be sent, has fired before, and is told apart by it.
    let is_new = |entry: &&mut HotEntry| matches!(entry.state, State::Scheduled | State::Retrying);
    won.iter_mut().filter(is_new).for_each(|entry| entry.state = State::Dispatching);
    if refused.is_empty() {
        return Ok((won, refused));
    }
    let (taken_over, lost) = ask(core, refused, |_| Change::Reclaim).await?;
    won.extend(taken_over);
    Ok((won, lost))
}

/// In bounded steps: what was held back while the store was away may be all that came due meanwhile. A failure in one
/// of them leaves marks of those before it, which are taken over when it is repeated.
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
        fired_at: None,
    };
    let mut applied = Vec::with_capacity(entries.len());
    for chunk in entries.chunks(STEP_LIMIT) {
        applied.extend(core.store.apply(chunk.iter().map(step).collect(), core.now()).await?);
    }
    let mut applied = applied.into_iter();
    Ok(entries.into_iter().partition(|_| applied.next().is_some_and(|it| it == Applied::Moved)))
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
            Ok(()) => {
                count += 1;
                ahead::claimed(core, entry);
            }
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use punctual_domain::{
        name::{Name, QueueKey},
        task::Priority,
    };
    use punctual_wheel::Wheel;

    const P: Partition = Partition(0);

    pub(crate) fn entry(id: i64, due_at: i64) -> HotEntry {
        let queue = QueueKey { namespace: Name::default_namespace(), queue: Name::new("q").unwrap() };
        HotEntry {
            place: TaskRef { partition: P, due_at: Millis(due_at), id },
            due_at: Millis(due_at),
            fence: 1,
            queue: Arc::new(queue),
            priority: Priority::default(),
            task_id: id,
            task_version: 0,
            deadline_at: Millis::MAX,
            state: State::Scheduled,
            fired_at: Millis::ZERO,
            attempt: 0,
            demands: None,
        }
    }

    #[test]
    fn a_closed_partition_holds_nothing_and_takes_nothing_and_answers_to_claims_are_not_wanted() {
        let (claims, mut wheel) = (Claims::new(1, true), Wheel::new(0));
        let (on_wheel, asked, fired) = (entry(1, 10), entry(2, 10), entry(3, 10));
        let key = wheel.insert(10, P);
        assert!([&on_wheel, &asked, &fired].into_iter().all(|it| claims.reserve(it)));
        claims.confirm(&on_wheel, key).unwrap();
        assert_eq!(claims.release(&fired), Release::Awaited);
        claims.advance(P, Millis(20));
        let closed = claims.close(P);
        assert_eq!((closed.keys, closed.claimed), (vec![key], vec![(on_wheel.place, 1)]));
        assert_eq!(closed.fired, [fired], "it has fired, whoever owns it now");
        assert_eq!(claims.confirm(&asked, key), Err(None));
        assert!(!claims.reserve(&on_wheel) && !claims.covers(P, Millis(1)));
        claims.advance(P, Millis(30));
        claims.open(P);
        assert!(!claims.covers(P, Millis(1)), "nothing has been looked at since");
        assert!(claims.reserve(&on_wheel));
    }

    #[test]
    fn what_was_not_taken_in_its_time_is_forgotten_and_what_fired_is_not() {
        let (claims, mut wheel) = (Claims::new(1, true), Wheel::new(0));
        let (withdrawn, fired, later) = (entry(1, 10), entry(2, 10), entry(3, 11));
        assert!([&withdrawn, &fired, &later].into_iter().all(|it| claims.reserve(it)));
        claims.confirm(&withdrawn, wheel.insert(10, P)).unwrap();
        claims.release(&fired);
        assert_eq!(claims.forget_old(P, Millis(11)), [fired]);
        assert_eq!(claims.len(), 1);
    }
}
