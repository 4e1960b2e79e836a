//! What this process has read and not handed over yet, per queue, and who waits for it. A message leaves `ready` in the
//! same poll that hands it over: a receive that is dropped has taken nothing. One lock, never held across an await.

use crate::error::Error;
use parking_lot::Mutex;
use punctual_contract::bus::Delivery;
use punctual_domain::{name::QueueKey, time::Millis};
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};
use tokio::{sync::Notify, time::Instant};

#[derive(Debug, Default)]
pub(super) struct Lanes {
    by_queue: Mutex<HashMap<QueueKey, Lane>>,
}

#[derive(Debug)]
struct Lane {
    ready: VecDeque<Delivery>,
    /// Receives in progress, and what those that wait ask for, together.
    callers: usize,
    wanted: usize,
    /// Streams that a task blocks on: one bit each.
    blocked: u16,
    /// Failed reads so far, and the last one: whoever waited meanwhile is told.
    failures: u64,
    failure: Option<Arc<Error>>,
    /// The latest caller's `now`, and when it said so.
    clock: (Millis, Instant),
    /// One permit means "something is ready"; whoever leaves something behind passes it on.
    arrived: Arc<Notify>,
    /// The last caller went.
    left: Arc<Notify>,
}

impl Lane {
    fn new() -> Self {
        Self {
            ready: VecDeque::new(),
            callers: 0,
            wanted: 0,
            blocked: 0,
            failures: 0,
            failure: None,
            clock: (Millis::ZERO, Instant::now()),
            arrived: Arc::default(),
            left: Arc::default(),
        }
    }

    fn take(&mut self, limit: usize) -> Vec<Delivery> {
        let count = self.ready.len().min(limit);
        let taken = self.ready.drain(..count).collect();
        if !self.ready.is_empty() {
            self.arrived.notify_one();
        }
        taken
    }

    fn is_idle(&self) -> bool {
        self.callers == 0 && self.blocked == 0 && self.ready.is_empty()
    }
}

/// What a waiting receive finds.
#[derive(Debug)]
pub(super) enum Found {
    Messages(Vec<Delivery>),
    Failed(Arc<Error>),
    /// Nothing yet; streams that nobody reads now, one bit each: the caller must start a reader for each.
    Unread(u16),
}

/// A receive in progress: leaves, however it ends.
#[derive(Debug)]
pub(super) struct Caller<'a> {
    lanes: &'a Lanes,
    queue: &'a QueueKey,
    wanted: usize,
    seen_failures: u64,
    pub(super) arrived: Arc<Notify>,
}

impl Caller<'_> {
    pub(super) fn take(&self, limit: usize) -> Vec<Delivery> {
        self.lanes.with(self.queue, |it| it.take(limit)).unwrap_or_default()
    }

    /// `streams`: one bit each.
    pub(super) fn look(&self, limit: usize, streams: u16) -> Found {
        let found = self.lanes.with(self.queue, |lane| {
            let messages = lane.take(limit);
            if !messages.is_empty() {
                return Found::Messages(messages);
            }
            if let Some(failure) = lane.failure.as_ref().filter(|_| lane.failures > self.seen_failures) {
                return Found::Failed(Arc::clone(failure));
            }
            let unread = streams & !lane.blocked;
            lane.blocked |= unread;
            Found::Unread(unread)
        });
        found.expect("a lane with a caller is not forgotten")
    }
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        self.lanes.with(self.queue, |lane| {
            lane.callers -= 1;
            lane.wanted -= self.wanted;
            if lane.callers == 0 {
                lane.left.notify_waiters();
            }
        });
    }
}

impl Lanes {
    /// Works on a lane that is there, and forgets it when nothing is left in it.
    fn with<T>(&self, queue: &QueueKey, work: impl FnOnce(&mut Lane) -> T) -> Option<T> {
        let mut lanes = self.by_queue.lock();
        let lane = lanes.get_mut(queue)?;
        let done = work(lane);
        if lane.is_idle() {
            lanes.remove(queue);
        }
        Some(done)
    }

    /// `wanted`: how many it waits for; 0: it does not wait.
    pub(super) fn enter<'a>(&'a self, queue: &'a QueueKey, wanted: usize, now: Millis) -> Caller<'a> {
        let mut lanes = self.by_queue.lock();
        let lane = lanes.entry(queue.clone()).or_insert_with(Lane::new);
        lane.callers += 1;
        lane.wanted += wanted;
        lane.clock = (now, Instant::now());
        let (arrived, seen_failures) = (Arc::clone(&lane.arrived), lane.failures);
        Caller { lanes: self, queue, wanted, seen_failures, arrived }
    }

    pub(super) fn deliver(&self, queue: &QueueKey, deliveries: Vec<Delivery>) {
        if deliveries.is_empty() {
            return;
        }
        let mut lanes = self.by_queue.lock();
        let lane = lanes.entry(queue.clone()).or_insert_with(Lane::new);
        lane.ready.extend(deliveries);
        lane.arrived.notify_one();
    }

    /// The reader of a stream could not read, and ends.
    pub(super) fn fail(&self, queue: &QueueKey, stream: u8, failure: Error) {
        self.with(queue, |lane| {
            lane.blocked &= !(1 << stream);
            lane.failures += 1;
            lane.failure = Some(Arc::new(failure));
            lane.arrived.notify_waiters();
        });
    }

    /// How many its waiting callers still lack. None: nobody waits; the reader of this stream is written off.
    pub(super) fn lacking(&self, queue: &QueueKey, stream: u8) -> Option<usize> {
        let lacking = self.with(queue, |lane| {
            let lacking = lane.wanted.saturating_sub(lane.ready.len());
            if lacking == 0 {
                lane.blocked &= !(1 << stream);
            }
            lacking
        });
        lacking.filter(|it| *it > 0)
    }

    /// What the latest caller's clock shows by now.
    pub(super) fn now(&self, queue: &QueueKey) -> Option<Millis> {
        let (said, at) = self.by_queue.lock().get(queue)?.clock;
        Some(said.plus(i64::try_from(at.elapsed().as_millis()).unwrap_or(i64::MAX)))
    }

    /// Ends when nobody has asked for anything of this queue.
    pub(super) async fn deserted(&self, queue: &QueueKey) {
        loop {
            let Some((callers, left)) =
                self.by_queue.lock().get(queue).map(|it| (it.callers, Arc::clone(&it.left)))
            else {
                return;
            };
            let mut signal = std::pin::pin!(left.notified());
            signal.as_mut().enable();
            // Between the two looks the last one may have left.
            if callers == 0 || self.is_deserted(queue) {
                return;
            }
            signal.await;
        }
    }

    pub(super) fn is_deserted(&self, queue: &QueueKey) -> bool {
        self.by_queue.lock().get(queue).is_none_or(|it| it.callers == 0)
    }

    /// What was read for callers that are gone.
    pub(super) fn orphans(&self, queue: &QueueKey) -> Vec<Delivery> {
        let all =
            |lane: &mut Lane| if lane.callers == 0 { lane.ready.drain(..).collect() } else { Vec::new() };
        self.with(queue, all).unwrap_or_default()
    }

    pub(super) fn has_orphans(&self, queue: &QueueKey) -> bool {
        self.by_queue.lock().get(queue).is_some_and(|it| it.callers == 0 && !it.ready.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::body;
    use punctual_domain::name::Name;

    fn queue() -> QueueKey {
        QueueKey { namespace: Name::default_namespace(), queue: Name::new("mail").unwrap() }
    }

    fn delivery(id: u64) -> Delivery {
        Delivery { id, times: 1, message: body::tests::assignment() }
    }

    fn ids(found: &[Delivery]) -> Vec<u64> {
        found.iter().map(|it| it.id).collect()
    }

    fn unread(found: Found) -> u16 {
        match found {
            Found::Unread(it) => it,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_queue_that_is_only_asked_for_leaves_nothing_behind() {
        let (lanes, queue) = (Lanes::default(), queue());
        let caller = lanes.enter(&queue, 5, Millis::ZERO);
        assert_eq!(unread(caller.look(5, 0b11)), 0b11);
        assert_eq!(unread(caller.look(5, 0b11)), 0, "both have a reader now");
        drop(caller);
        assert_eq!(lanes.lacking(&queue, 0), None);
        assert!(!lanes.by_queue.lock().is_empty(), "a reader still works for it");
        assert_eq!(lanes.lacking(&queue, 1), None);
        assert!(lanes.by_queue.lock().is_empty());
    }

    #[tokio::test]
    async fn readers_read_for_those_who_wait_and_no_more() {
        let (lanes, queue) = (Lanes::default(), queue());
        let (one, two) = (lanes.enter(&queue, 2, Millis::ZERO), lanes.enter(&queue, 3, Millis::ZERO));
        let _asks_and_does_not_wait = lanes.enter(&queue, 0, Millis::ZERO);
        assert_eq!(unread(one.look(2, 1)), 1);
        assert_eq!(lanes.lacking(&queue, 0), Some(5));
        lanes.deliver(&queue, vec![delivery(1), delivery(2), delivery(3)]);
        assert_eq!(lanes.lacking(&queue, 0), Some(2));
        assert_eq!(ids(&one.take(2)), [1, 2]);
        drop(one);
        assert_eq!(lanes.lacking(&queue, 0), Some(2));
        assert_eq!(ids(&two.take(9)), [3]);
        drop(two);
        assert_eq!(lanes.lacking(&queue, 0), None);
    }

    #[tokio::test]
    async fn a_failure_is_told_to_those_who_waited_meanwhile() {
        let (lanes, queue) = (Lanes::default(), queue());
        let early = lanes.enter(&queue, 1, Millis::ZERO);
        assert_eq!(unread(early.look(1, 1)), 1);
        lanes.fail(&queue, 0, Error::Timeout);
        let late = lanes.enter(&queue, 1, Millis::ZERO);
        assert!(matches!(early.look(1, 1), Found::Failed(_)));
        assert_eq!(unread(late.look(1, 1)), 1, "starts a reader of its own");
        lanes.deliver(&queue, vec![delivery(1)]);
        assert!(matches!(early.look(1, 1), Found::Messages(_)), "messages come first");
    }

    #[tokio::test]
    async fn orphans_are_what_nobody_who_is_here_may_still_take() {
        let (lanes, queue) = (Lanes::default(), queue());
        lanes.deliver(&queue, vec![delivery(1)]);
        let caller = lanes.enter(&queue, 0, Millis::ZERO);
        assert!(!lanes.has_orphans(&queue) && lanes.orphans(&queue).is_empty());
        assert!(!lanes.is_deserted(&queue));
        drop(caller);
        lanes.deserted(&queue).await;
        assert!(lanes.has_orphans(&queue));
        assert_eq!(ids(&lanes.orphans(&queue)), [1]);
        assert!(lanes.by_queue.lock().is_empty());
    }
}
