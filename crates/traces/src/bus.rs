//! A bus whose messages continue the trace: an executor gets a `traceparent` below the span of its attempt,
//! as in a lease over HTTP. Without a collector this is not used, and messages have the caller's
//! `traceparent`.

use crate::context::TraceContext;
use async_trait::async_trait;
use punctual_contract::{Bus, Error, bus::Delivery, store::Assignment};
use punctual_domain::{name::QueueKey, time::Millis};
use std::{sync::Arc, time::Duration};

#[derive(Debug)]
pub struct TracedBus {
    inner: Arc<dyn Bus>,
    sample_percent: u8,
}

impl TracedBus {
    /// `sample_percent`: as in [`crate::Options`].
    #[must_use]
    pub fn new(inner: Arc<dyn Bus>, sample_percent: u8) -> Self {
        Self { inner, sample_percent }
    }

    fn handed(&self, message: Assignment) -> Assignment {
        let (id, attempt) = (message.place.id, message.attempt);
        let handed = |text: String| match TraceContext::read(&text)
            .filter(|context| context.is_reported(self.sample_percent))
        {
            Some(context) => context.of_attempt(id, attempt),
            None => text,
        };
        Assignment { traceparent: message.traceparent.map(handed), ..message }
    }
}

#[async_trait]
impl Bus for TracedBus {
    async fn publish(&self, messages: Vec<Assignment>) -> Vec<Result<(), Error>> {
        self.inner.publish(messages.into_iter().map(|message| self.handed(message)).collect()).await
    }

    async fn receive(
        &self,
        queue: &QueueKey,
        limit: usize,
        wait: Duration,
        now: Millis,
    ) -> Result<Vec<Delivery>, Error> {
        self.inner.receive(queue, limit, wait, now).await
    }

    async fn acknowledge(&self, queue: &QueueKey, ids: &[u64]) -> Result<(), Error> {
        self.inner.acknowledge(queue, ids).await
    }

    async fn reclaim(&self, queue: &QueueKey, before: Millis) -> Result<usize, Error> {
        self.inner.reclaim(queue, before).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_bus::MemoryBus;
    use punctual_domain::{
        name::Name,
        place::{Partition, TaskRef},
        task::{Content, Priority},
    };
    use std::collections::BTreeMap;

    const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

    fn message(id: i64, attempt: u32, traceparent: Option<&str>) -> Assignment {
        let at = Millis(1);
        Assignment {
            place: TaskRef { partition: Partition(0), due_at: at, id },
            queue: QueueKey { namespace: Name::default_namespace(), queue: Name::new("q").unwrap() },
            task_id: id,
            task_version: 0,
            fence: 1,
            attempt,
            max_attempts: 5,
            kind: Name::new("k").unwrap(),
            priority: Priority::default(),
            payload: Content::default(),
            execute_at: at,
            due_at: at,
            fired_at: at,
            leased_since: at,
            lease_until: Millis(60_000),
            timeout_ms: None,
            labels: BTreeMap::new(),
            traceparent: traceparent.map(str::to_owned),
        }
    }

    #[tokio::test]
    async fn each_message_leads_below_the_run_of_its_attempt_and_what_nobody_samples_stays_as_it_was() {
        let bus = TracedBus::new(Arc::new(MemoryBus::new()), 100);
        let sent = [
            message(7, 1, Some(CALLER)),
            message(7, 2, Some(CALLER)),
            message(8, 1, Some(UNSAMPLED)),
            message(9, 1, None),
        ];
        assert!(bus.publish(sent.to_vec()).await.iter().all(Result::is_ok));
        let got = bus.receive(&sent[0].queue, 9, Duration::ZERO, Millis(2)).await.unwrap();
        let got: Vec<_> = got.into_iter().map(|delivery| delivery.message).collect();
        let run = |attempt| TraceContext::read(CALLER).map(|caller| caller.of_attempt(7, attempt));
        let traces: Vec<_> = got.iter().map(|lease| lease.traceparent.clone()).collect();
        assert_eq!(traces, [run(1), run(2), Some(UNSAMPLED.to_owned()), None]);
        let but_for_it = |lease: &Assignment| Assignment { traceparent: None, ..lease.clone() };
        assert!(got.iter().map(but_for_it).eq(sent.iter().map(but_for_it)), "nothing else is changed");
    }

    #[tokio::test]
    async fn where_none_is_told_messages_carry_what_the_caller_sent() {
        let bus = TracedBus::new(Arc::new(MemoryBus::new()), 0);
        let sent = message(7, 1, Some(CALLER));
        assert!(bus.publish(vec![sent.clone()]).await.iter().all(Result::is_ok));
        let got = bus.receive(&sent.queue, 9, Duration::ZERO, Millis(2)).await.unwrap();
        assert_eq!(got[0].message, sent);
        bus.acknowledge(&sent.queue, &[got[0].id]).await.unwrap();
        assert_eq!(bus.reclaim(&sent.queue, Millis(9)).await.unwrap(), 0);
    }
}
