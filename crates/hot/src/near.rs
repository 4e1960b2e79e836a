//! What one process keeps of a shared hot set to itself, while no other process loads anything: what was just inserted
//! and is due soon. It fires from here without the shared one being asked, and goes there as soon as somebody else
//! has to find it: when it is offered or parked (ready sets are in the shared one), or by `share`.
//!
//! Never the only place where a task is: dies with the process, and whoever adopts the partition reads the store. What
//! is due and goes over is taken out here first, and is in nobody's hands until it is there: it cannot fire twice, nor
//! be withdrawn here and fire there. Where it is not known whether it has come there, it is put there again, by the
//! next `share`. What fires and goes over may for an instant be found in both places; whoever settles it then leaves a
//! name behind, which is offered once more and refused by the store.
//!
//! Obeys no term but this process's: an owner that is out of date goes on to take what it keeps, and only the store,
//! where state and fence decide, refuses that.
//!
//! Locks: one for each partition, and nothing awaits while it is held.

mod beyond;
#[cfg(test)]
mod tests;

use self::beyond::Beyond;
use crate::{
    names::Names,
    slice::{ASKS_MAX_BYTES, Loaded, Slice},
};
use async_trait::async_trait;
use hashbrown::HashMap;
use parking_lot::{Mutex, MutexGuard};
use punctual_contract::{
    Error, Happened, Hot,
    hot::{Admission, Depth, HotEntry, Lane, Wholeness, Withdrawn},
    ownership::Tenure,
};
use punctual_domain::{name::QueueKey, place::Partition, settings::Retries, time::Millis};
use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
};

/// Entries kept here: some 60 MB, and what hand-overs need of them besides, which is bounded. What comes beyond goes to the shared one.
const NEAR_MAX: usize = 200_000;
/// Entries that go over in one call.
const SHARE_MAX: usize = 1_000;

#[derive(Debug)]
pub struct NearHot {
    shared: Arc<dyn Hot>,
    sides: Vec<Mutex<Side>>,
    /// Entries in all of them.
    kept: AtomicUsize,
    /// No other process loads anything into the shared one.
    is_alone: AtomicBool,
    names: Mutex<Names>,
    /// By partition: one at a time puts entries of it over.
    sharing: Vec<tokio::sync::Mutex<()>>,
}

#[derive(Debug)]
struct Side {
    near: Slice,
    beyond: Beyond,
    /// On its way to the shared one, by id.
    going: HashMap<i64, HotEntry>,
}

impl Side {
    fn count(&self) -> usize {
        let (due, firing) = self.near.depth();
        due + firing + self.going.len()
    }
}

impl NearHot {
    /// `partitions`: as many as the shared one has.
    #[must_use]
    pub fn new(shared: Arc<dyn Hot>, partitions: u16) -> Self {
        let asks_max = ASKS_MAX_BYTES / usize::from(partitions.max(1));
        let side = |_| {
            let near = Slice::new(asks_max);
            Mutex::new(Side { near, beyond: Beyond::default(), going: HashMap::new() })
        };
        Self {
            shared,
            sides: (0..partitions.max(1)).map(side).collect(),
            kept: AtomicUsize::new(0),
            is_alone: AtomicBool::new(false),
            names: Mutex::default(),
            sharing: (0..partitions.max(1)).map(|_| tokio::sync::Mutex::default()).collect(),
        }
    }

    /// None: there is no such partition, which the shared one says better.
    fn side(&self, partition: Partition) -> Option<MutexGuard<'_, Side>> {
        self.sides.get(usize::from(partition.0)).map(Mutex::lock)
    }

    fn partitions(&self) -> impl Iterator<Item = Partition> + use<> {
        (0..u16::try_from(self.sides.len()).unwrap_or(u16::MAX)).map(Partition)
    }

    /// What is done with what is kept of a partition, and counted.
    fn with<T>(&self, partition: Partition, act: impl FnOnce(&mut Slice) -> T) -> Option<T> {
        self.with_side(partition, |it| act(&mut it.near))
    }

    fn with_side<T>(&self, partition: Partition, act: impl FnOnce(&mut Side) -> T) -> Option<T> {
        let mut side = self.side(partition)?;
        let before = side.count();
        let result = act(&mut side);
        // Before the lock is given back, and never too low: who sees nothing kept does not look.
        self.kept.fetch_add(side.count(), SeqCst);
        self.kept.fetch_sub(before, SeqCst);
        Some(result)
    }

    fn keeps_nothing(&self) -> bool {
        self.kept.load(SeqCst) == 0
    }

    fn knows(&self, partition: Partition, id: i64) -> bool {
        !self.keeps_nothing() && self.side(partition).is_some_and(|it| it.near.fence(id).is_some())
    }

    /// Loaded into the shared one, where it may now be due.
    async fn load_beyond(&self, entries: Vec<HotEntry>) -> Result<usize, Error> {
        if entries.is_empty() {
            return Ok(0);
        }
        let due: Vec<(Partition, Millis)> =
            entries.iter().map(|it| (it.place.partition, it.due_at)).collect();
        let loaded = self.shared.load(entries).await;
        // After an error too: it may have happened.
        for (partition, due_at) in due {
            if let Some(mut side) = self.side(partition) {
                side.beyond.has(due_at);
            }
        }
        loaded
    }

    async fn look_beyond(
        &self,
        partition: Partition,
        after: Option<(Millis, i64)>,
        until: Millis,
        limit: usize,
    ) -> Result<Vec<HotEntry>, Error> {
        if let Some(mut side) = self.side(partition) {
            side.beyond.look_begins(until);
        }
        let found = self.shared.peek(partition, after, until, limit).await?;
        if let Some(mut side) = self.side(partition) {
            side.beyond.looked(after, &found, until, found.len() < limit);
        }
        Ok(found)
    }

    /// As many as `limit` of what is due there; `settled` as in `take_settling`.
    async fn take_beyond(
        &self,
        tenure: Tenure,
        now: Millis,
        limit: usize,
        settled: &[(i64, i64)],
    ) -> Result<Vec<HotEntry>, Error> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let seen = self.side(tenure.partition).map(|it| it.beyond.arrivals());
        let taken = self.shared.take_settling(tenure, now, limit, settled).await?;
        if taken.len() < limit
            && let Some((mut side, seen)) = self.side(tenure.partition).zip(seen)
        {
            side.beyond.is_empty_until(tenure, now, seen);
        }
        Ok(taken)
    }

    /// From now on older terms take nothing there, although this one takes nothing either: nothing is due at that instant.
    async fn be_known_beyond(&self, tenure: Tenure) -> Result<(), Error> {
        if self.side(tenure.partition).is_some_and(|it| it.beyond.knows(tenure)) {
            return Ok(());
        }
        self.take_beyond(tenure, Millis(i64::MIN), 1, &[]).await.map(|_| ())
    }

    fn take_near(&self, tenure: Tenure, now: Millis, limit: usize, settled: &[(i64, i64)]) -> Vec<HotEntry> {
        let take = |it: &mut Slice| it.take(tenure.term, now, limit, settled);
        if limit == 0 { Vec::new() } else { self.with(tenure.partition, take).unwrap_or_default() }
    }

    fn due_near(&self, partition: Partition, now: Millis, limit: usize) -> Vec<HotEntry> {
        self.side(partition).map(|it| it.near.peek(None, now, limit)).unwrap_or_default()
    }

    /// How many of the first `limit` of both are in the shared one, and how many here.
    async fn shares_of(
        &self,
        partition: Partition,
        now: Millis,
        limit: usize,
    ) -> Result<(usize, usize), Error> {
        // In this order: what goes over meanwhile is seen twice rather than not at all.
        let here = self.due_near(partition, now, limit);
        let there = self.look_beyond(partition, None, now, limit).await?;
        let mut all: Vec<_> = there.iter().map(|it| (it.key(), true)).collect();
        all.extend(here.iter().map(|it| (it.key(), false)));
        all.sort_unstable();
        let beyond = all.iter().take(limit).filter(|it| it.1).count();
        Ok((beyond, all.len().min(limit) - beyond))
    }

    /// What fires here of these is put into the shared one, where ready sets are.
    async fn fire_beyond(&self, entries: &[HotEntry]) -> Result<(), Error> {
        if self.keeps_nothing() {
            return Ok(());
        }
        let fires = |it: &&HotEntry| {
            self.side(it.place.partition).is_some_and(|side| side.near.is_firing(it.place.id, it.fence))
        };
        let firing: Vec<HotEntry> = entries.iter().filter(fires).cloned().collect();
        if firing.is_empty() {
            return Ok(());
        }
        self.shared.load_fired(firing.clone()).await?;
        for it in &firing {
            self.with(it.place.partition, |near| near.settle(it.place.id, it.fence));
        }
        Ok(())
    }

    async fn share_partition(&self, partition: Partition) -> Result<usize, Error> {
        let Some(sharing) = self.sharing.get(usize::from(partition.0)) else { return Ok(0) };
        let _one_at_a_time = sharing.lock().await;
        let mut count = 0;
        loop {
            let (again, new) = self.set_out(partition);
            let going = [again, new.clone()].concat();
            if going.is_empty() {
                break;
            }
            count += going.len();
            match self.load_beyond(going.clone()).await {
                Ok(_) => self.has_arrived(partition, &going),
                Err(error) => {
                    if error.happened == Happened::No {
                        // What goes again may have arrived the last time.
                        self.turn_back(partition, &new);
                    }
                    return Err(error);
                }
            }
        }
        let firing: Vec<HotEntry> = self
            .side(partition)
            .map(|it| it.near.fired_before(Millis::MAX, 0..usize::MAX).cloned().collect())
            .unwrap_or_default();
        for some in firing.chunks(SHARE_MAX) {
            self.fire_beyond(some).await?;
        }
        Ok(count + firing.len())
    }

    /// What goes over next: what was on its way already, and what is due.
    fn set_out(&self, partition: Partition) -> (Vec<HotEntry>, Vec<HotEntry>) {
        let set_out = |side: &mut Side| {
            let again: Vec<HotEntry> = side.going.values().cloned().collect();
            let new = side.near.peek(None, Millis::MAX, SHARE_MAX.saturating_sub(again.len()));
            for it in &new {
                side.near.withdraw(it.place.id, it.fence);
                side.going.insert(it.place.id, it.clone());
            }
            (again, new)
        };
        self.with_side(partition, set_out).unwrap_or_default()
    }

    fn has_arrived(&self, partition: Partition, entries: &[HotEntry]) {
        self.with_side(partition, |side| {
            for it in entries {
                side.going.remove(&it.place.id);
            }
        });
    }

    fn turn_back(&self, partition: Partition, entries: &[HotEntry]) {
        self.with_side(partition, |side| {
            for it in entries {
                side.going.remove(&it.place.id);
                side.near.load(it.clone());
            }
        });
    }
}

/// In order of what `key` says, each once.
fn merged<K: Ord>(
    mut all: Vec<HotEntry>,
    more: Vec<HotEntry>,
    key: impl Fn(&HotEntry) -> K,
) -> Vec<HotEntry> {
    if more.is_empty() {
        return all;
    }
    if all.is_empty() {
        return more;
    }
    all.extend(more);
    all.sort_by_key(key);
    all.dedup_by_key(|it| (it.place.id, it.fence));
    all
}

#[async_trait]
impl Hot for NearHot {
    async fn load(&self, entries: Vec<HotEntry>) -> Result<usize, Error> {
        let (here, there): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|it| self.knows(it.place.partition, it.place.id));
        let mut loaded = self.load_beyond(there).await?;
        for it in here {
            let put = self.with(it.place.partition, |near| near.load(it));
            // Its ready set is in the shared one, and what stood in it was there.
            loaded += usize::from(matches!(put, Some(Loaded::Put { .. })));
        }
        Ok(loaded)
    }

    async fn load_near(&self, entries: Vec<HotEntry>) -> Result<usize, Error> {
        if self.kept.load(SeqCst) + entries.len() > NEAR_MAX {
            return self.load(entries).await;
        }
        if entries.iter().any(|it| usize::from(it.place.partition.0) >= self.sides.len()) {
            return self.shared.load(entries).await;
        }
        self.is_alone.store(true, SeqCst);
        let mut loaded = 0;
        for it in entries {
            let entry = self.names.lock().shared(it);
            let put = self.with(entry.place.partition, |near| near.load(entry));
            loaded += usize::from(matches!(put, Some(Loaded::Put { .. })));
        }
        Ok(loaded)
    }

    async fn share(&self, partition: Option<Partition>) -> Result<usize, Error> {
        if self.is_alone.swap(false, SeqCst) {
            self.sides.iter().for_each(|it| it.lock().beyond.forget());
        }
        let (mut count, mut result) = (0, Ok(()));
        for it in self.partitions().filter(|it| partition.is_none_or(|of| of == *it)) {
            if self.keeps_nothing() {
                break;
            }
            match self.share_partition(it).await {
                Ok(some) => count += some,
                // One server of a Cluster that refuses must not keep the others from getting theirs.
                Err(error) => result = Err(error),
            }
        }
        result.map(|()| count)
    }

    async fn load_fired(&self, entries: Vec<HotEntry>) -> Result<usize, Error> {
        let (here, there): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|it| self.knows(it.place.partition, it.place.id));
        let mut loaded = if there.is_empty() { 0 } else { self.shared.load_fired(there).await? };
        for it in here {
            let put = self.with(it.place.partition, |near| near.load_fired(it));
            loaded += usize::from(matches!(put, Some(Loaded::Put { .. })));
        }
        Ok(loaded)
    }

    async fn peek(
        &self,
        partition: Partition,
        after: Option<(Millis, i64)>,
        until: Millis,
        limit: usize,
    ) -> Result<Vec<HotEntry>, Error> {
        let here = self.side(partition).map(|it| it.near.peek(after, until, limit)).unwrap_or_default();
        let there = self.look_beyond(partition, after, until, limit).await?;
        let mut found = merged(there, here, HotEntry::key);
        found.truncate(limit);
        Ok(found)
    }

    async fn take_settling(
        &self,
        tenure: Tenure,
        now: Millis,
        limit: usize,
        settled: &[(i64, i64)],
    ) -> Result<Vec<HotEntry>, Error> {
        let must_ask = !self.is_alone.load(SeqCst)
            || self.side(tenure.partition).is_none_or(|it| it.beyond.must_be_asked(tenure, now));
        if !must_ask {
            return Ok(self.take_near(tenure, now, limit, settled));
        }
        let near = self.side(tenure.partition).map_or(0, |it| it.near.due_until(now, limit));
        // Where half of it is here already it may be too much in all, and the earliest of both go first.
        let is_crowded = near > 0 && near >= limit.div_ceil(2);
        let room = if is_crowded { 0 } else { limit - near };
        if room == 0 {
            self.be_known_beyond(tenure).await?;
        }
        let mut there = self.take_beyond(tenure, now, room, settled).await?;
        let mut left = limit - there.len();
        if near > 0 && there.len() == room {
            let more = async {
                let (beyond, near) = self.shares_of(tenure.partition, now, left).await?;
                Ok((self.take_beyond(tenure, now, beyond, settled).await?, near))
            };
            match more.await {
                Ok((more, near)) => {
                    there.extend(more);
                    left = near;
                }
                // What was taken before has fired, and must be heard of.
                Err(_) if !there.is_empty() => return Ok(there),
                Err(error) => return Err(error),
            }
        }
        let here = self.take_near(tenure, now, left, settled);
        Ok(merged(there, here, HotEntry::key))
    }

    async fn withdraw(&self, partition: Partition, id: i64, fence: i64) -> Result<Withdrawn, Error> {
        if self.knows(partition, id)
            && let Some(it) = self.with(partition, |near| near.withdraw(id, fence))
            && it != Withdrawn::Absent
        {
            // The preloader may have read its row before it was loaded here: what fired there has fired.
            let there = self.shared.withdraw(partition, id, fence).await;
            return Ok(if matches!(there, Ok(Withdrawn::Fired)) { Withdrawn::Fired } else { it });
        }
        self.shared.withdraw(partition, id, fence).await
    }

    async fn settle(&self, settled: &[(Partition, i64, i64)]) -> Result<(), Error> {
        let (here, there): (Vec<_>, Vec<_>) = settled.iter().copied().partition(|it| self.knows(it.0, it.1));
        for (partition, id, fence) in here {
            self.with(partition, |near| near.settle(id, fence));
        }
        if there.is_empty() { Ok(()) } else { self.shared.settle(&there).await }
    }

    async fn offer(&self, entries: Vec<HotEntry>, retries: Retries) -> Result<(), Error> {
        self.fire_beyond(&entries).await?;
        self.shared.offer(entries, retries).await
    }

    async fn admit(&self, queue: &QueueKey, admission: Admission) -> Result<Vec<HotEntry>, Error> {
        self.shared.admit(queue, admission).await
    }

    async fn park(&self, lane: &Lane, entries: Vec<HotEntry>, retries: Retries) -> Result<(), Error> {
        self.fire_beyond(&entries).await?;
        self.shared.park(lane, entries, retries).await
    }

    async fn unpark(&self, queue: &QueueKey, lane: &Lane, limit: usize) -> Result<usize, Error> {
        self.shared.unpark(queue, lane, limit).await
    }

    async fn lanes(
        &self,
        queue: &QueueKey,
        after: Option<&Lane>,
        limit: usize,
    ) -> Result<Vec<(Lane, usize)>, Error> {
        self.shared.lanes(queue, after, limit).await
    }

    async fn firing(
        &self,
        partition: Partition,
        before: Millis,
        places: Range<usize>,
    ) -> Result<Vec<HotEntry>, Error> {
        let here: Vec<HotEntry> = self
            .side(partition)
            .map(|it| it.near.fired_before(before, 0..places.end).cloned().collect())
            .unwrap_or_default();
        if here.is_empty() {
            return self.shared.firing(partition, before, places).await;
        }
        let there = self.shared.firing(partition, before, 0..places.end).await?;
        let all = merged(there, here, |it| (it.fired_at, it.place.id));
        Ok(all.into_iter().skip(places.start).take(places.len()).collect())
    }

    async fn depth(&self) -> Result<Depth, Error> {
        let mut depth = self.shared.depth().await?;
        for it in &self.sides {
            let side = it.lock();
            let (due, firing) = side.near.depth();
            depth.due += due + side.going.len();
            depth.firing += firing;
        }
        Ok(depth)
    }

    async fn is_whole(&self, tenures: &[Tenure]) -> Result<Vec<Wholeness>, Error> {
        let answers = self.shared.is_whole(tenures).await?;
        for (tenure, _) in tenures.iter().zip(&answers).filter(|it| *it.1 != Wholeness::Whole) {
            if let Some(mut side) = self.side(tenure.partition) {
                side.beyond.forget();
            }
        }
        Ok(answers)
    }

    async fn clear(&self, tenure: Tenure) -> Result<(), Error> {
        self.shared.clear(tenure).await?;
        self.with_side(tenure.partition, |side| {
            side.near.clear(tenure.term);
            side.beyond.forget();
        });
        Ok(())
    }

    fn stranger(&self) -> Option<String> {
        self.shared.stranger()
    }

    fn refusal(&self) -> Option<String> {
        self.shared.refusal()
    }

    async fn fullness(&self) -> Result<u32, Error> {
        self.shared.fullness().await
    }
}
