//! Executors that receive from Redis Streams as the SDK's worker does: a message is guarded, executed, and
//! acknowledged when it runs here; its outcome is reported over HTTP like that of a task that was pulled. They never
//! die: other tests cover the remains of a dead one.

use crate::{
    check::Receipt,
    clock::{now_ms, now_us},
    execute::{ExecutedTask, Manner, report},
    job::{Pause, RunJob},
};
use anyhow::Context as _;
use futures_util::future::join_all;
use punctual_bus::{Execution, Guard, GuardOptions, RedisBus, RedisBusOptions, Taken};
use punctual_contract::{Bus as _, store::Assignment};
use punctual_domain::{
    name::{Name, QueueKey},
    time::Millis,
};
use std::{sync::Arc, time::Duration};
use tokio::{sync::mpsc, task::JoinSet};

/// The place and the options of a subscription.
#[derive(Debug, Clone)]
pub(crate) struct Subscription {
    pub(crate) bus_url: String,
    pub(crate) subscribers: usize,
    pub(crate) namespace: Option<String>,
    /// The length of the engines' leases, by which a heartbeat would extend one.
    pub(crate) lease_ms: i64,
}

struct Subscriber {
    job: Arc<RunJob>,
    manner: Manner,
    queue: QueueKey,
    lease_ms: i64,
    bus: RedisBus,
    guard: Guard,
}

/// Starts them beside those that pull.
pub(crate) async fn subscribe_all(
    job: &Arc<RunJob>,
    manner: Manner,
    subscription: &Subscription,
    workers: &mut JoinSet<anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let name = |queue: &str| Name::new(queue).map_err(|error| anyhow::anyhow!("{error}"));
    let namespace = subscription.namespace.as_deref().map_or(Ok(Name::default_namespace()), name)?;
    let queue = QueueKey { namespace, queue: name(&job.shape.queue)? };
    for number in 0..subscription.subscribers {
        let holder = format!("loadtest-subscriber-{number}");
        let bus = RedisBusOptions { consumer: holder.clone(), ..RedisBusOptions::default() };
        let guard = GuardOptions { holder, ..GuardOptions::default() };
        let url = &subscription.bus_url;
        let subscriber = Subscriber {
            job: Arc::clone(job),
            manner,
            queue: queue.clone(),
            lease_ms: subscription.lease_ms,
            bus: RedisBus::connect(url, bus).await.context("the bus")?,
            guard: Guard::connect(url, guard).await.context("the guard")?,
        };
        let (done, outcomes) = mpsc::channel(manner.lease_max.saturating_mul(4).max(1));
        workers.spawn(subscriber.receive(done));
        // Its outcomes begin at another engine than those of the executor of this number.
        workers.spawn(report(Arc::clone(job), manner, manner.executors + number, outcomes));
    }
    Ok(())
}

impl Subscriber {
    async fn receive(self, done: mpsc::Sender<ExecutedTask>) -> anyhow::Result<()> {
        let wait = Duration::from_millis(self.manner.wait_ms);
        let mut pause = Pause::default();
        loop {
            let now = Millis(now_ms());
            let Ok(received) = self.bus.receive(&self.queue, self.manner.lease_max, wait, now).await else {
                pause.wait().await;
                continue;
            };
            let at_us = now_us();
            pause = Pause::default();
            let ids: Vec<u64> = received.iter().map(|delivery| delivery.id).collect();
            let granted = join_all(received.iter().map(|delivery| self.is_granted(&delivery.message))).await;
            for (delivery, _) in received.into_iter().zip(granted).filter(|pair| pair.1) {
                let outcome = self.execute(&delivery.message, at_us);
                done.send(outcome).await.context("the reporter has ended")?;
            }
            // Unacknowledged ones would only be delivered again, and be stopped by the guard.
            drop(self.bus.acknowledge(&self.queue, &ids).await);
        }
    }

    /// False if another has executed this attempt.
    async fn is_granted(&self, lease: &Assignment) -> bool {
        let execution = Execution { place: lease.place, fence: lease.fence, attempt: lease.attempt };
        matches!(self.guard.take(execution).await, Ok(Taken::Granted))
    }

    /// Tells the checker and makes the outcome.
    fn execute(&self, lease: &Assignment, at_us: i64) -> ExecutedTask {
        let n = self.job.shape.index(lease.task_id);
        let payload = std::str::from_utf8(&lease.payload.bytes).unwrap_or_default();
        let receipt = Receipt {
            at_us,
            attempt: lease.attempt,
            execute_at_ms: lease.execute_at.0,
            fired_at_ms: lease.fired_at.0,
            is_payload_intact: n.is_some_and(|n| self.job.shape.is_payload(n, payload)),
        };
        self.job.checker.lock().received(n, receipt);
        ExecutedTask { n, attempt: lease.attempt, item: self.succeeded(lease) }
    }

    /// One item of `POST /v1/outcomes`.
    fn succeeded(&self, lease: &Assignment) -> String {
        let (place, fence, lease_ms) = (lease.place, lease.fence, self.lease_ms);
        format!(r#"{{"ref":"{place}","token":"{fence}-{lease_ms}","outcome":"succeeded"}}"#)
    }
}
