//! What waits for one writer: the urgent lane is served first, and the other is never forgotten. Unbounded, because
//! each entry has a caller that waits for it: the callers are the bound.

use parking_lot::Mutex;
use std::{collections::VecDeque, mem};
use tokio::sync::Notify;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Moves and leases: someone waits for the instant.
    Urgent,
    /// Inserts: may wait for a few milliseconds.
    Bulk,
}

/// Most rows of each lane in one transaction; a first job that is larger goes alone. About ten milliseconds of work,
/// so that whoever comes next does not wait longer.
const URGENT_ROWS_MAX: usize = 1_000;
const BULK_ROWS_MAX: usize = 500;

#[derive(Debug)]
pub(crate) struct Line<J> {
    waiting: Mutex<Waiting<J>>,
    /// One writer waits on it: a permit is kept for it when it does not.
    wake: Notify,
}

#[derive(Debug)]
struct Waiting<J> {
    urgent: VecDeque<J>,
    bulk: VecDeque<J>,
    closed: bool,
}

impl<J> Line<J> {
    pub(crate) fn new() -> Self {
        let waiting = Waiting { urgent: VecDeque::new(), bulk: VecDeque::new(), closed: false };
        Self { waiting: Mutex::new(waiting), wake: Notify::new() }
    }

    /// The job comes back when the line is closed.
    pub(crate) fn push(&self, lane: Lane, job: J) -> Result<(), J> {
        let mut waiting = self.waiting.lock();
        if waiting.closed {
            return Err(job);
        }
        match lane {
            Lane::Urgent => waiting.urgent.push_back(job),
            Lane::Bulk => waiting.bulk.push_back(job),
        }
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
        let mut waiting = self.waiting.lock();
        let left = (mem::take(&mut waiting.urgent), mem::take(&mut waiting.bulk));
        drop(waiting);
        drop(left);
    }

    /// Waits for jobs and takes as many as fit: of each lane the first, and more until their rows are enough. None:
    /// closed, and nothing is left.
    pub(crate) async fn batch(&self, rows: impl Fn(&J) -> usize) -> Option<Vec<J>> {
        loop {
            if let Some(batch) = self.waiting.lock().take(&rows) {
                return (!batch.is_empty()).then_some(batch);
            }
            self.wake.notified().await;
        }
    }
}

impl<J> Waiting<J> {
    /// None: nothing waits yet. Empty: nothing ever will.
    fn take(&mut self, rows: &impl Fn(&J) -> usize) -> Option<Vec<J>> {
        let mut batch = Vec::new();
        take(&mut self.urgent, &mut batch, URGENT_ROWS_MAX, rows);
        take(&mut self.bulk, &mut batch, BULK_ROWS_MAX, rows);
        (self.closed || !batch.is_empty()).then_some(batch)
    }
}

fn take<J>(lane: &mut VecDeque<J>, batch: &mut Vec<J>, most: usize, rows: &impl Fn(&J) -> usize) {
    let mut taken = 0;
    while let Some(next) = lane.front() {
        let more = rows(next).max(1);
        if taken > 0 && taken + more > most {
            return;
        }
        taken += more;
        batch.extend(lane.pop_front());
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
    fn a_batch_takes_of_both_lanes_the_first_and_what_fits() {
        let line = Line::new();
        for rows in [900, 100, 1] {
            line.push(Lane::Urgent, rows).unwrap();
            line.push(Lane::Bulk, rows).unwrap();
        }
        assert_eq!(now(line.batch(|it| *it)), Poll::Ready(Some(vec![900, 100, 900])));
        assert_eq!(now(line.batch(|it| *it)), Poll::Ready(Some(vec![1, 100, 1])));
        assert_eq!(now(line.batch(|it| *it)), Poll::Pending);
    }

    #[test]
    fn a_closed_line_takes_nothing_more_and_serves_what_it_has() {
        let line = Line::new();
        line.push(Lane::Bulk, 1).unwrap();
        line.close();
        assert_eq!(line.push(Lane::Bulk, 2), Err(2));
        assert_eq!(now(line.batch(|_| 1)), Poll::Ready(Some(vec![1])));
        assert_eq!(now(line.batch(|_| 1)), Poll::Ready(None));
        assert_eq!(now(line.batch(|_| 1)), Poll::Ready(None), "and again");
    }

    #[test]
    fn a_push_wakes_who_waits() {
        let line = Line::new();
        let mut waiting = pin!(line.batch(|_: &i32| 1));
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(waiting.as_mut().poll(&mut context), Poll::Pending);
        line.push(Lane::Urgent, 5).unwrap();
        assert_eq!(waiting.as_mut().poll(&mut context), Poll::Ready(Some(vec![5])));
    }
}
