//! The waiting jobs for the writers of one line: each tenant's in its order, and the tenants in turns. The jobs of
//! one tenant, or of none, are with one writer at a time, so that jobs that arrive together are committed together; a
//! second writer serves jobs that arrive while the first writes another tenant's. Unbounded, because each entry has a
//! caller that waits for it: the callers are the bound.

use super::timeouts::{self, WorkTimeout};
use crate::turns::{Tenant, Turns};
use parking_lot::Mutex;
use std::{mem, sync::Arc, time::Duration};
use tokio::sync::Notify;

/// Each has writers of its own: what an instant waits for never waits for a commit of what can wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriterKind {
    /// Leases: a task is due and its executor waits.
    Urgent,
    /// Moves ahead of their time, outcomes, requests of people.
    Moves,
    /// Inserts, retention.
    Bulk,
}

impl WriterKind {
    pub(crate) const ALL: [Self; 3] = [Self::Urgent, Self::Moves, Self::Bulk];

    /// The maximum number of rows of one transaction; a first job that is larger runs alone. About ten milliseconds
    /// of work, so that the next caller does not wait longer.
    pub(crate) const fn rows_max(self) -> usize {
        match self {
            Self::Urgent | Self::Moves => 1_000,
            Self::Bulk => 500,
        }
    }

    /// The number of writers of each line. A lease of one tenant does not wait for the commit of another's.
    const fn writers_of_a_line(self) -> usize {
        match self {
            Self::Urgent => 2,
            Self::Moves | Self::Bulk => 1,
        }
    }

    pub(crate) const fn limit(self) -> WorkTimeout {
        match self {
            Self::Urgent => timeouts::URGENT,
            Self::Moves | Self::Bulk => timeouts::WRITE,
        }
    }

    /// The least time from the beginning of a transaction to that of the next: what comes meanwhile is committed
    /// together. Under a light load each task is else a transaction of its own, at ten times the cost. Who comes after
    /// a pause does not wait.
    pub(crate) const fn pace(self) -> Duration {
        match self {
            Self::Urgent => Duration::ZERO,
            Self::Moves => Duration::from_millis(5),
            Self::Bulk => Duration::from_millis(3),
        }
    }
}

#[derive(Debug)]
pub(crate) struct JobQueue<J> {
    waiting: Mutex<WaitingJobs<J>>,
    rows_max: usize,
    /// Its writers wait on it: a permit is stored if none does.
    wake: Notify,
}

#[derive(Debug)]
struct WaitingJobs<J> {
    jobs: Turns<J>,
    /// The tenants whose jobs a writer has.
    under_way: Vec<Tenant>,
    closed: bool,
    writers: usize,
}

/// The jobs that a writer commits together.
#[derive(Debug)]
pub(crate) struct JobBatch<J> {
    pub(crate) jobs: Vec<J>,
    pub(crate) under_way: UnderWay<J>,
}

/// The tenants of a running batch. As long as it lasts no other writer gets jobs of its tenants.
#[derive(Debug)]
pub(crate) struct UnderWay<J> {
    line: Arc<JobQueue<J>>,
    tenants: Vec<Tenant>,
}

impl<J> Drop for UnderWay<J> {
    fn drop(&mut self) {
        let mut waiting = self.line.waiting.lock();
        waiting.under_way.retain(|tenant| !self.tenants.contains(tenant));
        let is_wanted = waiting.closed || !waiting.jobs.is_empty();
        drop(waiting);
        if is_wanted {
            self.line.wake.notify_one();
        }
    }
}

impl<J> JobQueue<J> {
    pub(crate) fn new(rows_max: usize, writers: usize) -> Self {
        let waiting = WaitingJobs { jobs: Turns::default(), under_way: Vec::new(), closed: false, writers };
        Self { waiting: Mutex::new(waiting), rows_max, wake: Notify::new() }
    }

    pub(crate) fn of(lane: WriterKind) -> (Arc<Self>, usize) {
        let writers = lane.writers_of_a_line();
        (Arc::new(Self::new(lane.rows_max(), writers)), writers)
    }

    /// Returns the job if the line is closed.
    pub(crate) fn push(&self, (tenant, rows): (Tenant, usize), job: J) -> Result<(), J> {
        let mut waiting = self.waiting.lock();
        if waiting.closed {
            return Err(job);
        }
        waiting.jobs.push(tenant, rows, job);
        let may_go = waiting.may_go(tenant);
        drop(waiting);
        // Else the tenant's writer takes it next.
        if may_go {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Closes the line. The jobs that it already has are still served.
    pub(crate) fn close(&self) {
        self.waiting.lock().closed = true;
        self.wake.notify_waiters();
        self.wake.notify_one();
    }

    /// One of its writers is gone. When it was the last, what waits is dropped, so that its callers learn of it.
    pub(crate) fn abandon(&self) {
        let mut waiting = self.waiting.lock();
        waiting.writers = waiting.writers.saturating_sub(1);
        if waiting.writers > 0 {
            return;
        }
        waiting.closed = true;
        let left = mem::take(&mut waiting.jobs);
        drop(waiting);
        drop(left);
    }

    /// Waits for jobs and takes as many as fit: the first, and more until their rows are enough. `None` if it is
    /// closed, and nothing is left.
    pub(crate) async fn batch(self: &Arc<Self>) -> Option<JobBatch<J>> {
        loop {
            {
                let mut waiting = self.waiting.lock();
                let (jobs, tenants) = waiting.take(self.rows_max);
                if !jobs.is_empty() {
                    return Some(JobBatch { jobs, under_way: UnderWay { line: Arc::clone(self), tenants } });
                }
                if waiting.closed && waiting.jobs.is_empty() {
                    drop(waiting);
                    // The other writers, too.
                    self.wake.notify_one();
                    return None;
                }
            }
            self.wake.notified().await;
        }
    }
}

fn may_go(under_way: &[Tenant], tenant: Tenant) -> bool {
    under_way.is_empty() || tenant != Tenant::NONE && !under_way.contains(&tenant)
}

impl<J> WaitingJobs<J> {
    fn may_go(&self, tenant: Tenant) -> bool {
        may_go(&self.under_way, tenant)
    }

    /// Removes the next jobs, and returns their tenants.
    fn take(&mut self, most: usize) -> (Vec<J>, Vec<Tenant>) {
        let Self { jobs, under_way, .. } = self;
        let may = |tenant| may_go(under_way, tenant);
        let (mut batch, mut tenants, mut taken) = (Vec::new(), Vec::new(), 0);
        while let Some(more) = jobs.next_rows_of(may) {
            if taken > 0 && taken + more > most {
                break;
            }
            let Some((tenant, job)) = jobs.pop_of(may) else { break };
            taken += more;
            batch.push(job);
            if !tenants.contains(&tenant) {
                tenants.push(tenant);
            }
        }
        under_way.extend(&tenants);
        (batch, tenants)
    }
}

/// The number of lines of a lane, among the connections that insert.
const fn lines_of(lane: WriterKind, writers: u32) -> u32 {
    match lane {
        WriterKind::Urgent | WriterKind::Moves => writers.div_ceil(2),
        WriterKind::Bulk => writers,
    }
}

/// The lines of a lane, each with its number of writers.
pub(super) fn lines<J>(lane: WriterKind, writers: u32) -> impl Iterator<Item = (Arc<JobQueue<J>>, usize)> {
    (0..lines_of(lane, writers)).map(move |_| JobQueue::of(lane))
}

/// Connections of a database that write.
pub(super) fn writers_in_all(writers: u32) -> i64 {
    let of = |lane: &WriterKind| {
        i64::from(lines_of(*lane, writers)) * i64::try_from(lane.writers_of_a_line()).unwrap_or(1)
    };
    WriterKind::ALL.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        future::Future,
        pin::pin,
        task::{Context, Poll, Waker},
    };

    fn now<T>(work: impl Future<Output = T>) -> Poll<T> {
        pin!(work).poll(&mut Context::from_waker(Waker::noop()))
    }

    fn line<J>(rows_max: usize) -> Arc<JobQueue<J>> {
        Arc::new(JobQueue::new(rows_max, 1))
    }

    /// The jobs of the batch, as if they were written.
    fn taken<J>(line: &Arc<JobQueue<J>>) -> Poll<Option<Vec<J>>> {
        now(line.batch()).map(|this_batch| this_batch.map(|batch| batch.jobs))
    }

    #[test]
    fn a_batch_takes_the_first_and_what_fits() {
        let line = line(1_000);
        for rows in [1_200, 900, 100, 1] {
            line.push((Tenant::NONE, rows), rows).unwrap();
        }
        assert_eq!(taken(&line), Poll::Ready(Some(vec![1_200])));
        assert_eq!(taken(&line), Poll::Ready(Some(vec![900, 100])));
        assert_eq!(taken(&line), Poll::Ready(Some(vec![1])));
        assert_eq!(taken(&line), Poll::Pending);
    }

    #[test]
    fn what_comes_behind_a_flood_of_another_is_in_the_next_batch() {
        let (line, one, other) = (line(500), Tenant::of("one"), Tenant::of("other"));
        (1..=9).for_each(|number| line.push((one, 500), number).unwrap());
        assert_eq!(taken(&line), Poll::Ready(Some(vec![1])));
        (11..=13).for_each(|number| line.push((other, 1), number).unwrap());
        assert_eq!(taken(&line), Poll::Ready(Some(vec![11])));
        assert_eq!(taken(&line), Poll::Ready(Some(vec![2])));
        assert_eq!(taken(&line), Poll::Ready(Some(vec![12, 13])));
    }

    #[test]
    fn a_closed_line_takes_nothing_more_and_serves_what_it_has() {
        let line = line(9);
        line.push((Tenant::NONE, 1), 1).unwrap();
        line.close();
        assert_eq!(line.push((Tenant::NONE, 1), 2), Err(2));
        assert_eq!(taken(&line), Poll::Ready(Some(vec![1])));
        assert_eq!(taken(&line), Poll::Ready(None));
        assert_eq!(taken(&line), Poll::Ready(None), "and again");
    }

    #[test]
    fn a_push_wakes_who_waits() {
        let line = line(9);
        let mut waiting = pin!(line.batch());
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        line.push((Tenant::NONE, 1), 5).unwrap();
        let Poll::Ready(Some(batch)) = waiting.as_mut().poll(&mut context) else { panic!("nothing came") };
        assert_eq!(batch.jobs, [5]);
    }

    #[test]
    fn while_one_tenants_are_written_another_is_and_nobody_is_written_twice_at_a_time() {
        let (line, one, other) = (line(500), Tenant::of("one"), Tenant::of("other"));
        line.push((one, 1), 1).unwrap();
        let Poll::Ready(Some(first)) = now(line.batch()) else { panic!("it waits") };
        for (tenant, job) in [(one, 2), (Tenant::NONE, 20)] {
            line.push((tenant, 1), job).unwrap();
            assert!(now(line.batch()).is_pending(), "{job} goes with what comes after the first");
        }
        line.push((other, 1), 11).unwrap();
        let Poll::Ready(Some(second)) = now(line.batch()) else { panic!("it waits for another's commit") };
        assert_eq!((first.jobs, second.jobs), (vec![1], vec![11]));
        drop(second.under_way);
        assert!(now(line.batch()).is_pending());
        drop(first.under_way);
        assert_eq!(taken(&line), Poll::Ready(Some(vec![2, 20])));
    }

    #[test]
    fn of_two_writers_each_is_told_of_the_end_and_what_waits_is_left_to_the_last() {
        let line = Arc::new(JobQueue::new(9, 2));
        let one = Tenant::of("one");
        line.push((one, 1), 1).unwrap();
        let Poll::Ready(Some(first)) = now(line.batch()) else { panic!("it waits") };
        line.push((one, 1), 2).unwrap();
        line.close();
        assert!(now(line.batch()).is_pending(), "something is left, which the first one takes");
        line.abandon();
        drop(first);
        assert_eq!(taken(&line), Poll::Ready(Some(vec![2])));
        assert_eq!(taken(&line), Poll::Ready(None));
        line.abandon();
        assert_eq!(line.push((one, 1), 3), Err(3));
    }
}
