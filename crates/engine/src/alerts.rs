//! What a human should look at, as this engine sees it: late tasks, tasks that wait for long, dead letters, services that
//! fail again and again, a hot set that is away. Changes nothing, and decides nothing about a task.

use crate::{
    clock,
    core::Core,
    engine::Engine,
    maintenance::overdue::{OverduePartition, OverdueTask},
};
use parking_lot::Mutex;
use punctual_contract::Error;
use punctual_domain::{name::QueueKey, time::Millis};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

pub(crate) const PERIOD: Duration = Duration::from_secs(5);
/// An alert about something that happens, not about a state, ends when it has not happened for so long.
const QUIET_MS: i64 = 60_000;
/// A task that has fired and was not handed over for so long waits for long.
const WAITING_LONG_MS: i64 = 60_000;
/// From so long on it is shown how long the oldest has waited.
const WAITING_SHOWN_MS: i64 = 1_000;
/// Tasks of one partition that are looked at: the oldest.
const LOOK_AT: usize = 100;
/// A service that failed so often in a row does not do its work.
const FAILURES_IN_A_ROW: u64 = 3;

/// In the order in which they are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AlertKind {
    FiredEarly,
    OverdueNotFired,
    ServiceFailing,
    Panicked,
    ClockDoubtful,
    HotSetOfAnother,
    StoreWentBack,
    DurabilityWeak,
    HotSetAway,
    LateTasks,
    WaitingLong,
    DeadLetters,
    LogLinesLost,
}

impl AlertKind {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FiredEarly => "fired_early",
            Self::OverdueNotFired => "overdue_not_fired",
            Self::ServiceFailing => "service_failing",
            Self::Panicked => "panicked",
            Self::LogLinesLost => "log_lines_lost",
            Self::ClockDoubtful => "clock_doubtful",
            Self::HotSetOfAnother => "hot_set_of_another_cluster",
            Self::StoreWentBack => "store_went_back",
            Self::DurabilityWeak => "durability_weak",
            Self::HotSetAway => "hot_set_away",
            Self::LateTasks => "late_tasks",
            Self::WaitingLong => "waiting_long",
            Self::DeadLetters => "dead_letters",
        }
    }

    #[must_use]
    pub const fn is_critical(self) -> bool {
        matches!(
            self,
            Self::FiredEarly
                | Self::OverdueNotFired
                | Self::ServiceFailing
                | Self::Panicked
                | Self::ClockDoubtful
                | Self::HotSetOfAnother
                | Self::StoreWentBack
                | Self::DurabilityWeak
        )
    }

    /// What whoever is woken by it should do first.
    #[must_use]
    pub const fn what_to_do(self) -> &'static str {
        match self {
            Self::FiredEarly => "A promise is broken: keep the logs, and compare the clocks of all engines.",
            Self::OverdueNotFired => {
                "See who owns the partition and whether that engine fires; restart it, or let another adopt. Keep its logs."
            }
            Self::ServiceFailing => {
                "Read the log for this service; see whether store and hot set answer (/readyz)."
            }
            Self::Panicked => {
                "What panicked was started again. Keep the log: its line names the place, and is a defect to report."
            }
            Self::LogLinesLost => {
                "See whether the disk or the pipe that the log goes to is full, or not read."
            }
            Self::ClockDoubtful => {
                "Compare the clocks of this machine and of the database with a good one (docs/clocks.md), and set the one that is wrong."
            }
            Self::HotSetOfAnother => {
                "Two clusters share the keys of one prefix in Redis: give one of them another hot.prefix, or its own Redis. Until then tasks fire from the store."
            }
            Self::StoreWentBack => {
                "MySQL was restored, or failed over with a loss: what was acknowledged since is gone; compare with your own records. Firing goes on."
            }
            Self::DurabilityWeak => {
                "A crash of the database's machine would lose tasks that are acknowledged: set what the text says, on the server and in its configuration."
            }
            Self::HotSetAway => {
                "See whether Redis answers and has memory. Tasks go on firing from the store, up to half a second late."
            }
            Self::LateTasks => {
                "See whether engines lack CPU, or store and hot set are slow; or give the queue a larger budget."
            }
            Self::WaitingLong => {
                "Start executors, or raise the limits of the queue; /v1/tasks/{ref}/why says what a task waits for."
            }
            Self::DeadLetters => "Look at the errors of the dead tasks, mend the handler, and redrive them.",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    pub kind: AlertKind,
    pub since: Millis,
    pub queue: Option<QueueKey>,
    pub text: String,
}

/// What an alert is about: a queue, a service, or nothing further.
type About = (AlertKind, Option<QueueKey>, &'static str);

#[derive(Debug, Default)]
pub(crate) struct Alerts {
    active: Mutex<BTreeMap<About, Active>>,
    /// Counts at the last look.
    counted: Mutex<HashMap<About, u64>>,
    /// When the oldest of what waits in a queue fired.
    oldest: Mutex<BTreeMap<QueueKey, Millis>>,
    looked_at: Mutex<Option<Instant>>,
}

/// What is new is counted from one look by the period to the next: those who ask between change nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    ByThePeriod,
    Asked,
}

#[derive(Clone, Debug)]
struct Active {
    since: Millis,
    until: Millis,
    text: String,
}

impl Alerts {
    /// Something is so: until the next look, at which it is said again or is over.
    fn is_so(&self, about: About, now: Millis, lasts_ms: i64, text: String) {
        let mut active = self.active.lock();
        let it =
            active.entry(about).or_insert_with(|| Active { since: now, until: now, text: String::new() });
        (it.until, it.text) = (now.plus(lasts_ms), text);
    }

    /// How many more there are than at the last look that went by the period.
    fn more(&self, look: Look, about: &About, count: u64) -> u64 {
        let mut counted = self.counted.lock();
        let before = match look {
            Look::ByThePeriod => counted.insert(about.clone(), count),
            Look::Asked => counted.get(about).copied(),
        };
        count.saturating_sub(before.unwrap_or(0))
    }

    /// `text`, with how many more there are: so from now on for a while; who asks about the same again does not make it last.
    fn is_more(&self, look: Look, about: About, now: Millis, text: String) {
        let is_known =
            look == Look::Asked && self.active.lock().get(&about).is_some_and(|it| it.text == text);
        if !is_known {
            self.is_so(about, now, QUIET_MS, text);
        }
    }

    /// `what`: behind how many more there are of it.
    fn happened(&self, (look, now): (Look, Millis), about: About, count: u64, (one, many): (&str, &str)) {
        let more = self.more(look, &about, count);
        if more > 0 {
            let what = if more == 1 { one } else { many };
            self.is_more(look, about, now, format!("{more} more {what}"));
        }
    }

    fn list(&self, now: Millis) -> Vec<Alert> {
        let mut active = self.active.lock();
        active.retain(|_, it| it.until >= now);
        let alert = |((kind, queue, _), it): (&About, &Active)| Alert {
            kind: *kind,
            since: it.since,
            queue: queue.clone(),
            text: it.text.clone(),
        };
        active.iter().map(alert).collect()
    }
}

/// Of one task, and of several.
const DEAD: (&str, &str) = ("task is dead", "tasks are dead");

/// One look by the period. How many alerts are active.
pub(crate) async fn run_once(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    look(core, now, Look::ByThePeriod).await
}

async fn look(core: &Arc<Core>, now: Millis, by: Look) -> Result<usize, Error> {
    let (alerts, look) = (&core.alerts, (by, now));
    for it in core.meters.queues() {
        let about = |kind| (kind, Some((*it.queue).clone()), "");
        let early = ("task has fired before its time", "tasks have fired before their time");
        alerts.happened(look, about(AlertKind::FiredEarly), it.early, early);
        let late = ("task has fired later than the budget", "tasks have fired later than the budget");
        alerts.happened(look, about(AlertKind::LateTasks), it.over_budget, late);
        alerts.happened(look, about(AlertKind::DeadLetters), it.dead, DEAD);
    }
    let process = &core.options.process;
    let about = |kind| (kind, None, "");
    alerts.happened(
        look,
        about(AlertKind::Panicked),
        process.panics_total(),
        ("panic in this process", "panics in this process"),
    );
    let lost = process.log_lines_lost_total();
    alerts.happened(
        look,
        about(AlertKind::LogLinesLost),
        lost,
        ("line of the log is lost", "lines of the log are lost"),
    );
    let state_ms = i64::try_from(PERIOD.as_millis()).unwrap_or(i64::MAX) * 2;
    for it in core.meters.services().iter().filter(|it| it.failures_in_a_row >= FAILURES_IN_A_ROW) {
        let text = format!("service {:?} has failed {} times in a row", it.name, it.failures_in_a_row);
        alerts.is_so((AlertKind::ServiceFailing, None, it.name), now, state_ms, text);
    }
    overdue(core, now, state_ms);
    if let Some(text) = clock::doubt(core) {
        alerts.is_so((AlertKind::ClockDoubtful, None, ""), now, state_ms, text);
    }
    let about = (AlertKind::StoreWentBack, None, "");
    let raised = alerts.more(by, &about, core.meters.terms_raised_total());
    if raised > 0 {
        let text = format!("the hot set had seen newer terms of {raised} partitions than the store gave");
        alerts.is_more(by, about, now, text);
    }
    let weaknesses = core.durability.weaknesses();
    if !weaknesses.is_empty() {
        alerts.is_so((AlertKind::DurabilityWeak, None, ""), now, state_ms, weaknesses.join("; "));
    }
    if let Some(text) = core.hot.stranger() {
        alerts.is_so((AlertKind::HotSetOfAnother, None, ""), now, state_ms, text);
    } else if core.from_store.is_away() {
        let text = "the hot set does not answer".to_owned();
        alerts.is_so((AlertKind::HotSetAway, None, ""), now, state_ms, text);
    } else {
        let oldest = oldest(core, now).await?;
        let is_long = |it: &(&QueueKey, &Millis)| now.since(*it.1) >= WAITING_LONG_MS;
        for (queue, fired_at) in oldest.iter().filter(is_long) {
            let text = format!("a task has waited for an executor for {} s", now.since(*fired_at) / 1_000);
            alerts.is_so((AlertKind::WaitingLong, Some(queue.clone()), ""), now, state_ms, text);
        }
        *alerts.oldest.lock() = oldest;
    }
    *alerts.looked_at.lock() = Some(Instant::now());
    Ok(alerts.list(now).len())
}

/// Of all partitions: what should have fired, as of the last look.
fn overdue(core: &Core, now: Millis, state_ms: i64) {
    let overdue: Vec<OverdueTask> = core.overdue.list(now).into_iter().filter_map(|it| it.2).collect();
    let Some(oldest) = overdue.iter().min_by_key(|it| it.due_at) else { return };
    let text = format!(
        "a task was due {} s ago and has not fired (id {}, partition {}, database {}); {} partitions have such tasks",
        now.since(oldest.due_at) / 1_000,
        oldest.id,
        oldest.partition.0,
        oldest.database,
        overdue.len(),
    );
    core.alerts.is_so((AlertKind::OverdueNotFired, None, ""), now, state_ms, text);
}

/// Of the partitions of this engine: what waits in queues that are not paused.
async fn oldest(core: &Core, now: Millis) -> Result<BTreeMap<QueueKey, Millis>, Error> {
    let mut oldest: BTreeMap<QueueKey, Millis> = BTreeMap::new();
    for partition in core.owned() {
        for it in core.hot.firing(partition, now.plus(-WAITING_SHOWN_MS), 0..LOOK_AT).await? {
            if !core.settings.is_paused(&it.queue) {
                let at = oldest.entry((*it.queue).clone()).or_insert(it.fired_at);
                *at = it.fired_at.min(*at);
            }
        }
    }
    Ok(oldest)
}

impl Engine {
    /// What is active, after a fresh look.
    ///
    /// # Errors
    /// When the hot set fails before it is known to be away.
    pub async fn alerts(&self) -> Result<Vec<Alert>, crate::Error> {
        self.alerts_within(Duration::ZERO).await
    }

    /// One look as the service takes it by its period, for whoever moves the clock by hand.
    ///
    /// # Errors
    /// See `alerts`.
    pub async fn look_for_alerts(&self) -> Result<(), crate::Error> {
        run_once(&self.core, self.core.now()).await?;
        Ok(())
    }

    /// What is active as of the last look, if that is not older than `max_age`; whoever asks changes nothing for others.
    ///
    /// # Errors
    /// When the hot set fails before it is known to be away.
    pub async fn alerts_within(&self, max_age: Duration) -> Result<Vec<Alert>, crate::Error> {
        let now = self.core.now();
        let looked_at = *self.core.alerts.looked_at.lock();
        if looked_at.is_none_or(|it| it.elapsed() >= max_age) {
            look(&self.core, now, Look::Asked).await?;
        }
        Ok(self.core.alerts.list(now))
    }

    /// Queues in which a task waits, and when the oldest of them fired; as of the last look.
    #[must_use]
    pub fn oldest_waiting(&self) -> Vec<(QueueKey, Millis)> {
        self.core.alerts.oldest.lock().iter().map(|(queue, at)| (queue.clone(), *at)).collect()
    }

    /// Every partition of the store, with the oldest task that should have fired; as of the last look.
    #[must_use]
    pub fn overdue(&self) -> Vec<OverduePartition> {
        self.core.overdue.list(self.core.now())
    }

    /// Queues with tasks that should have fired, and when the oldest of each was due; as of the last look, which remembers
    /// the eight oldest that it has found in each partition.
    #[must_use]
    pub fn overdue_by_queue(&self) -> Vec<(QueueKey, Millis)> {
        self.core.overdue.by_queue(self.core.now()).into_iter().collect()
    }

    /// Queues that are paused, as far as this engine knows.
    #[must_use]
    pub fn paused(&self) -> Vec<QueueKey> {
        let known = self.core.settings.known();
        known.queues.iter().filter(|it| it.1.pause.is_some()).map(|it| it.0.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_is_said_until_it_has_been_quiet_for_a_while() {
        let (alerts, about) = (Alerts::default(), || (AlertKind::DeadLetters, None, ""));
        let listed =
            |at: i64| alerts.list(Millis(at)).into_iter().map(|it| (it.since.0, it.text)).collect::<Vec<_>>();
        let by = |at: i64| (Look::ByThePeriod, Millis(at));
        alerts.happened(by(0), about(), 0, DEAD);
        assert_eq!(listed(0), []);
        alerts.happened(by(10), about(), 2, DEAD);
        alerts.happened(by(20), about(), 2, DEAD);
        assert_eq!(listed(20), [(10, "2 more tasks are dead".to_owned())]);
        alerts.happened(by(30), about(), 3, DEAD);
        assert_eq!(listed(30 + QUIET_MS), [(10, "1 more task is dead".to_owned())]);
        assert_eq!(listed(31 + QUIET_MS), []);
    }

    #[test]
    fn whoever_asks_changes_nothing_of_what_is_told() {
        let (alerts, about) = (Alerts::default(), || (AlertKind::DeadLetters, None, ""));
        let happened = |by, at: i64, count| alerts.happened((by, Millis(at)), about(), count, DEAD);
        let listed =
            |at: i64| alerts.list(Millis(at)).into_iter().map(|it| (it.since.0, it.text)).collect::<Vec<_>>();
        happened(Look::ByThePeriod, 0, 1);
        happened(Look::Asked, 1_000, 3);
        assert_eq!(listed(1_000), [(0, "2 more tasks are dead".to_owned())]);
        happened(Look::Asked, 2_000, 4);
        happened(Look::ByThePeriod, 5_000, 4);
        assert_eq!(
            listed(5_000),
            [(0, "3 more tasks are dead".to_owned())],
            "none is lost between two looks"
        );
        happened(Look::Asked, 5_000 + QUIET_MS, 4);
        assert_eq!(listed(5_001 + QUIET_MS), [], "and it ends, however often it is asked for");
    }
}
