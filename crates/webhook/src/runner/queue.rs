//! The deliveries of one queue: leases tasks up to its concurrency, sends each to the receiver, and hands its outcome on.

use super::{
    held::{HeldLeases, LEASE_MS},
    reporter,
    shared::{Shared, host_of},
};
use crate::{
    breaker::Permit,
    delivery::{DeliveryVerdict, Response, outcome, verdict},
    numbers::DeliveryResult,
    request::request,
    source::{HeldLease, LeaseState, LeaseTerms},
};
use parking_lot::Mutex;
use punctual_domain::{
    name::QueueKey,
    settings::{QueueSettings, Webhook},
};
use punctual_protocol::{LeasedTask, Outcome};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

const WAIT_MS: u64 = 10_000;
/// The lease after 202, for attempts without a longest time. The receiver can extend it by heartbeats.
const LEASE_AFTER_202_MS: i64 = 600_000;
const BEAT_EVERY: Duration = Duration::from_millis(LEASE_MS.unsigned_abs() / 3);
const BEAT_STEP: Duration = Duration::from_millis(300);
/// The pause after a failed call of the engine.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// The longest rest of a queue that its receiver asks for by `Retry-After`.
const LONGEST_REST: Duration = Duration::from_secs(60);
/// Tries to pause the queue of a gone receiver.
const PAUSE_TRIES: u32 = 5;

#[derive(Debug)]
pub(crate) struct QueueDeliveries {
    shared: Arc<Shared>,
    queue: Arc<QueueKey>,
    held: Arc<HeldLeases>,
    /// Until then the receiver has asked for a rest.
    rests_until: Mutex<Option<Instant>>,
    has_ended: AtomicBool,
}

/// Marks the deliveries as ended, also after a panic: the dispatcher then begins them again.
struct EndMark(Arc<QueueDeliveries>);

impl Drop for EndMark {
    fn drop(&mut self) {
        self.0.has_ended.store(true, SeqCst);
    }
}

/// Frees the place of a delivery that ended without an outcome: after 202, or by a panic.
struct Place<'a> {
    held: &'a HeldLeases,
    task: &'a LeasedTask,
    /// The outcome frees it when it is recorded.
    is_reported: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.is_reported {
            self.held.remove(&self.task.r#ref, &self.task.token);
        }
    }
}

impl QueueDeliveries {
    pub(super) fn begin(
        shared: &Arc<Shared>,
        queue: &Arc<QueueKey>,
        settings: watch::Receiver<Arc<QueueSettings>>,
        retired: CancellationToken,
    ) -> Arc<Self> {
        let deliveries = Arc::new(Self {
            shared: Arc::clone(shared),
            queue: Arc::clone(queue),
            held: Arc::default(),
            rests_until: Mutex::default(),
            has_ended: AtomicBool::new(false),
        });
        let (sender, outcomes) = mpsc::unbounded_channel();
        let held = Arc::clone(&deliveries.held);
        shared.work.spawn(reporter::run(Arc::clone(shared), Arc::clone(queue), held, outcomes));
        let mark = EndMark(Arc::clone(&deliveries));
        let leasing = Arc::clone(&deliveries);
        // Outcomes end when the last sender is dropped: with the leasing loop, and its deliveries.
        shared.work.spawn(async move {
            let _mark = mark;
            leasing.lease_and_deliver(settings, retired, sender).await;
        });
        deliveries
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(SeqCst)
    }

    pub(super) fn in_flight(&self) -> usize {
        self.held.count()
    }

    async fn lease_and_deliver(
        self: Arc<Self>,
        mut settings: watch::Receiver<Arc<QueueSettings>>,
        retired: CancellationToken,
        outcomes: mpsc::UnboundedSender<Outcome>,
    ) {
        let beating = self.shared.work.spawn(Arc::clone(&self).beat(outcomes.downgrade()));
        loop {
            let current = Arc::clone(&settings.borrow_and_update());
            let next = async {
                match current.delivered_to() {
                    Some(webhook) => self.next_tasks(webhook).await,
                    None => std::future::pending().await,
                }
            };
            let leased = tokio::select! {
                biased;
                () = self.shared.stopping.cancelled() => break,
                () = retired.cancelled() => break,
                changed = settings.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => break,
                },
                leased = next => leased,
            };
            for task in leased {
                let given_up = self.held.add(&task.r#ref, &task.token);
                let (deliveries, settings) = (Arc::clone(&self), Arc::clone(&current));
                let outcomes = outcomes.clone();
                self.shared.work.spawn(async move {
                    if let Some(webhook) = settings.delivered_to() {
                        deliveries.deliver(webhook, task, given_up, &outcomes).await;
                    }
                });
            }
        }
        drop((beating, outcomes));
    }

    /// Waits until the receiver may get tasks, and leases them. Dropping the future loses no task.
    async fn next_tasks(&self, webhook: &Webhook) -> Vec<LeasedTask> {
        let host = host_of(webhook);
        let max = loop {
            let (now, in_flight) = (Instant::now(), self.held.count());
            let rest = self.rests_until.lock().filter(|until| *until > now);
            if let Some(until) = rest {
                tokio::time::sleep_until(until).await;
                continue;
            }
            match self.shared.breakers.permit(&host, now) {
                Permit::Open if in_flight < webhook.concurrency() => break webhook.concurrency() - in_flight,
                Permit::One if in_flight == 0 => break 1,
                // What is in flight may change the permit, too.
                Permit::Open | Permit::One => self.held.freed().await,
                Permit::Wait(pause) => tokio::time::sleep(pause).await,
            }
        };
        let terms =
            LeaseTerms { max, wait_ms: WAIT_MS, lease_ms: LEASE_MS, lease_after_202_ms: LEASE_AFTER_202_MS };
        match self.shared.source.lease(&self.queue, terms).await {
            Ok(leased) => leased,
            Err(error) => {
                let (namespace, queue) = (self.queue.namespace.as_str(), self.queue.queue.as_str());
                tracing::warn!(
                    namespace,
                    queue,
                    error,
                    "tasks of a webhook queue cannot be leased; again in a second"
                );
                tokio::time::sleep(AGAIN_AFTER).await;
                Vec::new()
            }
        }
    }

    async fn deliver(
        &self,
        webhook: &Webhook,
        task: LeasedTask,
        given_up: CancellationToken,
        outcomes: &mpsc::UnboundedSender<Outcome>,
    ) {
        let mut place = Place { held: &self.held, task: &task, is_reported: false };
        let began = Instant::now();
        let response = self.send(webhook, &task, given_up).await;
        let verdict = verdict(&response, self.shared.source.now());
        self.note(webhook, &response, &verdict, began);
        match &verdict {
            DeliveryVerdict::Accepted => self.leave_to_receiver(&task).await,
            DeliveryVerdict::Gone { why } => self.pause(webhook, why).await,
            _ => {}
        }
        if let Some(outcome) = outcome((&*task.r#ref, &*task.token), &response, &verdict) {
            place.is_reported = outcomes.send(outcome).is_ok();
        }
    }

    async fn send(&self, webhook: &Webhook, task: &LeasedTask, given_up: CancellationToken) -> Response {
        let request = match request(&self.queue, webhook, task, self.shared.source.now()) {
            Ok(request) => request,
            Err(why) => return Response::Unanswered(why),
        };
        let within_ms = task.timeout_ms.unwrap_or(i64::MAX).min(webhook.timeout_ms()).max(1);
        let within = Duration::from_millis(within_ms.unsigned_abs());
        tokio::select! {
            response = self.shared.client.send(request, within) => response,
            () = given_up.cancelled() => Response::GivenUp,
            () = self.shared.cut_off.cancelled() => Response::Interrupted,
        }
    }

    /// Counts a delivery, and what it says of its host.
    fn note(&self, webhook: &Webhook, response: &Response, verdict: &DeliveryVerdict, began: Instant) {
        let now = Instant::now();
        let host = host_of(webhook);
        match (response, verdict) {
            (Response::Unanswered(why), _) => self.shared.breakers.failed(&host, why, now),
            (Response::Answered(answer), DeliveryVerdict::Failed { why, .. })
                if matches!(answer.status, 502..=504) =>
            {
                self.shared.breakers.failed(&host, why, now);
            }
            (Response::Answered(_), _) => self.shared.breakers.answered(&host),
            (Response::GivenUp | Response::Interrupted, _) => {}
        }
        let asks_for_rest =
            matches!(response, Response::Answered(answer) if matches!(answer.status, 429 | 503));
        if let DeliveryVerdict::Failed { retry_after_ms: Some(rest_ms), .. } = verdict
            && asks_for_rest
        {
            let rest = Duration::from_millis(rest_ms.unsigned_abs()).min(LONGEST_REST);
            let mut rests_until = self.rests_until.lock();
            *rests_until = (*rests_until).max(Some(now + rest));
        }
        let result = match verdict {
            DeliveryVerdict::Succeeded { .. } => DeliveryResult::Succeeded,
            DeliveryVerdict::Accepted => DeliveryResult::Accepted,
            DeliveryVerdict::Failed { .. } => DeliveryResult::Failed,
            DeliveryVerdict::Rejected { .. } => DeliveryResult::Rejected,
            DeliveryVerdict::Gone { .. } => DeliveryResult::Gone,
            DeliveryVerdict::Postponed => DeliveryResult::Postponed,
        };
        self.shared.numbers.delivered(result, now - began);
    }

    /// Extends the lease once, so that the receiver has time for its outcome.
    async fn leave_to_receiver(&self, task: &LeasedTask) {
        self.held.accepted(&task.r#ref);
        let lease_ms = task.timeout_ms.unwrap_or(LEASE_AFTER_202_MS);
        let lease = HeldLease { r#ref: task.r#ref.clone(), token: task.token.clone(), lease_ms };
        loop {
            let states = self.shared.source.extend(vec![lease.clone()]).await;
            if states.first().is_some_and(|state| *state != LeaseState::Unknown) {
                return;
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }

    async fn pause(&self, webhook: &Webhook, why: &str) {
        let reason = format!("{} answered {why}", host_of(webhook));
        for _ in 0..PAUSE_TRIES {
            match self.shared.source.pause(&self.queue, reason.clone()).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(error, "the queue of a gone receiver cannot be paused; again in a second");
                    tokio::time::sleep(AGAIN_AFTER).await;
                }
            }
        }
    }

    /// Extends the leases of deliveries that take long, until no delivery is left.
    async fn beat(self: Arc<Self>, outcomes: mpsc::WeakUnboundedSender<Outcome>) {
        let mut last_beat = Instant::now();
        while let Some(sender) = outcomes.upgrade() {
            drop(sender);
            // Short steps, so that the end of the deliveries is noticed.
            tokio::time::sleep(BEAT_STEP).await;
            if last_beat.elapsed() < BEAT_EVERY {
                continue;
            }
            last_beat = Instant::now();
            let beating = self.held.beating();
            if !beating.is_empty() {
                let states = self.shared.source.extend(beating.clone()).await;
                self.held.beaten(&beating, states);
            }
        }
    }
}
