//! Alerts of this engine: late tasks, long waits, dead letters, services that fail repeatedly, an unavailable hot set.
//! Changes nothing, and decides nothing about a task.

pub(crate) mod state;

use crate::{
    clock,
    cluster::databases_away,
    core::Core,
    engine::Engine,
    maintenance::overdue::state::{OverduePartition, OverdueTask},
};
use punctual_contract::{Error, store::Scan};
use punctual_domain::{
    name::QueueKey,
    state::State,
    time::{Millis, Span},
};
use state::{Alert, AlertCheck, AlertKind};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::time::Instant;

pub(crate) const PERIOD: Duration = Duration::from_secs(5);
/// The wait of a fired task without a hand-over that raises the alert for long waits.
const WAITING_LONG_MS: i64 = 60_000;
/// The minimum wait of the oldest task that is displayed.
const WAITING_SHOWN_MS: i64 = 1_000;
/// The maximum number of the oldest tasks of one partition that are examined.
const LOOK_AT: usize = 100;
/// A service that failed so often in a row does not do its work.
const FAILURES_IN_A_ROW: u64 = 3;

/// One periodic check. Returns the number of active alerts.
pub(crate) async fn run_once(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    look(core, now, AlertCheck::ByThePeriod).await
}

async fn look(core: &Arc<Core>, now: Millis, by: AlertCheck) -> Result<usize, Error> {
    let (alerts, look) = (&core.health.alerts, (by, now));
    for queue in core.meters.queues() {
        let about = |kind| (kind, Some((*queue.queue).clone()), "");
        alerts.happened(look, about(AlertKind::FiredEarly), queue.early);
        alerts.happened(look, about(AlertKind::LateTasks), queue.over_budget);
        alerts.happened(look, about(AlertKind::DeadLetters), queue.dead);
    }
    let process = &core.options.process;
    let about = |kind| (kind, None, "");
    alerts.happened(look, about(AlertKind::Panicked), process.panics_total());
    alerts.happened(look, about(AlertKind::LogLinesLost), process.log_lines_lost_total());
    alerts.happened(look, about(AlertKind::StoreWentBack), core.meters.terms_raised_total());
    let state_ms = i64::try_from(PERIOD.as_millis()).unwrap_or(i64::MAX) * 2;
    for service in
        core.meters.services().iter().filter(|service| service.failures_in_a_row >= FAILURES_IN_A_ROW)
    {
        let text =
            format!("service {:?} has failed {} times in a row", service.name, service.failures_in_a_row);
        alerts.is_so((AlertKind::ServiceFailing, None, service.name), now, state_ms, text);
    }
    scans(core, now, state_ms);
    overdue(core, now, state_ms);
    if let Some(text) = clock::doubt(core) {
        alerts.is_so((AlertKind::ClockDoubtful, None, ""), now, state_ms, text);
    }
    let away = databases_away(core);
    if !away.is_empty() {
        let numbers: Vec<String> = away.iter().map(usize::to_string).collect();
        let which = if numbers.len() == 1 { "database" } else { "databases" };
        let waiting = core.maintenance.for_later.waiting();
        let kept = match waiting {
            0 => String::new(),
            1 => "; 1 outcome waits in this engine's journal".to_owned(),
            more => format!("; {more} outcomes wait in this engine's journal"),
        };
        let text = format!("{which} {} cannot be written{kept}", numbers.join(", "));
        alerts.is_so((AlertKind::DatabaseAway, None, ""), now, state_ms, text);
    }
    let weaknesses = core.health.durability.weaknesses();
    if !weaknesses.is_empty() {
        alerts.is_so((AlertKind::DurabilityWeak, None, ""), now, state_ms, weaknesses.join("; "));
    }
    if let Some(text) = core.evaluations.alert() {
        alerts.is_so((AlertKind::EvaluationSetAside, None, ""), now, state_ms, text);
    }
    for (kind, text) in core.health.inboxes.alerts() {
        alerts.is_so((kind, None, ""), now, state_ms, text);
    }
    for (kind, queue, text) in core.health.held_back.alerts(&core.settings.known()) {
        alerts.is_so((kind, Some(queue), ""), now, state_ms, text);
    }
    if let Some(text) = core.hot.stranger() {
        alerts.is_so((AlertKind::HotSetOfAnother, None, ""), now, state_ms, text);
    } else if core.store_fallback.hides_limits() {
        let text = core.hot.refusal().unwrap_or_else(|| "the hot set does not answer".to_owned());
        alerts.is_so((AlertKind::HotSetAway, None, ""), now, state_ms, text);
    } else {
        let oldest = oldest(core, now).await?;
        let is_long = |pair: &(&QueueKey, &Millis)| now.since(*pair.1) >= WAITING_LONG_MS;
        for (queue, fired_at) in oldest.iter().filter(is_long) {
            let text = format!("a task has waited for an executor for {} s", now.since(*fired_at) / 1_000);
            alerts.is_so((AlertKind::WaitingLong, Some(queue.clone()), ""), now, state_ms, text);
        }
        *alerts.oldest.lock() = oldest;
    }
    *alerts.looked_at.lock() = Some(Instant::now());
    Ok(alerts.list(now).len())
}

/// Raises alerts about scanned queues: scans that fail, and tasks that are later than their budget because of that.
fn scans(core: &Core, now: Millis, state_ms: i64) {
    for trouble in core.store_fallback.scans.troubles() {
        let about = |kind| (kind, Some((*trouble.queue).clone()), "scan");
        if let Some((count, error)) = &trouble.failing {
            let text = format!("the last {count} scans of the queue have failed: {error}");
            core.health.alerts.is_so(about(AlertKind::ScanFailing), now, state_ms, text);
        }
        let budget_ms = core.settings.queue(&trouble.queue).lateness_budget_ms().filter(|budget| *budget > 0);
        let late_ms = trouble.oldest_failed.map(|due_at| now.since(due_at));
        if let Some((late_ms, _)) = late_ms.zip(budget_ms).filter(|(late_ms, budget)| late_ms > budget) {
            let text =
                format!("a task was due {} ago, and the scans of its queue could not fire it", Span(late_ms));
            core.health.alerts.is_so(about(AlertKind::LateTasks), now, state_ms, text);
        }
    }
}

/// Raises the alert about overdue tasks of all partitions, as of the last check.
fn overdue(core: &Core, now: Millis, state_ms: i64) {
    let overdue: Vec<OverdueTask> =
        core.maintenance.overdue.list(now).into_iter().filter_map(|row| row.2).collect();
    let Some(oldest) = overdue.iter().min_by_key(|overdue_task| overdue_task.due_at) else { return };
    let text = format!(
        "a task was due {} s ago and has not fired (id {}, partition {}, database {}); {} partitions have such tasks",
        now.since(oldest.due_at) / 1_000,
        oldest.id,
        oldest.partition.0,
        oldest.database,
        overdue.len(),
    );
    core.health.alerts.is_so((AlertKind::OverdueNotFired, None, ""), now, state_ms, text);
}

/// The waiting tasks of queues that are not paused: of this engine's partitions, and of those it serves from
/// the store.
async fn oldest(core: &Core, now: Millis) -> Result<BTreeMap<QueueKey, Millis>, Error> {
    let mut oldest: BTreeMap<QueueKey, Millis> = BTreeMap::new();
    for partition in core.owned() {
        let until = now.plus(-WAITING_SHOWN_MS);
        let found = core.store.scan(Scan { partition, until, after: None, limit: LOOK_AT }).await?;
        for entry in found.iter().filter(|entry| entry.state == State::Ready && entry.fired_at <= until) {
            note(core, &mut oldest, &entry.queue, entry.fired_at);
        }
    }
    let served: Vec<_> = core.live.lock().oldest_served().collect();
    for (queue, fired_at) in served {
        if now.since(fired_at) >= WAITING_SHOWN_MS {
            note(core, &mut oldest, &queue, fired_at);
        }
    }
    Ok(oldest)
}

fn note(core: &Core, oldest: &mut BTreeMap<QueueKey, Millis>, queue: &QueueKey, fired_at: Millis) {
    if !core.settings.is_paused(queue) {
        let at = oldest.entry(queue.clone()).or_insert(fired_at);
        *at = fired_at.min(*at);
    }
}

impl Engine {
    /// The active alerts, after a fresh check.
    ///
    /// # Errors
    /// When the hot set fails before it is known to be unavailable.
    pub async fn alerts(&self) -> Result<Vec<Alert>, crate::Error> {
        self.alerts_within(Duration::ZERO).await
    }

    /// The same check that the service makes periodically, for a caller that moves the clock manually.
    ///
    /// # Errors
    /// See `alerts`.
    pub async fn look_for_alerts(&self) -> Result<(), crate::Error> {
        run_once(&self.core, self.core.now()).await?;
        Ok(())
    }

    /// The active alerts as of the last check, unless it is older than `max_age`. This call changes no count
    /// for other callers.
    ///
    /// # Errors
    /// When the hot set fails before it is known to be unavailable.
    pub async fn alerts_within(&self, max_age: Duration) -> Result<Vec<Alert>, crate::Error> {
        let now = self.core.now();
        let looked_at = *self.core.health.alerts.looked_at.lock();
        if looked_at.is_none_or(|looked_at| looked_at.elapsed() >= max_age) {
            look(&self.core, now, AlertCheck::Asked).await?;
        }
        Ok(self.core.health.alerts.list(now))
    }

    /// The queues in which a task waits, and when the oldest of them fired, as of the last check.
    #[must_use]
    pub fn oldest_waiting(&self) -> Vec<(QueueKey, Millis)> {
        self.core.health.alerts.oldest.lock().iter().map(|(queue, at)| (queue.clone(), *at)).collect()
    }

    /// Every partition of the store, with the oldest task that should have fired, as of the last check.
    #[must_use]
    pub fn overdue(&self) -> Vec<OverduePartition> {
        self.core.maintenance.overdue.list(self.core.now())
    }

    /// The queues with tasks that should have fired, and when the oldest of each was due, as of the last check, which
    /// remembers the eight oldest that it has found in each partition.
    #[must_use]
    pub fn overdue_by_queue(&self) -> Vec<(QueueKey, Millis)> {
        self.core.maintenance.overdue.by_queue(self.core.now()).into_iter().collect()
    }

    /// Queues that are paused, as far as this engine knows.
    #[must_use]
    pub fn paused(&self) -> Vec<QueueKey> {
        let known = self.core.settings.known();
        known.queues.iter().filter(|queue| queue.1.pause.is_some()).map(|queue| queue.0.clone()).collect()
    }
}
