//! Tasks from the bus, one loop per queue, and only for free slots. A message is acknowledged when its task
//! runs here: from then on the lease recovers the task, not the bus. A doubtful message (delivered before, or
//! its lease nearly over) is executed only if the server confirms that its attempt still holds. While the bus
//! does not answer, tasks are requested from the server.

use std::sync::Arc;

use futures_util::future::join_all;
use punctual_bus::{Execution, Guard, Taken};
use punctual_contract::bus::Delivery;
use punctual_contract::store::Assignment;
use punctual_domain::name::{Name, QueueKey};
use punctual_domain::task::Content;
use punctual_protocol::limits::BATCH_MAX;
use punctual_protocol::{Body, Json, LeaseBeat, LeasedTask, Token};
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, sleep};

use super::WorkerContext;
use super::leasing::{EMPTY_PAUSE, free_slots, request, start};
use super::report::PendingOutcome;
use super::slots::{Slots, WorkerQueue};
use crate::backoff::Backoff;
use crate::bus::BusSource;
use crate::client::Client;
use crate::error::Error;

struct Subscription {
    shared: Arc<WorkerContext>,
    source: Arc<BusSource>,
    queue: QueueKey,
    line: WorkerQueue,
    reports: mpsc::UnboundedSender<PendingOutcome>,
}

/// The queue in the client's namespace.
pub(super) fn key(client: &Client, queue: &str) -> Result<QueueKey, Error> {
    let name =
        |namespace: &str| Name::chosen(namespace).map_err(|error| Error::configuration(error.to_string()));
    Ok(QueueKey { namespace: name(client.namespace())?, queue: name(queue)? })
}

pub(super) async fn run(
    shared: Arc<WorkerContext>,
    source: Arc<BusSource>,
    line: WorkerQueue,
    reports: mpsc::UnboundedSender<PendingOutcome>,
) {
    match key(&shared.client, &line.name) {
        Ok(queue) => Subscription { shared, source, queue, line, reports }.work().await,
        Err(error) => tracing::error!(queue = line.name, error = %error, "nothing can be received"),
    }
}

impl Subscription {
    async fn work(&self) {
        let stop = &self.shared.stop;
        // As long as requests to the server in between: an unavailable bus may take seconds to fail.
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(10));
        let (mut busy, mut reclaimed_at) = (false, None);
        while !stop.is_cancelled() {
            if stop.run_until_cancelled(self.shared.served()).await.is_none() {
                return;
            }
            self.reclaim(&mut reclaimed_at).await;
            let Some(mut slots) = stop.run_until_cancelled(free_slots(&self.shared, &self.line, busy)).await
            else {
                return;
            };
            let request = request(&self.shared, &slots, busy);
            let (limit, wait) = (slots.count(), Duration::from_millis(request.wait_ms));
            // A receive that is dropped has taken nothing.
            let received = self.source.bus.receive(&self.queue, limit, wait, self.source.clock.now());
            match stop.run_until_cancelled(received).await {
                Some(Ok(deliveries)) => {
                    backoff.reset();
                    busy = !deliveries.is_empty();
                    self.take_over(deliveries, &mut slots).await;
                }
                Some(Err(error)) => {
                    let wait = backoff.next();
                    tracing::warn!(queue = %self.queue.queue, error = %error, wait_ms = wait.as_millis(), "cannot receive: the server is asked, and then the bus again");
                    stop.run_until_cancelled(self.pull(wait, slots)).await;
                }
                None => return,
            }
        }
    }

    /// Requests tasks from the server for this long: while the bus is unavailable, fired tasks wait there.
    async fn pull(&self, time: Duration, mut slots: Slots) {
        let until = Instant::now() + time;
        while slots.count() > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let wait_ms =
                u64::try_from(left.as_millis()).unwrap_or(u64::MAX).min(self.shared.options.wait_ms);
            let request = self.shared.lease_request(slots.count(), wait_ms);
            match self.shared.client.lease_or_wish(self.queue.queue.as_str(), &request).await {
                Ok(answer) => {
                    let is_empty = answer.tasks.is_empty();
                    self.shared.set_desired_state(answer.wish);
                    start(&self.shared, answer.tasks, &mut slots, &self.reports);
                    if is_empty {
                        // Pauses, so that a server that answers immediately is not asked too often.
                        sleep(EMPTY_PAUSE).await;
                    }
                }
                Err(error) => {
                    tracing::warn!(queue = %self.queue.queue, error = %error, "nor can the server be asked");
                    drop(slots);
                    return sleep(left).await;
                }
            }
        }
    }

    /// Periodically redelivers messages that a dead worker had received and not taken over, to any worker.
    async fn reclaim(&self, last: &mut Option<Instant>) {
        let after = self.source.reclaim_after;
        if last.is_some_and(|at| at.elapsed() < after / 3) {
            return;
        }
        *last = Some(Instant::now());
        let ms = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
        match self.source.bus.reclaim(&self.queue, self.source.clock.now().plus(-ms)).await {
            Ok(0) => {}
            Ok(messages) => {
                tracing::info!(queue = %self.queue.queue, messages, "messages of silent workers come again");
            }
            Err(error) => {
                tracing::warn!(queue = %self.queue.queue, error = %error, "cannot reclaim messages")
            }
        }
    }

    /// Starts tasks to execute, and acknowledges them and those that must not be executed. The rest stays on
    /// the bus.
    async fn take_over(&self, deliveries: Vec<Delivery>, slots: &mut Slots) {
        if deliveries.is_empty() {
            return;
        }
        let mut done = Vec::with_capacity(deliveries.len());
        let certain = self.without_stale(deliveries, &mut done).await;
        let granted = self.without_held(certain, &mut done).await;
        done.extend(granted.iter().map(|delivery| delivery.id));
        let lease_ms = self.shared.options.lease_ms;
        let tasks = granted.into_iter().map(|delivery| leased(delivery.message, lease_ms)).collect();
        start(&self.shared, tasks, slots, &self.reports);
        if let Err(error) = self.source.bus.acknowledge(&self.queue, &done).await {
            tracing::warn!(messages = done.len(), error = %error, "messages were not acknowledged, and may come again");
        }
    }

    /// Returns the deliveries whose attempt still holds. `done` gets those whose attempt is over.
    async fn without_stale(&self, deliveries: Vec<Delivery>, done: &mut Vec<u64>) -> Vec<Delivery> {
        let (mut certain, doubtful): (Vec<_>, Vec<_>) =
            deliveries.into_iter().partition(|delivery| self.is_certain(delivery));
        for part in doubtful.chunks(BATCH_MAX) {
            let Some(held) = self.ask(part).await else { continue };
            for (delivery, held) in part.iter().zip(held) {
                // Its database does not answer: it is left for later.
                let Some(held) = held else { continue };
                if held && !self.is_here(&delivery.message) {
                    certain.push(delivery.clone());
                } else {
                    let (task, attempt) = (delivery.message.place, delivery.message.attempt);
                    tracing::info!(task = %task, attempt, times = delivery.times, "a delivery is stale: not executed");
                    done.push(delivery.id);
                }
            }
        }
        certain
    }

    /// Fresh, and its lease lasts until the next heartbeat at the least.
    fn is_certain(&self, delivery: &Delivery) -> bool {
        let left_ms = delivery.message.lease_until.since(self.source.clock.now());
        delivery.times == 1 && left_ms >= i64::try_from(self.shared.options.lease_ms / 2).unwrap_or(i64::MAX)
    }

    /// It runs in this worker already: its acknowledgement was lost.
    fn is_here(&self, lease: &Assignment) -> bool {
        let token = token(lease, self.shared.options.lease_ms);
        self.shared.held.has(&lease.place.to_string(), &token)
    }

    /// Extends the attempts that still hold. The result has true for each of those. `None` if the server does not
    /// answer, for all or for one.
    async fn ask(&self, part: &[Delivery]) -> Option<Vec<Option<bool>>> {
        let options = &self.shared.options;
        let beat = |delivery: &Delivery| LeaseBeat {
            r#ref: delivery.message.place.to_string(),
            token: token(&delivery.message, options.lease_ms),
            ..LeaseBeat::default()
        };
        let request = self.shared.beat_request(part.iter().map(beat).collect());
        match self.shared.client.heartbeat(&request).await {
            Ok(answer) if answer.leases.len() == part.len() => {
                Some(answer.leases.iter().map(|lease| (!lease.unavailable).then_some(!lease.lost)).collect())
            }
            Ok(_) => None,
            Err(error) => {
                tracing::warn!(messages = part.len(), error = %error, "doubtful messages are left for later");
                None
            }
        }
    }

    /// Returns the deliveries that the guard grants. `done` gets those that another worker executes or has executed.
    async fn without_held(&self, deliveries: Vec<Delivery>, done: &mut Vec<u64>) -> Vec<Delivery> {
        let Some(guard) = &self.source.guard else { return deliveries };
        let answers = join_all(deliveries.iter().map(|delivery| take(guard, &delivery.message))).await;
        let mut granted = Vec::with_capacity(deliveries.len());
        for (delivery, answer) in deliveries.into_iter().zip(answers) {
            match answer {
                Some(Taken::Granted) => granted.push(delivery),
                Some(Taken::Held { .. }) => done.push(delivery.id),
                None => {}
            }
        }
        granted
    }
}

/// Returns `None` if the result is unknown now. If the guard granted the attempt nevertheless, it ends with its
/// lease.
async fn take(guard: &Guard, lease: &Assignment) -> Option<Taken> {
    let execution = Execution { place: lease.place, fence: lease.fence, attempt: lease.attempt };
    match guard.take(execution).await {
        Ok(taken) => Some(taken),
        Err(error) => {
            tracing::warn!(task = %lease.place, attempt = lease.attempt, error = %error, "the guard does not answer: left for later");
            None
        }
    }
}

/// The token, as the server writes it.
fn token(lease: &Assignment, lease_ms: u64) -> String {
    Token::of(lease.fence, i64::try_from(lease_ms).unwrap_or(i64::MAX), &lease.labels).to_string()
}

/// The task, as the server would have delivered it.
fn leased(lease: Assignment, lease_ms: u64) -> LeasedTask {
    let mut leased = LeasedTask {
        r#ref: lease.place.to_string(),
        task_id: lease.task_id,
        task_version: lease.task_version,
        queue: lease.queue.queue.as_str().to_owned(),
        kind: lease.kind.as_str().to_owned(),
        priority: lease.priority.level(),
        attempt: lease.attempt,
        max_attempts: lease.max_attempts,
        token: token(&lease, lease_ms),
        execute_at_ms: lease.execute_at.0,
        fired_at_ms: lease.fired_at.0,
        lease_until_ms: lease.lease_until.0,
        timeout_ms: lease.timeout_ms,
        labels: lease.labels,
        traceparent: lease.traceparent,
        ..LeasedTask::default()
    };
    leased.set_payload(Some(lease.payload).filter(|payload| !payload.bytes.is_empty()).map(body));
    leased
}

/// Invalid JSON is passed on as bytes.
fn body(content: Content) -> Body {
    let json = content
        .is_json
        .then(|| String::from_utf8(content.bytes.clone()).ok().and_then(|text| Json::from_text(text).ok()));
    json.flatten().map_or(Body::Bytes(content.bytes), Body::Json)
}
