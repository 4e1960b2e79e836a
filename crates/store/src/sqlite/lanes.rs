//! Three waiting lines in front of a thread: the urgent one is served first, and the others never starve. Unbounded,
//! because each entry has a caller that waits for it: the callers are the bound.

use crate::turns::{Tenant, Turns};
use parking_lot::{Condvar, Mutex};
use std::{collections::VecDeque, mem};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// A few leases or moves: someone waits for the instant.
    Urgent,
    /// Many of them at once, as claims ahead of their time and a batch of outcomes are; what maintenance writes.
    Moves,
    /// Inserts, searches: may wait for a few milliseconds.
    Bulk,
}

#[derive(Debug)]
pub(crate) struct SqliteLanes<J> {
    waiting: Mutex<LaneJobs<J>>,
    wake: Condvar,
}

#[derive(Debug)]
struct LaneJobs<J> {
    /// Tenants take turns, here and in bulk.
    urgent: Turns<J>,
    moves: VecDeque<J>,
    bulk: Turns<J>,
    closed: bool,
    /// The last batch had of each tenant only as much as of another: in the next one all go.
    owes_the_rest: bool,
    /// The last batch was of urgent jobs only, and others waited: it is their turn.
    owes_a_turn: bool,
}

impl<J> LaneJobs<J> {
    /// Jobs that can wait for a moment.
    fn patient(&self) -> usize {
        self.moves.len() + self.bulk.len()
    }

    /// Removes urgent jobs. If several tenants wait, each gets as much as the one with the least: a lease of one
    /// tenant waits for the running write, and not for the rows of another's flood in addition. Every other batch has
    /// all of them.
    fn urgent(&mut self, most: usize) -> Vec<J> {
        let share = if self.owes_the_rest { None } else { self.urgent.least_of_several() };
        self.owes_the_rest = share.is_some();
        let mut batch = Vec::new();
        match share {
            Some(share) => batch = self.urgent.pop_of_each(share.min(most)),
            None => take_in_turns(&mut self.urgent, &mut batch, most),
        }
        batch
    }

    /// The number of rows of patient jobs that are added to urgent jobs, if the batch has both.
    fn beside_urgent(&mut self, limits: LaneLimits) -> Option<usize> {
        if self.patient() > limits.backlog {
            return Some(usize::MAX);
        }
        let owed = std::mem::take(&mut self.owes_a_turn);
        self.owes_a_turn = !owed && self.patient() > 0;
        owed.then_some(limits.yield_after)
    }
}

impl<J> SqliteLanes<J> {
    pub(crate) fn new() -> Self {
        let waiting = LaneJobs {
            urgent: Turns::default(),
            moves: VecDeque::new(),
            bulk: Turns::default(),
            closed: false,
            owes_the_rest: false,
            owes_a_turn: false,
        };
        Self { waiting: Mutex::new(waiting), wake: Condvar::new() }
    }

    /// False if it is closed, and the job was dropped.
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
            Lane::Urgent => waiting.urgent.push(tenant, rows, job),
            Lane::Moves => waiting.moves.push_back(job),
            Lane::Bulk => waiting.bulk.push(tenant, rows, job),
        }
        drop(waiting);
        // Not one: a reader that serves urgent jobs only would swallow the wake-up for a bulk one.
        self.wake.notify_all();
        true
    }

    /// Closes the lanes. The jobs that they already have are still served.
    pub(crate) fn close(&self) {
        self.waiting.lock().closed = true;
        self.wake.notify_all();
    }

    /// The thread that served it is gone: what waits is dropped, so that its callers learn of it.
    pub(crate) fn abandon(&self) {
        self.close();
        let mut waiting = self.waiting.lock();
        let left =
            (mem::take(&mut waiting.urgent), mem::take(&mut waiting.moves), mem::take(&mut waiting.bulk));
        drop(waiting);
        drop(left);
    }

    /// Waits for a job, or `None` if it is closed, and nothing is left that this thread serves.
    pub(crate) fn one(&self, bulk_too: bool) -> Option<J> {
        let mut waiting = self.waiting.lock();
        loop {
            let next = waiting.urgent.pop().or_else(|| waiting.moves.pop_front());
            let next = next.or_else(|| if bulk_too { waiting.bulk.pop() } else { None });
            if next.is_some() || waiting.closed {
                return next;
            }
            self.wake.wait(&mut waiting);
        }
    }

    /// Returns jobs that are not served now to the fronts of their lanes, in order.
    pub(crate) fn put_back(&self, jobs: Vec<J>, of: impl Fn(&J) -> (Lane, Tenant, usize)) {
        let mut waiting = self.waiting.lock();
        for job in jobs.into_iter().rev() {
            match of(&job) {
                (Lane::Urgent, tenant, rows) => waiting.urgent.put_back(tenant, rows, job),
                (Lane::Moves, ..) => waiting.moves.push_front(job),
                (Lane::Bulk, tenant, rows) => waiting.bulk.put_back(tenant, rows, job),
            }
        }
    }

    /// True if an urgent job waits, and the rest are at most this many.
    pub(crate) fn is_pressed(&self, patient_at_most: usize) -> bool {
        let waiting = self.waiting.lock();
        !waiting.urgent.is_empty() && waiting.patient() <= patient_at_most
    }

    /// Waits for jobs and removes as many as fit: of each lane the first, and more until their weight is reached.
    /// Urgent jobs are committed alone, so that they do not wait for the rows of others; if urgent ones arrive all
    /// the time, every other batch has some of the rest. With a backlog of the rest, no job is committed alone.
    pub(crate) fn batch(&self, limits: LaneLimits, weight: impl Fn(&J) -> usize) -> Option<Vec<J>> {
        let mut waiting = self.waiting.lock();
        while waiting.urgent.is_empty() && waiting.moves.is_empty() && waiting.bulk.is_empty() {
            if waiting.closed {
                return None;
            }
            self.wake.wait(&mut waiting);
        }
        let mut batch = waiting.urgent(limits.urgent);
        let most = if batch.is_empty() {
            waiting.owes_a_turn = false;
            Some(usize::MAX)
        } else {
            waiting.beside_urgent(limits)
        };
        if let Some(most) = most {
            take(&mut waiting.moves, &mut batch, limits.urgent.min(most), &weight);
            take_in_turns(&mut waiting.bulk, &mut batch, limits.bulk.min(most));
        }
        Some(batch)
    }
}

/// The maximum number of rows of each lane in one batch; a first job that is larger runs alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneLimits {
    /// The maximum for urgent jobs, and for moves.
    pub(crate) urgent: usize,
    pub(crate) bulk: usize,
    /// The maximum for each other lane in a batch with urgent jobs. A batch with this many of them ends when an
    /// urgent job arrives.
    pub(crate) yield_after: usize,
    /// Jobs: with more of them in the other lanes there are no small batches, or those would fall behind for ever.
    pub(crate) backlog: usize,
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

    const LIMITS: LaneLimits = LaneLimits { urgent: 3, bulk: 2, yield_after: 1, backlog: 0 };

    #[test]
    fn urgent_jobs_go_first_and_the_first_bulk_job_is_never_left_behind() {
        let lanes = SqliteLanes::new();
        for number in [1, 2, 3] {
            assert!(lanes.push(Lane::Bulk, number));
        }
        for number in [10, 11, 12, 13] {
            assert!(lanes.push(Lane::Urgent, number));
        }
        assert_eq!(lanes.batch(LIMITS, |_| 1).unwrap(), [10, 11, 12, 1, 2]);
        assert_eq!(lanes.batch(LIMITS, |_| 9).unwrap(), [13, 3]);
    }

    #[test]
    fn urgent_jobs_are_alone_and_where_they_come_all_the_time_every_other_batch_has_some_of_the_rest() {
        let (lanes, limits) = (SqliteLanes::new(), LaneLimits { backlog: 9, ..LIMITS });
        for number in [1, 2, 3] {
            assert!(lanes.push(Lane::Bulk, number));
        }
        assert!(lanes.push(Lane::Moves, 20) && lanes.push(Lane::Moves, 21));
        let mut urgent = 10..;
        let mut next = |with_urgent: bool| {
            if with_urgent {
                assert!(lanes.push(Lane::Urgent, urgent.next().unwrap()));
            }
            lanes.batch(limits, |_| 1).unwrap()
        };
        assert_eq!((next(true), next(true)), (vec![10], vec![11, 20, 1]));
        assert_eq!(next(true), [12]);
        assert_eq!(next(false), [21, 2, 3], "nobody to wait for");
        assert_eq!(next(true), [13]);
    }

    #[test]
    fn what_waits_for_long_goes_along_with_the_urgent_ones() {
        let (lanes, limits) = (SqliteLanes::new(), LaneLimits { backlog: 2, ..LIMITS });
        for number in [1, 2, 3] {
            assert!(lanes.push(Lane::Bulk, number));
        }
        assert!(lanes.push(Lane::Urgent, 10) && !lanes.is_pressed(2));
        assert_eq!(lanes.batch(limits, |_| 1).unwrap(), [10, 1, 2]);
        assert!(lanes.push(Lane::Urgent, 11));
        assert_eq!(lanes.batch(limits, |_| 1).unwrap(), [11], "one that waits is no backlog");
        assert_eq!(lanes.batch(limits, |_| 1).unwrap(), [3]);
    }

    #[test]
    fn what_is_put_back_is_served_next_and_in_its_order() {
        let lanes = SqliteLanes::new();
        assert!(lanes.push(Lane::Bulk, 3));
        assert!(!lanes.is_pressed(9));
        lanes.put_back(vec![1, 2], |_| (Lane::Bulk, Tenant::NONE, 1));
        assert!(lanes.push(Lane::Urgent, 10));
        assert!(lanes.is_pressed(3) && !lanes.is_pressed(2));
        assert_eq!(lanes.batch(LIMITS, |_| 1).unwrap(), [10, 1, 2]);
    }

    #[test]
    fn a_flood_of_one_tenant_is_not_before_anothers_in_the_bulk_lane() {
        let (lanes, one, other) = (SqliteLanes::new(), Tenant::of("one"), Tenant::of("other"));
        (1..=4).for_each(|number| assert!(lanes.push_of(Lane::Bulk, (one, 2), number)));
        assert_eq!(lanes.batch(LIMITS, |_| 1).unwrap(), [1]);
        assert!(lanes.push_of(Lane::Bulk, (other, 1), 11));
        assert_eq!(lanes.batch(LIMITS, |_| 1).unwrap(), [11]);
        assert_eq!(lanes.batch(LIMITS, |_| 1).unwrap(), [2]);
    }

    #[test]
    fn a_closed_lane_takes_nothing_and_gives_what_it_had() {
        let lanes = SqliteLanes::new();
        assert!(lanes.push(Lane::Bulk, 1));
        lanes.close();
        assert!(!lanes.push(Lane::Urgent, 2));
        assert_eq!(lanes.one(false), None);
        assert_eq!(lanes.one(true), Some(1));
        assert_eq!(lanes.batch(LIMITS, |_| 1), None);
    }

    #[test]
    fn what_waits_in_an_abandoned_lane_is_dropped() {
        let lanes = SqliteLanes::new();
        let job = std::sync::Arc::new(());
        assert!(lanes.push(Lane::Bulk, std::sync::Arc::clone(&job)));
        lanes.abandon();
        assert_eq!(std::sync::Arc::strong_count(&job), 1);
        assert!(!lanes.push(Lane::Bulk, job));
    }
}
