//! Two waiting lines in front of a thread: the urgent one is served first, and the other is never forgotten.
//! Unbounded, because each entry has a caller that waits for it: the callers are the bound.

use crate::turns::{Tenant, Turns};
use parking_lot::{Condvar, Mutex};
use std::{collections::VecDeque, mem};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Moves and leases: someone waits for the instant.
    Urgent,
    /// Inserts, searches: may wait for a few milliseconds.
    Bulk,
}

#[derive(Debug)]
pub(crate) struct Lanes<J> {
    waiting: Mutex<Waiting<J>>,
    wake: Condvar,
}

#[derive(Debug)]
struct Waiting<J> {
    urgent: VecDeque<J>,
    /// Tenants take turns.
    bulk: Turns<J>,
    closed: bool,
}

impl<J> Lanes<J> {
    pub(crate) fn new() -> Self {
        let waiting = Waiting { urgent: VecDeque::new(), bulk: Turns::default(), closed: false };
        Self { waiting: Mutex::new(waiting), wake: Condvar::new() }
    }

    /// False: closed, and the job was dropped.
    pub(crate) fn push(&self, lane: Lane, job: J) -> bool {
        self.push_of(lane, (Tenant::NONE, 1), job)
    }

    /// The same for whose turn counts, by rows.
    pub(crate) fn push_of(&self, lane: Lane, (tenant, rows): (Tenant, usize), job: J) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.closed {
            return false;
        }
        match lane {
            Lane::Urgent => waiting.urgent.push_back(job),
            Lane::Bulk => waiting.bulk.push(tenant, rows, job),
        }
        drop(waiting);
        // Not one: a reader that serves urgent jobs only would swallow the wake-up for a bulk one.
        self.wake.notify_all();
        true
    }

    /// What is there already is still served.
    pub(crate) fn close(&self) {
        self.waiting.lock().closed = true;
        self.wake.notify_all();
    }

    /// The thread that served it is gone: what waits is dropped, so that its callers learn of it.
    pub(crate) fn abandon(&self) {
        self.close();
        let mut waiting = self.waiting.lock();
        let left = (mem::take(&mut waiting.urgent), mem::take(&mut waiting.bulk));
        drop(waiting);
        drop(left);
    }

    /// Waits for a job; None: closed, and nothing is left that this thread serves.
    pub(crate) fn one(&self, bulk_too: bool) -> Option<J> {
        let mut waiting = self.waiting.lock();
        loop {
            let next = waiting.urgent.pop_front();
            let next = next.or_else(|| if bulk_too { waiting.bulk.pop() } else { None });
            if next.is_some() || waiting.closed {
                return next;
            }
            self.wake.wait(&mut waiting);
        }
    }

    /// What was taken out of the bulk lane and is not to be served now goes back to its front, in its order.
    pub(crate) fn put_back(&self, jobs: Vec<J>, of: impl Fn(&J) -> (Tenant, usize)) {
        let mut waiting = self.waiting.lock();
        for job in jobs.into_iter().rev() {
            let (tenant, rows) = of(&job);
            waiting.bulk.put_back(tenant, rows, job);
        }
    }

    /// Somebody waits for the instant, and of the rest there are at most this many.
    pub(crate) fn is_pressed(&self, bulk_at_most: usize) -> bool {
        let waiting = self.waiting.lock();
        !waiting.urgent.is_empty() && waiting.bulk.len() <= bulk_at_most
    }

    /// Waits for jobs and takes as many as fit: of each lane the first, and more until their weight is reached.
    pub(crate) fn batch(&self, limits: Limits, weight: impl Fn(&J) -> usize) -> Option<Vec<J>> {
        let mut waiting = self.waiting.lock();
        while waiting.urgent.is_empty() && waiting.bulk.is_empty() {
            if waiting.closed {
                return None;
            }
            self.wake.wait(&mut waiting);
        }
        let mut batch = Vec::new();
        take(&mut waiting.urgent, &mut batch, limits.urgent, &weight);
        take_in_turns(&mut waiting.bulk, &mut batch, limits.bulk);
        Some(batch)
    }
}

/// Most rows of each lane in one batch; a first job that is larger goes alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) urgent: usize,
    pub(crate) bulk: usize,
}

fn take<J>(lane: &mut VecDeque<J>, batch: &mut Vec<J>, limit: usize, weight: &impl Fn(&J) -> usize) {
    let mut taken = 0;
    while let Some(next) = lane.front() {
        taken += weight(next).max(1);
        if taken > limit && taken > weight(next).max(1) {
            return;
        }
        batch.extend(lane.pop_front());
    }
}

fn take_in_turns<J>(lane: &mut Turns<J>, batch: &mut Vec<J>, limit: usize) {
    let mut taken = 0;
    while let Some(next) = lane.next_rows() {
        taken += next;
        if taken > limit && taken > next {
            return;
        }
        batch.extend(lane.pop());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { urgent: 3, bulk: 2 };

    #[test]
    fn urgent_jobs_go_first_and_the_first_bulk_job_is_never_left_behind() {
        let lanes = Lanes::new();
        for it in [1, 2, 3] {
            assert!(lanes.push(Lane::Bulk, it));
        }
        for it in [10, 11, 12, 13] {
            assert!(lanes.push(Lane::Urgent, it));
        }
        assert_eq!(lanes.batch(LIMITS, |_| 1).unwrap(), [10, 11, 12, 1, 2]);
        assert_eq!(lanes.batch(LIMITS, |_| 9).unwrap(), [13, 3]);
    }

    #[test]
    fn what_is_put_back_is_served_next_and_in_its_order() {
        let lanes = Lanes::new();
        assert!(lanes.push(Lane::Bulk, 3));
        assert!(!lanes.is_pressed(9));
        lanes.put_back(vec![1, 2], |_| (Tenant::NONE, 1));
        assert!(lanes.push(Lane::Urgent, 10));
        assert!(lanes.is_pressed(3) && !lanes.is_pressed(2));
        assert_eq!(lanes.batch(LIMITS, |_| 1).unwrap(), [10, 1, 2]);
    }

    #[test]
    fn a_flood_of_one_tenant_is_not_before_anothers_in_the_bulk_lane() {
        let (lanes, one, other) = (Lanes::new(), Tenant::of("one"), Tenant::of("other"));
        (1..=4).for_each(|it| assert!(lanes.push_of(Lane::Bulk, (one, 2), it)));
        assert_eq!(lanes.batch(LIMITS, |_| 1).unwrap(), [1]);
        assert!(lanes.push_of(Lane::Bulk, (other, 1), 11));
        assert_eq!(lanes.batch(LIMITS, |_| 1).unwrap(), [11]);
        assert_eq!(lanes.batch(LIMITS, |_| 1).unwrap(), [2]);
    }

    #[test]
    fn a_closed_lane_takes_nothing_and_gives_what_it_had() {
        let lanes = Lanes::new();
        assert!(lanes.push(Lane::Bulk, 1));
        lanes.close();
        assert!(!lanes.push(Lane::Urgent, 2));
        assert_eq!(lanes.one(false), None);
        assert_eq!(lanes.one(true), Some(1));
        assert_eq!(lanes.batch(LIMITS, |_| 1), None);
    }

    #[test]
    fn what_waits_in_an_abandoned_lane_is_dropped() {
        let lanes = Lanes::new();
        let job = std::sync::Arc::new(());
        assert!(lanes.push(Lane::Bulk, std::sync::Arc::clone(&job)));
        lanes.abandon();
        assert_eq!(std::sync::Arc::strong_count(&job), 1);
        assert!(!lanes.push(Lane::Bulk, job));
    }
}
