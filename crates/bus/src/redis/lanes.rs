//! Messages that this process has read and not delivered yet, per queue, and the callers that wait for them.
//! A message leaves `ready` in the same poll that delivers it: a receive that is dropped has taken nothing.
//! One lock, never held across an await.

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
    by_queue: Mutex<HashMap<QueueKey, QueueReceivers>>,
}

#[derive(Debug)]
struct QueueReceivers {
    ready: VecDeque<Delivery>,
    /// Receives in progress; those of them that wait without a message; and the number of messages that these
    /// request together.
    callers: usize,
    waiting: usize,
    wanted: usize,
    /// Streams that a task blocks on: one bit each.
    blocked: u16,
    /// Failed reads so far, and the last failure: callers that waited meanwhile get it.
    failures: u64,
    failure: Option<Arc<Error>>,
    /// The latest caller's `now`, and when it was passed.
    clock: (Millis, Instant),
    /// One permit means "something is ready"; the executor that leaves something behind passes it on.
    arrived: Arc<Notify>,
    /// Signalled when the last caller leaves.
    left: Arc<Notify>,
    /// A caller that wants an immediate answer waits for readers that may hold messages and read for no
    /// caller.
    is_hurried: bool,
    /// A reader ended, a caller began to wait, or hurries.
    changed: Arc<Notify>,
}

impl QueueReceivers {
    fn new() -> Self {
        Self {
            ready: VecDeque::new(),
            callers: 0,
            waiting: 0,
            wanted: 0,
            blocked: 0,
            failures: 0,
            failure: None,
            clock: (Millis::ZERO, Instant::now()),
            arrived: Arc::default(),
            left: Arc::default(),
            is_hurried: false,
            changed: Arc::default(),
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

    /// A caller that has messages no longer waits: no reader reads for it again, even before it leaves.
    fn serve(&mut self, wanted: &mut usize, limit: usize) -> Vec<Delivery> {
        let taken = self.take(limit);
        if !taken.is_empty() {
            self.forget(wanted);
        }
        taken
    }

    fn forget(&mut self, wanted: &mut usize) {
        self.waiting -= usize::from(*wanted > 0);
        self.wanted -= std::mem::take(wanted);
        if self.waiting > 0 {
            // The readers may have ended because there was enough for all, and this caller took several.
            self.arrived.notify_one();
        }
    }

    /// The number of messages that are still worth reading: 0 if each waiter can get one.
    fn lacking(&self) -> usize {
        if self.ready.len() < self.waiting { self.wanted.saturating_sub(self.ready.len()) } else { 0 }
    }

    fn reader_ended(&mut self, stream: u8) {
        self.blocked &= !(1 << stream);
        self.is_hurried &= self.blocked != 0;
        self.changed.notify_waiters();
    }

    /// Readers that no longer read for any caller, and have returned nothing yet.
    fn has_idle_readers(&self) -> bool {
        self.blocked != 0 && self.waiting == 0 && self.ready.is_empty()
    }

    fn is_idle(&self) -> bool {
        self.callers == 0 && self.blocked == 0 && self.ready.is_empty()
    }
}

/// The result of one poll by a waiting receive.
#[derive(Debug)]
pub(super) enum ReceiveResult {
    Messages(Vec<Delivery>),
    Failed(Arc<Error>),
    /// There is nothing yet. The value has the streams without a reader, one bit each: the caller must start a reader
    /// for each.
    Unread(u16),
}

/// A receive in progress: is unregistered, however it ends.
#[derive(Debug)]
pub(super) struct ReceiveGuard<'a> {
    lanes: &'a Lanes,
    queue: &'a QueueKey,
    wanted: usize,
    seen_failures: u64,
    pub(super) arrived: Arc<Notify>,
}

impl ReceiveGuard<'_> {
    pub(super) fn take(&mut self, limit: usize) -> Vec<Delivery> {
        let (lanes, queue, wanted) = (self.lanes, self.queue, &mut self.wanted);
        lanes.with(queue, |lane| lane.serve(wanted, limit)).unwrap_or_default()
    }

    /// `streams`: one bit each.
    pub(super) fn look(&mut self, limit: usize, streams: u16) -> ReceiveResult {
        let (lanes, queue, wanted, seen) = (self.lanes, self.queue, &mut self.wanted, self.seen_failures);
        let found = lanes.with(queue, |lane| {
            let messages = lane.serve(wanted, limit);
            if !messages.is_empty() {
                return ReceiveResult::Messages(messages);
            }
            if let Some(failure) = lane.failure.as_ref().filter(|_| lane.failures > seen) {
                return ReceiveResult::Failed(Arc::clone(failure));
            }
            let unread = streams & !lane.blocked;
            lane.blocked |= unread;
            ReceiveResult::Unread(unread)
        });
        found.expect("a lane with a caller is not forgotten")
    }
}

impl Drop for ReceiveGuard<'_> {
    fn drop(&mut self) {
        self.lanes.with(self.queue, |lane| {
            lane.callers -= 1;
            lane.forget(&mut self.wanted);
            if lane.callers == 0 {
                lane.left.notify_waiters();
            }
        });
    }
}

impl Lanes {
    /// Runs `work` on an existing lane, and removes the lane if it is then empty.
    fn with<T>(&self, queue: &QueueKey, work: impl FnOnce(&mut QueueReceivers) -> T) -> Option<T> {
        let mut lanes = self.by_queue.lock();
        let lane = lanes.get_mut(queue)?;
        let done = work(lane);
        if lane.is_idle() {
            lanes.remove(queue);
        }
        Some(done)
    }

    /// `wanted`: how many it waits for; 0: it does not wait.
    pub(super) fn enter<'a>(&'a self, queue: &'a QueueKey, wanted: usize, now: Millis) -> ReceiveGuard<'a> {
        let mut lanes = self.by_queue.lock();
        let lane = lanes.entry(queue.clone()).or_insert_with(QueueReceivers::new);
        lane.callers += 1;
        lane.waiting += usize::from(wanted > 0);
        lane.wanted += wanted;
        if wanted > 0 {
            lane.is_hurried = false;
            lane.changed.notify_waiters();
        }
        lane.clock = (now, Instant::now());
        let (arrived, seen_failures) = (Arc::clone(&lane.arrived), lane.failures);
        ReceiveGuard { lanes: self, queue, wanted, seen_failures, arrived }
    }

    pub(super) fn deliver(&self, queue: &QueueKey, deliveries: Vec<Delivery>) {
        if deliveries.is_empty() {
            return;
        }
        let mut lanes = self.by_queue.lock();
        let lane = lanes.entry(queue.clone()).or_insert_with(QueueReceivers::new);
        lane.ready.extend(deliveries);
        lane.arrived.notify_one();
    }

    /// The reader of a stream failed, and ends.
    pub(super) fn fail(&self, queue: &QueueKey, stream: u8, failure: Error) {
        self.with(queue, |lane| {
            lane.reader_ended(stream);
            lane.failures += 1;
            lane.failure = Some(Arc::new(failure));
            lane.arrived.notify_waiters();
        });
    }

    /// The number of messages that the waiting callers lack. `None` if no caller lacks one, and the reader of this
    /// stream is removed.
    pub(super) fn lacking(&self, queue: &QueueKey, stream: u8) -> Option<usize> {
        let lacking = self.with(queue, |lane| {
            let lacking = lane.lacking();
            if lacking == 0 {
                lane.reader_ended(stream);
            }
            lacking
        });
        lacking.filter(|number| *number > 0)
    }

    /// The latest caller's clock, as of now.
    pub(super) fn now(&self, queue: &QueueKey) -> Option<Millis> {
        let (said, at) = self.by_queue.lock().get(queue)?.clock;
        Some(said.plus(i64::try_from(at.elapsed().as_millis()).unwrap_or(i64::MAX)))
    }

    /// Ends when no caller receives from this queue.
    pub(super) async fn deserted(&self, queue: &QueueKey) {
        loop {
            let Some((callers, left)) =
                self.by_queue.lock().get(queue).map(|lane| (lane.callers, Arc::clone(&lane.left)))
            else {
                return;
            };
            let mut signal = std::pin::pin!(left.notified());
            signal.as_mut().enable();
            // The last caller may have left between the two looks.
            if callers == 0 || self.is_deserted(queue) {
                return;
            }
            signal.await;
        }
    }

    /// Ends when no reader can hold a message that existed at the call, except readers for which others wait.
    pub(super) async fn hurry(&self, queue: &QueueKey) {
        let hurries = |lane: &mut QueueReceivers| {
            lane.is_hurried = lane.has_idle_readers();
            lane.changed.notify_waiters();
            lane.is_hurried
        };
        if self.with(queue, hurries).unwrap_or(false) {
            self.when(queue, |lane| !lane.is_hurried || !lane.has_idle_readers()).await;
        }
    }

    /// Ends when the readers of a queue are hurried.
    pub(super) async fn hurried(&self, queue: &QueueKey) {
        self.when(queue, |lane| lane.is_hurried).await;
    }

    /// Ends when the condition holds, or the lane is gone.
    async fn when(&self, queue: &QueueKey, is_so: impl Fn(&QueueReceivers) -> bool) {
        loop {
            let Some(changed) = self.by_queue.lock().get(queue).map(|lane| Arc::clone(&lane.changed)) else {
                return;
            };
            let mut signal = std::pin::pin!(changed.notified());
            signal.as_mut().enable();
            if self.by_queue.lock().get(queue).is_none_or(&is_so) {
                return;
            }
            signal.await;
        }
    }

    pub(super) fn is_deserted(&self, queue: &QueueKey) -> bool {
        self.by_queue.lock().get(queue).is_none_or(|lane| lane.callers == 0)
    }

    /// Messages that were read for callers that are gone.
    pub(super) fn orphans(&self, queue: &QueueKey) -> Vec<Delivery> {
        let all = |lane: &mut QueueReceivers| {
            if lane.callers == 0 { lane.ready.drain(..).collect() } else { Vec::new() }
        };
        self.with(queue, all).unwrap_or_default()
    }

    pub(super) fn has_orphans(&self, queue: &QueueKey) -> bool {
        self.by_queue.lock().get(queue).is_some_and(|lane| lane.callers == 0 && !lane.ready.is_empty())
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
        found.iter().map(|delivery| delivery.id).collect()
    }

    fn unread(found: ReceiveResult) -> u16 {
        match found {
            ReceiveResult::Unread(unread) => unread,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_queue_that_is_only_asked_for_leaves_nothing_behind() {
        let (lanes, queue) = (Lanes::default(), queue());
        let mut caller = lanes.enter(&queue, 5, Millis::ZERO);
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
        let (mut one, mut two) = (lanes.enter(&queue, 2, Millis::ZERO), lanes.enter(&queue, 3, Millis::ZERO));
        let _asks_and_does_not_wait = lanes.enter(&queue, 0, Millis::ZERO);
        assert_eq!(unread(one.look(2, 1)), 1);
        assert_eq!(lanes.lacking(&queue, 0), Some(5));
        lanes.deliver(&queue, vec![delivery(1)]);
        assert_eq!(lanes.lacking(&queue, 0), Some(4), "one of the two has nothing");
        assert_eq!(ids(&one.take(2)), [1]);
        assert_eq!(lanes.lacking(&queue, 0), Some(3), "the first has something, and waits no more");
        lanes.deliver(&queue, vec![delivery(2)]);
        assert_eq!(lanes.lacking(&queue, 0), None, "before the second has come for it");
        assert_eq!(ids(&two.take(9)), [2]);
    }

    #[tokio::test]
    async fn who_finds_that_another_took_all_starts_a_reader_again() {
        let (lanes, queue) = (Lanes::default(), queue());
        let (mut one, mut two) = (lanes.enter(&queue, 2, Millis::ZERO), lanes.enter(&queue, 2, Millis::ZERO));
        assert_eq!((unread(one.look(2, 1)), unread(two.look(2, 1))), (1, 0));
        lanes.deliver(&queue, vec![delivery(1), delivery(2)]);
        assert_eq!(lanes.lacking(&queue, 0), None, "there is one for each");
        let arrived = Arc::clone(&two.arrived);
        arrived.notified().await;
        assert_eq!(ids(&one.take(2)), [1, 2]);
        arrived.notified().await;
        assert_eq!(unread(two.look(2, 1)), 1);
    }

    #[tokio::test]
    async fn who_asks_what_is_there_waits_for_readers_that_nobody_else_waits_for() {
        let (lanes, queue) = (Lanes::default(), queue());
        lanes.hurry(&queue).await;
        let mut gone = lanes.enter(&queue, 1, Millis::ZERO);
        assert_eq!(unread(gone.look(1, 1)), 1);
        let mut asks = lanes.enter(&queue, 0, Millis::ZERO);
        lanes.hurry(&queue).await;
        drop(gone);
        let reader = async {
            lanes.hurried(&queue).await;
            lanes.deliver(&queue, vec![delivery(1)]);
            assert_eq!(lanes.lacking(&queue, 0), None);
        };
        tokio::join!(lanes.hurry(&queue), reader);
        assert_eq!(ids(&asks.take(1)), [1]);
    }

    #[tokio::test]
    async fn a_failure_is_told_to_those_who_waited_meanwhile() {
        let (lanes, queue) = (Lanes::default(), queue());
        let mut early = lanes.enter(&queue, 1, Millis::ZERO);
        assert_eq!(unread(early.look(1, 1)), 1);
        lanes.fail(&queue, 0, Error::BrokenOff);
        let mut late = lanes.enter(&queue, 1, Millis::ZERO);
        assert!(matches!(early.look(1, 1), ReceiveResult::Failed(_)));
        assert_eq!(unread(late.look(1, 1)), 1, "starts a reader of its own");
        lanes.deliver(&queue, vec![delivery(1)]);
        assert!(matches!(early.look(1, 1), ReceiveResult::Messages(_)), "messages come first");
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
