//! Kinds of alerts, and the active ones. Checks nothing itself: the checks report to it.

use parking_lot::Mutex;
use punctual_domain::{name::QueueKey, time::Millis};
use std::collections::{BTreeMap, HashMap, VecDeque};
use tokio::time::Instant;

/// An alert about an event, as opposed to a state, ends when the event has not occurred for this long.
const QUIET_MS: i64 = 60_000;

/// The kinds of alerts, in the order of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AlertKind {
    FiredEarly,
    OverdueNotFired,
    DatabaseAway,
    ServiceFailing,
    ScanFailing,
    Panicked,
    ClockDoubtful,
    HotSetOfAnother,
    StoreWentBack,
    DurabilityWeak,
    EvaluationSetAside,
    InboxBehind,
    InboxRefused,
    WebhookGone,
    WebhookFailing,
    HotSetAway,
    LateTasks,
    WaitingLong,
    DeadLetters,
    LogLinesLost,
}

impl AlertKind {
    const ALL: [Self; 20] = [
        Self::FiredEarly,
        Self::OverdueNotFired,
        Self::DatabaseAway,
        Self::ServiceFailing,
        Self::ScanFailing,
        Self::Panicked,
        Self::ClockDoubtful,
        Self::HotSetOfAnother,
        Self::StoreWentBack,
        Self::DurabilityWeak,
        Self::EvaluationSetAside,
        Self::InboxBehind,
        Self::InboxRefused,
        Self::WebhookGone,
        Self::WebhookFailing,
        Self::HotSetAway,
        Self::LateTasks,
        Self::WaitingLong,
        Self::DeadLetters,
        Self::LogLinesLost,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FiredEarly => "fired_early",
            Self::OverdueNotFired => "overdue_not_fired",
            Self::DatabaseAway => "database_away",
            Self::ServiceFailing => "service_failing",
            Self::ScanFailing => "scan_failing",
            Self::Panicked => "panicked",
            Self::LogLinesLost => "log_lines_lost",
            Self::ClockDoubtful => "clock_doubtful",
            Self::HotSetOfAnother => "hot_set_of_another_cluster",
            Self::StoreWentBack => "store_went_back",
            Self::DurabilityWeak => "durability_weak",
            Self::EvaluationSetAside => "evaluation_set_aside",
            Self::InboxBehind => "inbox_behind",
            Self::InboxRefused => "inbox_refused",
            Self::WebhookGone => "webhook_gone",
            Self::WebhookFailing => "webhook_failing",
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
                | Self::DatabaseAway
                | Self::ServiceFailing
                | Self::ScanFailing
                | Self::Panicked
                | Self::ClockDoubtful
                | Self::HotSetOfAnother
                | Self::StoreWentBack
                | Self::DurabilityWeak
                | Self::EvaluationSetAside
                | Self::InboxBehind
                | Self::WebhookGone
        )
    }

    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The sentence for events that occurred this often within the last minute, or `None` if the alert is a state.
    #[must_use]
    pub fn counted(self, count: u64) -> Option<String> {
        let (one, many) = match self {
            Self::FiredEarly => ("task fired before its time", "tasks fired before their time"),
            Self::LateTasks => ("task fired later than the budget", "tasks fired later than the budget"),
            Self::DeadLetters => ("task died", "tasks died"),
            Self::Panicked => ("panic in this process", "panics in this process"),
            Self::LogLinesLost => ("line of the log was lost", "lines of the log were lost"),
            Self::StoreWentBack => (
                "partition was given with an older term than the hot set had seen",
                "partitions were given with older terms than the hot set had seen",
            ),
            _ => return None,
        };
        Some(format!("{count} {} within the last minute", if count == 1 { one } else { many }))
    }

    /// The first step for an engineer whom the alert wakes.
    #[must_use]
    pub const fn what_to_do(self) -> &'static str {
        match self {
            Self::FiredEarly => "A promise is broken: keep the logs, and compare the clocks of all engines.",
            Self::OverdueNotFired => {
                "See who owns the partition and whether that engine fires; restart it, or let another adopt. Keep its logs."
            }
            Self::DatabaseAway => {
                "See whether the database answers and takes writes (store.url; disk, locks, read_only). Its tasks wait until it does; those of other databases fire."
            }
            Self::ServiceFailing => {
                "Read the log for this service; see whether store and hot set answer (/readyz)."
            }
            Self::ScanFailing => {
                "See whether the database answers and takes writes; the log has the error of each scan. `punctual queue scan` starts one manually and reports what it found."
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
                "MySQL was restored, or failed over with a loss: what was acknowledged since is gone; compare with your own records. Firing continues."
            }
            Self::DurabilityWeak => {
                "A crash of the database's machine would lose tasks that are acknowledged: set what the text says, on the server and in its configuration."
            }
            Self::EvaluationSetAside => {
                "Look at what it says (its payload, conditions, filter) and at the logs of the engines that died. Then store the schedule again or resume it, retry or cancel the workflow, resume or stop the bulk operation: it is evaluated again."
            }
            Self::InboxBehind => {
                "See whether the user's database answers, and what GET /v1/inboxes says of the last error. The rows wait; nothing is lost."
            }
            Self::InboxRefused => {
                "`punctual inbox refused --url` lists the rows with their reasons: mend a row and set refused_at_ms to NULL, or delete it."
            }
            Self::WebhookGone => {
                "The receiver wants no more requests. Set webhook.url to its new address and resume the queue, or move its tasks."
            }
            Self::WebhookFailing => {
                "See whether the receiver answers from this machine. Its tasks wait, and are tried one at a time until it does."
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
    /// The number of events within the last minute; 0 for a state. Counts of several engines are added.
    pub count: u64,
}

/// The subject of an alert: a queue, a service, or the engine.
pub(super) type About = (AlertKind, Option<QueueKey>, &'static str);

#[derive(Debug, Default)]
pub(crate) struct Alerts {
    active: Mutex<BTreeMap<About, Active>>,
    /// Counts of the checks within the last minute.
    counted: Mutex<HashMap<About, Counted>>,
    /// The instant at which the oldest waiting task of a queue fired.
    pub(super) oldest: Mutex<BTreeMap<QueueKey, Millis>>,
    pub(super) looked_at: Mutex<Option<Instant>>,
}

/// New events are counted between two periodic checks. Checks that callers request do not reset the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AlertCheck {
    ByThePeriod,
    Asked,
}

#[derive(Clone, Debug)]
struct Active {
    since: Millis,
    until: Millis,
    text: String,
    count: u64,
}

/// A number that only grows, as the periodic checks have seen it.
#[derive(Debug, Default)]
struct Counted {
    /// Rising; the first is the newest of those that are older than a minute.
    looks: VecDeque<(Millis, u64)>,
    grew_at: Option<Millis>,
}

impl Counted {
    /// Returns how much the counter has grown within the last minute, and when last.
    fn look(&mut self, (look, now): (AlertCheck, Millis), count: u64) -> (u64, Option<Millis>) {
        if self.looks.is_empty() {
            // The engine counts from its own beginning.
            self.looks.push_back((now, 0));
        }
        while self.looks.get(1).is_some_and(|(at, _)| now.since(*at) >= QUIET_MS) {
            self.looks.pop_front();
        }
        let newest = self.looks.back().map_or(0, |(_, count)| *count);
        let grew_at = if count > newest { Some(now) } else { self.grew_at };
        let before = self.looks.front().map_or(0, |(_, count)| *count);
        if look == AlertCheck::ByThePeriod {
            self.grew_at = grew_at;
            self.looks.push_back((now, count));
        }
        (count.saturating_sub(before), grew_at)
    }
}

impl Alerts {
    /// Raises an alert about a state. The alert lasts until the next check, which raises it again or lets it
    /// end.
    pub(super) fn is_so(&self, about: About, now: Millis, lasts_ms: i64, text: String) {
        self.set(about, (now, now.plus(lasts_ms)), text, 0);
    }

    fn set(&self, about: About, (since, until): (Millis, Millis), text: String, count: u64) {
        let mut active = self.active.lock();
        let entry = active.entry(about);
        let alert = entry.or_insert_with(|| Active { since, until, text: String::new(), count });
        (alert.until, alert.text, alert.count) = (until, text, count);
    }

    /// Raises an alert about an event that occurred `count` times since the engine started. It lasts for a
    /// minute after each.
    pub(super) fn happened(&self, look: (AlertCheck, Millis), about: About, count: u64) {
        let (recent, grew_at) = self.counted.lock().entry(about.clone()).or_default().look(look, count);
        if let Some(grew_at) = grew_at.filter(|_| recent > 0) {
            let text = about.0.counted(recent).unwrap_or_default();
            self.set(about, (look.1, grew_at.plus(QUIET_MS)), text, recent);
        }
    }

    pub(super) fn list(&self, now: Millis) -> Vec<Alert> {
        let mut active = self.active.lock();
        active.retain(|_, active| active.until >= now);
        let alert = |((kind, queue, _), active): (&About, &Active)| Alert {
            kind: *kind,
            since: active.since,
            queue: queue.clone(),
            text: active.text.clone(),
            count: active.count,
        };
        active.iter().map(alert).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about() -> About {
        (AlertKind::DeadLetters, None, "")
    }

    fn listed(alerts: &Alerts, at: i64) -> Vec<(i64, u64, String)> {
        alerts.list(Millis(at)).into_iter().map(|alert| (alert.since.0, alert.count, alert.text)).collect()
    }

    #[test]
    fn what_happened_within_a_minute_is_counted_and_ends_a_minute_after_the_last_time() {
        let alerts = Alerts::default();
        let look = |at: i64, count| alerts.happened((AlertCheck::ByThePeriod, Millis(at)), about(), count);
        look(0, 0);
        assert_eq!(listed(&alerts, 0), []);
        look(10, 2);
        look(20, 2);
        let two = "2 tasks died within the last minute".to_owned();
        assert_eq!(listed(&alerts, 20), [(10, 2, two)]);
        look(30, 3);
        let three = (10, 3, "3 tasks died within the last minute".to_owned());
        assert_eq!(listed(&alerts, 30), [three]);
        look(15 + QUIET_MS, 3);
        let one = (10, 1, "1 task died within the last minute".to_owned());
        assert_eq!(listed(&alerts, 15 + QUIET_MS), [one], "the first two are longer ago");
        assert_eq!(listed(&alerts, 31 + QUIET_MS), []);
        look(40 + QUIET_MS, 3);
        assert_eq!(listed(&alerts, 40 + QUIET_MS), []);
    }

    #[test]
    fn a_question_changes_nothing_of_what_the_next_look_counts() {
        let alerts = Alerts::default();
        let happened = |look, at: i64, count| alerts.happened((look, Millis(at)), about(), count);
        let counts = |at: i64| listed(&alerts, at).into_iter().map(|(_, count, _)| count).collect::<Vec<_>>();
        happened(AlertCheck::ByThePeriod, 0, 1);
        assert_eq!(counts(0), [1], "it has happened since the engine began");
        happened(AlertCheck::Asked, 1_000, 3);
        assert_eq!(counts(1_000), [3]);
        happened(AlertCheck::Asked, 2_000, 4);
        happened(AlertCheck::ByThePeriod, 5_000, 4);
        assert_eq!(counts(5_000), [4], "none is lost between two looks");
        happened(AlertCheck::Asked, 5_000 + QUIET_MS, 4);
        assert_eq!(counts(5_001 + QUIET_MS), [0; 0], "and it ends, however often it is asked for");
    }

    #[test]
    fn each_kind_is_found_by_its_name() {
        for kind in AlertKind::ALL {
            assert_eq!(AlertKind::named(kind.name()), Some(kind));
        }
        assert_eq!(AlertKind::named("engine_lost"), None);
    }
}
