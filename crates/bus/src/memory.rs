//! The bus in memory. A message is either waiting or with a consumer. One lock protects both, and is never
//! held across an await. A message leaves `waiting` in the same poll that delivers it, so a receive that is
//! dropped while it waits has taken nothing.

use async_trait::async_trait;
use parking_lot::Mutex;
use punctual_contract::{Bus, Error, bus::Delivery, store::Assignment};
use punctual_domain::{name::QueueKey, time::Millis};
use std::{
    collections::{BTreeMap, HashMap},
    pin::pin,
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

#[derive(Debug, Default)]
pub struct MemoryBus {
    state: Mutex<BusState>,
}

#[derive(Debug, Default)]
struct BusState {
    lanes: HashMap<QueueKey, QueueMessages>,
    /// One sequence for all queues, so that an id is not reused when an idle lane was removed in between.
    last_id: u64,
}

#[derive(Debug, Default)]
struct QueueMessages {
    /// The messages by id: reclaimed messages precede newer ones.
    waiting: BTreeMap<u64, Message>,
    pending: HashMap<u64, (Millis, Message)>,
    /// The number of waiters. A lane with waiters is not removed: they listen to its `arrived`.
    waiters: usize,
    /// One permit means "something is waiting"; the executor that leaves something behind passes it on.
    arrived: Arc<Notify>,
}

#[derive(Debug)]
struct Message {
    times: u32,
    assignment: Assignment,
}

impl QueueMessages {
    fn hand_out(&mut self, limit: usize, now: Millis) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        while deliveries.len() < limit {
            let Some((id, mut message)) = self.waiting.pop_first() else { break };
            message.times = message.times.saturating_add(1);
            deliveries.push(Delivery { id, times: message.times, message: message.assignment.clone() });
            self.pending.insert(id, (now, message));
        }
        if !self.waiting.is_empty() {
            self.arrived.notify_one();
        }
        deliveries
    }

    /// It has no messages and no waiters.
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.pending.is_empty() && self.waiters == 0
    }
}

impl BusState {
    fn forget_if_idle(&mut self, queue: &QueueKey) {
        if self.lanes.get(queue).is_some_and(QueueMessages::is_idle) {
            self.lanes.remove(queue);
        }
    }
}

/// Lives as long as one wait, and cleans up after it, however it ends.
#[derive(Debug)]
struct Waiter<'a> {
    bus: &'a MemoryBus,
    queue: &'a QueueKey,
    arrived: Arc<Notify>,
}

impl<'a> Waiter<'a> {
    fn new(bus: &'a MemoryBus, queue: &'a QueueKey) -> Self {
        let mut state = bus.state.lock();
        let lane = state.lanes.entry(queue.clone()).or_default();
        lane.waiters += 1;
        Self { bus, queue, arrived: Arc::clone(&lane.arrived) }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut state = self.bus.state.lock();
        if let Some(lane) = state.lanes.get_mut(self.queue) {
            lane.waiters -= 1;
        }
        state.forget_if_idle(self.queue);
    }
}

impl MemoryBus {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn hand_out(&self, queue: &QueueKey, limit: usize, now: Millis) -> Vec<Delivery> {
        self.state.lock().lanes.get_mut(queue).map(|lane| lane.hand_out(limit, now)).unwrap_or_default()
    }

    /// Ends when a message is available. A message that is delivered after a wait counts from its delivery,
    /// not from the call.
    async fn first(&self, queue: &QueueKey, limit: usize, now: Millis) -> Vec<Delivery> {
        let began = Instant::now();
        let waiter = Waiter::new(self, queue);
        loop {
            let mut signal = pin!(waiter.arrived.notified());
            // Listen before looking, so that messages published between the two are noticed.
            signal.as_mut().enable();
            let waited_ms = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX);
            let deliveries = self.hand_out(queue, limit, now.plus(waited_ms));
            if !deliveries.is_empty() {
                return deliveries;
            }
            signal.await;
        }
    }
}

#[async_trait]
impl Bus for MemoryBus {
    async fn publish(&self, messages: Vec<Assignment>) -> Vec<Result<(), Error>> {
        let mut state = self.state.lock();
        let results = messages.iter().map(|_| Ok(())).collect();
        for assignment in messages {
            state.last_id += 1;
            let id = state.last_id;
            let lane = state.lanes.entry(assignment.queue.clone()).or_default();
            lane.waiting.insert(id, Message { times: 0, assignment });
            lane.arrived.notify_one();
        }
        results
    }

    async fn receive(
        &self,
        queue: &QueueKey,
        limit: usize,
        wait: Duration,
        now: Millis,
    ) -> Result<Vec<Delivery>, Error> {
        let there = self.hand_out(queue, limit, now);
        if !there.is_empty() || limit == 0 || wait.is_zero() {
            return Ok(there);
        }
        Ok(timeout(wait, self.first(queue, limit, now)).await.unwrap_or_default())
    }

    async fn acknowledge(&self, queue: &QueueKey, ids: &[u64]) -> Result<(), Error> {
        let mut state = self.state.lock();
        if let Some(lane) = state.lanes.get_mut(queue) {
            for id in ids {
                lane.pending.remove(id);
                // Reclaimed meanwhile: the consumer was slow, not dead, and it is done all the same.
                lane.waiting.remove(id);
            }
        }
        state.forget_if_idle(queue);
        Ok(())
    }

    async fn reclaim(&self, queue: &QueueKey, before: Millis) -> Result<usize, Error> {
        let mut state = self.state.lock();
        let Some(lane) = state.lanes.get_mut(queue) else { return Ok(0) };
        let late: Vec<u64> =
            lane.pending.iter().filter(|(_, (at, _))| *at < before).map(|(id, _)| *id).collect();
        for id in &late {
            if let Some((_, message)) = lane.pending.remove(id) {
                lane.waiting.insert(*id, message);
            }
        }
        if !late.is_empty() {
            lane.arrived.notify_one();
        }
        Ok(late.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_domain::name::Name;

    #[tokio::test(start_paused = true)]
    async fn a_queue_that_is_only_asked_for_leaves_nothing_behind() {
        let bus = MemoryBus::new();
        for number in 0..100 {
            let queue = Name::new(&format!("q{number}")).unwrap();
            let key = QueueKey { namespace: Name::default_namespace(), queue };
            assert_eq!(bus.receive(&key, 1, Duration::from_secs(1), Millis::ZERO).await.unwrap(), []);
        }
        assert!(bus.state.lock().lanes.is_empty());
    }
}
