//! Leases of which whoever they were for has not heard: this engine asked for them and the answer was lost, or they were
//! made and could not be given back. If they were made they are given back, so that no attempt is spent that no executor had. Losing what is kept here costs
//! such an attempt, when its lease ends. Must not touch a lease that another call has made of the same entry.

use crate::{
    core::Core,
    options::STEP_LIMIT,
    parts,
    pipeline::hand_over::{self, LeaseRequest},
};
use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::{Error, hot::HotEntry};
use punctual_domain::{place::TaskRef, state::State, task::Task, time::Millis};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

/// First looked at after this, then twice as long each time: a commit may still be on its way.
const LOOK_AFTER_MS: i64 = 200;
const LOOK_AFTER_MAX_MS: i64 = 5_000;
/// What was not made by so long after its end never will be.
const FORGET_AFTER_MS: i64 = 60_000;
const MANY: usize = 100_000;
const PATIENCE: Duration = Duration::from_secs(1);

/// Why such a lease is given back.
pub(crate) const ANSWER_LOST: &str = "answer_lost";

#[derive(Debug, Default)]
pub(crate) struct UnknownLeases(Mutex<HashMap<i64, Unknown>>);

#[derive(Debug, Clone)]
struct Unknown {
    place: TaskRef,
    /// Of the lease, if it was made.
    fence: i64,
    /// What was asked for; None: it was made, so no other call has this fence.
    executor: Option<String>,
    until: Millis,
    look_at: Millis,
    looks: u32,
}

impl Unknown {
    /// The lease that the task has is the one whose answer was lost.
    fn is(&self, task: &Task) -> bool {
        let Some(lease) = task.lease.as_ref().filter(|_| task.state == State::Dispatched) else {
            return false;
        };
        let longest = task.ask.timeout_ms.map_or(Millis::MAX, |it| lease.since.plus(it));
        let is_asked = |it: &String| lease.executor == *it && lease.until == self.until.min(longest);
        task.fence == self.fence && self.executor.as_ref().is_none_or(is_asked)
    }
}

impl UnknownLeases {
    /// The answer to these was lost.
    pub(crate) fn keep(&self, entries: &[HotEntry], request: &LeaseRequest, until: Millis, now: Millis) {
        let mut all = self.0.lock();
        for it in entries.iter().take(MANY.saturating_sub(all.len())) {
            let unknown = Unknown {
                place: it.row(),
                fence: it.fence + 1,
                executor: Some(request.executor.clone()),
                until,
                look_at: now.plus(LOOK_AFTER_MS),
                looks: 0,
            };
            all.insert(it.place.id, unknown);
        }
    }

    /// These were made, nobody has heard of them, and giving them back has failed.
    pub(crate) fn keep_made(&self, leases: &[(TaskRef, i64)], now: Millis) {
        let mut all = self.0.lock();
        for (place, fence) in leases.iter().copied().take(MANY.saturating_sub(all.len())) {
            let look_at = now.plus(LOOK_AFTER_MS);
            let made = Unknown { place, fence, executor: None, until: now, look_at, looks: 0 };
            all.insert(place.id, made);
        }
    }

    /// Its executor never heard of the lease that it has.
    pub(crate) fn has(&self, task: &Task) -> bool {
        self.0.lock().get(&task.place.id).is_some_and(|it| it.is(task))
    }

    fn take_due(&self, now: Millis) -> Vec<Unknown> {
        let mut all = self.0.lock();
        if all.is_empty() {
            return Vec::new();
        }
        all.retain(|_, it| it.until.plus(FORGET_AFTER_MS) > now || it.looks == 0);
        all.extract_if(|_, it| it.look_at <= now).take(STEP_LIMIT).map(|it| it.1).collect()
    }

    fn later(&self, some: Vec<Unknown>, now: Millis) {
        let mut all = self.0.lock();
        for mut it in some {
            it.looks += 1;
            it.look_at = now.plus((LOOK_AFTER_MS << it.looks.min(8)).min(LOOK_AFTER_MAX_MS));
            all.entry(it.place.id).or_insert(it);
        }
    }
}

/// Gives back those that were made. Leases given back.
pub(crate) async fn run_once(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    let (mut released, mut result) = (0, Ok(()));
    for (_, some) in parts::split(core, core.unknown.take_due(now), |it| it.place.partition) {
        let places: Vec<TaskRef> = some.iter().map(|it| it.place).collect();
        let silent = || Error::may_have_happened("look at leases", "no answer");
        let asked = timeout(PATIENCE, core.store.read(&places)).await;
        match asked.unwrap_or_else(|_| Err(silent())) {
            Ok(tasks) => released += sort_out(core, some, tasks, now).await,
            Err(error) => {
                core.unknown.later(some, now);
                result = Err(error);
            }
        }
    }
    result.map(|()| released)
}

async fn sort_out(core: &Arc<Core>, some: Vec<Unknown>, tasks: Vec<Option<Task>>, now: Millis) -> usize {
    let (mut made, mut not_yet) = (Vec::new(), Vec::new());
    for (it, task) in some.into_iter().zip(tasks) {
        match task {
            Some(task) if it.is(&task) => made.push(it),
            Some(task) if task.fence < it.fence => not_yet.push(it),
            // Another's, or at its end.
            _ => {}
        }
    }
    core.unknown.later(not_yet, now);
    if made.is_empty() {
        return 0;
    }
    let leases = made.iter().map(|it| (it.place, it.fence)).collect();
    match hand_over::release(core, leases, ANSWER_LOST).await {
        Ok(count) => count,
        Err(error) => {
            tracing::warn!(%error, "leases that nobody heard of could not be given back; it will be repeated");
            core.unknown.later(made, now);
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::claim::tests::entry;

    #[test]
    fn what_could_not_be_given_back_is_looked_at_until_long_after() {
        let all = UnknownLeases::default();
        let place = entry(1, 5).row();
        all.keep_made(&[(place, 7)], Millis(0));
        for now in [LOOK_AFTER_MS, 2 * FORGET_AFTER_MS] {
            let due = all.take_due(Millis(now));
            assert_eq!(due.len(), usize::from(now < FORGET_AFTER_MS), "at {now}");
            all.later(due, Millis(now));
        }
    }

    #[test]
    fn what_is_unknown_is_looked_at_until_long_after_its_end() {
        let all = UnknownLeases::default();
        let entry = entry(1, 5);
        let request = LeaseRequest {
            queue: Arc::clone(&entry.queue),
            max: 1,
            wait_ms: 0,
            lease_ms: 1_000,
            executor: "ann".to_owned(),
            version: None,
        };
        all.keep(std::slice::from_ref(&entry), &request, Millis(1_000), Millis(0));
        assert!(all.take_due(Millis(LOOK_AFTER_MS - 1)).is_empty());
        let due = all.take_due(Millis(LOOK_AFTER_MS));
        assert_eq!((due.len(), due[0].fence), (1, entry.fence + 1));
        all.later(due, Millis(LOOK_AFTER_MS));
        assert!(all.take_due(Millis(2 * LOOK_AFTER_MS)).is_empty());
        assert_eq!(all.take_due(Millis(3 * LOOK_AFTER_MS)).len(), 1);
        all.keep(std::slice::from_ref(&entry), &request, Millis(1_000), Millis(0));
        let due = all.take_due(Millis(500));
        all.later(due, Millis(500));
        assert!(all.take_due(Millis(1_000 + FORGET_AFTER_MS)).is_empty());
        assert!(all.0.lock().is_empty());
    }
}
