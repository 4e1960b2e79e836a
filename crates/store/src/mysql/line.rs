//! What waits for one writer: each tenant's in its order, and the tenants in turns. Unbounded, because each entry has a caller that waits for it: the callers
//! are the bound.

use super::limits::{self, Limit};
use crate::turns::{Tenant, Turns};
use parking_lot::Mutex;
use std::{mem, time::Duration};
use tokio::sync::Notify;

/// Each has writers of its own: what an instant waits for never waits for a commit of what can wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Leases: a task is due and its executor waits.
    Urgent,
    /// Moves ahead of their time, outcomes, requests of people.
    Moves,
    /// Inserts, retention.
    Bulk,
}

impl Lane {
    pub(crate) const ALL: [Self; 3] = [Self::Urgent, Self::Moves, Self::Bulk];

    /// Most rows of one transaction; a first job that is larger goes alone. About ten milliseconds of work, so that
    /// whoever comes next does not wait longer.
    pub(crate) const fn rows_max(self) -> usize {
        match self {
            Self::Urgent | Self::Moves => 1_000,
            Self::Bulk => 500,
        }
    }

    pub(crate) const fn limit(self) -> Limit {
        match self {
            Self::Urgent => limits::URGENT,
            Self::Moves | Self::Bulk => limits::WRITE,
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
pub(crate) struct Line<J> {
    waiting: Mutex<Waiting<J>>,
    rows_max: usize,
    /// One writer waits on it: a permit is kept for it when it does not.
    wake: Notify,
}

#[derive(Debug)]
struct Waiting<J> {
    jobs: Turns<J>,
    closed: bool,
}

impl<J> Line<J> {
    pub(crate) fn new(rows_max: usize) -> Self {
        let waiting = Waiting { jobs: Turns::default(), closed: false };
        Self { waiting: Mutex::new(waiting), rows_max, wake: Notify::new() }
    }

    /// The job comes back when the line is closed.
    pub(crate) fn push(&self, (tenant, rows): (Tenant, usize), job: J) -> Result<(), J> {
        let mut waiting = self.waiting.lock();
        if waiting.closed {
            return Err(job);
        }
        waiting.jobs.push(tenant, rows, job);
        drop(waiting);
        self.wake.notify_one();
        Ok(())
    }

    /// What is there already is still served.
    pub(crate) fn close(&self) {
        self.waiting.lock().closed = true;
        self.wake.notify_one();
    }

    /// The writer is gone: what waits is dropped, so that its callers learn of it.
    pub(crate) fn abandon(&self) {
        self.close();
        let left = mem::take(&mut self.waiting.lock().jobs);
        drop(left);
    }

    /// Waits for jobs and takes as many as fit: the first, and more until their rows are enough. None: closed, and
    /// nothing is left.
    pub(crate) async fn batch(&self) -> Option<Vec<J>> {
        loop {
            {
                let mut waiting = self.waiting.lock();
                let batch = waiting.take(self.rows_max);
                if waiting.closed || !batch.is_empty() {
                    return (!batch.is_empty()).then_some(batch);
                }
            }
            self.wake.notified().await;
        }
    }
}

impl<J> Waiting<J> {
    fn take(&mut self, most: usize) -> Vec<J> {
        let (mut batch, mut taken) = (Vec::new(), 0);
        while let Some(more) = self.jobs.next_rows() {
            if taken > 0 && taken + more > most {
                break;
            }
            taken += more;
            batch.extend(self.jobs.pop());
        }
        batch
    }
}

/// Of the connections that insert, how many a lane has.
pub(super) const fn writers_of(lane: Lane, writers: u32) -> u32 {
    match lane {
        Lane::Urgent | Lane::Moves => writers.div_ceil(2),
        Lane::Bulk => writers,
    }
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

    #[test]
    fn a_batch_takes_the_first_and_what_fits() {
        let line = Line::new(1_000);
        for rows in [1_200, 900, 100, 1] {
            line.push((Tenant::NONE, rows), rows).unwrap();
        }
        assert_eq!(now(line.batch()), Poll::Ready(Some(vec![1_200])));
        assert_eq!(now(line.batch()), Poll::Ready(Some(vec![900, 100])));
        assert_eq!(now(line.batch()), Poll::Ready(Some(vec![1])));
        assert_eq!(now(line.batch()), Poll::Pending);
    }

    #[test]
    fn what_comes_behind_a_flood_of_another_is_in_the_next_batch() {
        let (line, one, other) = (Line::new(500), Tenant::of("one"), Tenant::of("other"));
        (1..=9).for_each(|it| line.push((one, 500), it).unwrap());
        assert_eq!(now(line.batch()), Poll::Ready(Some(vec![1])));
        (11..=13).for_each(|it| line.push((other, 1), it).unwrap());
        assert_eq!(now(line.batch()), Poll::Ready(Some(vec![11])));
        assert_eq!(now(line.batch()), Poll::Ready(Some(vec![2])));
        assert_eq!(now(line.batch()), Poll::Ready(Some(vec![12, 13])));
    }

    #[test]
    fn a_closed_line_takes_nothing_more_and_serves_what_it_has() {
        let line = Line::new(9);
        line.push((Tenant::NONE, 1), 1).unwrap();
        line.close();
        assert_eq!(line.push((Tenant::NONE, 1), 2), Err(2));
        assert_eq!(now(line.batch()), Poll::Ready(Some(vec![1])));
        assert_eq!(now(line.batch()), Poll::Ready(None));
        assert_eq!(now(line.batch()), Poll::Ready(None), "and again");
    }

    #[test]
    fn a_push_wakes_who_waits() {
        let line = Line::new(9);
        let mut waiting = pin!(line.batch());
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(waiting.as_mut().poll(&mut context), Poll::Pending);
        line.push((Tenant::NONE, 1), 5).unwrap();
        assert_eq!(waiting.as_mut().poll(&mut context), Poll::Ready(Some(vec![5])));
    }
}
