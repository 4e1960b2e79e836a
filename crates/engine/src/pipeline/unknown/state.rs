//! Leases whose answers were lost, and when each is looked at next. Gives none of them back itself.

use crate::{options::STEP_LIMIT, pipeline::request::LeaseRequest};
use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::hot::HotEntry;
use punctual_domain::{place::TaskRef, state::State, task::Task, time::Millis};

/// First looked at after this, then twice as long each time: a commit may still be on its way.
const LOOK_AFTER_MS: i64 = 200;
const LOOK_AFTER_MAX_MS: i64 = 5_000;
/// What was not made by so long after its end never will be.
const FORGET_AFTER_MS: i64 = 60_000;
const MANY: usize = 100_000;

#[derive(Debug, Default)]
pub(crate) struct UnknownLeases(Mutex<HashMap<i64, Unknown>>);

#[derive(Debug, Clone)]
pub(super) struct Unknown {
    pub(super) place: TaskRef,
    /// Of the lease, if it was made.
    pub(super) fence: i64,
    /// What was asked for; None: it was made, so no other call has this fence.
    executor: Option<String>,
    until: Millis,
    look_at: Millis,
    looks: u32,
}

impl Unknown {
    /// The lease that the task has is the one whose answer was lost.
    pub(super) fn is(&self, task: &Task) -> bool {
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

    pub(super) fn take_due(&self, now: Millis) -> Vec<Unknown> {
        let mut all = self.0.lock();
        if all.is_empty() {
            return Vec::new();
        }
        all.retain(|_, it| it.until.plus(FORGET_AFTER_MS) > now || it.looks == 0);
        all.extract_if(|_, it| it.look_at <= now).take(STEP_LIMIT).map(|it| it.1).collect()
    }

    pub(super) fn later(&self, some: Vec<Unknown>, now: Millis) {
        let mut all = self.0.lock();
        for mut it in some {
            it.looks += 1;
            it.look_at = now.plus((LOOK_AFTER_MS << it.looks.min(8)).min(LOOK_AFTER_MAX_MS));
            all.entry(it.place.id).or_insert(it);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::claim::tests::entry;
    use std::sync::Arc;

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
