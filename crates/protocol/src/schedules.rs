//! Schedules: requests, and their state.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::fields::{Checks, Invalid};
use crate::insert::InsertTask;
use crate::limits::INSTANT_MAX_MS;
use crate::{At, Base64, Json, Retry, SetAside, parse_settings};

/// Characters of a description and of an owner.
const TEXT_MAX_CHARS: usize = 1_024;
/// An instant: RFC 3339, or epoch milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum Instant {
    Ms(i64),
    Text(String),
}

impl Instant {
    /// Epoch milliseconds; `None` if it is not an instant between 1970 and 9999.
    pub fn ms(&self) -> Option<i64> {
        match self {
            Self::Ms(ms) => (0..=INSTANT_MAX_MS).contains(ms).then_some(*ms),
            Self::Text(text) => At::from_rfc3339(text).map(At::ms),
        }
    }
}

/// One expression, or several whose instants are combined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    /// All of them.
    pub fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text],
            Self::Many(all) => all,
        }
    }
}

/// An exclusion: a string, or an equivalent object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum Exclude {
    /// `2026-12-24`, `2026-12-24/2026-12-26`, two instants with a slash between, or a cron expression.
    Text(String),
    /// One day of the schedule's time zone.
    Date { date: String },
    /// Days or instants, including both ends.
    Range { from: String, to: String },
    /// The instants of an expression. An expression without seconds excludes complete minutes.
    Cron { cron: String },
}

impl Exclude {
    /// Converts the exclusion to its text form.
    pub fn into_text(self) -> String {
        match self {
            Self::Text(text) | Self::Date { date: text } | Self::Cron { cron: text } => text,
            Self::Range { from, to } => format!("{from}/{to}"),
        }
    }
}

/// The treatment of an instant at which the preceding run has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// The new run is skipped.
    Skip,
    /// One run waits for its end. Further ones are skipped.
    BufferOne,
    /// All runs wait for each other.
    BufferAll,
    /// Runs may overlap.
    #[default]
    Allow,
    /// The old run is stopped.
    CancelOther,
}

/// The treatment of runs that were not created in time, because no engine was available or the schedule was paused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    Skip,
    /// Only the last one within the window runs.
    #[default]
    Latest,
    /// All runs within the window are made.
    All,
}

/// The task of each run of a schedule, or of a node of a workflow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduledTask {
    #[schema(example = "mail")]
    pub queue: String,
    /// Default: `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 5)]
    pub priority: Option<u8>,
    /// Any JSON value. `{"$expr": "CEL"}` anywhere in it is replaced by the value of the expression, which may name, in a
    /// schedule, `scheduled_at` (a timestamp), `scheduled_at_ms`, `schedule` (its name) and `run` (the number of the run).
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "Json::some")]
    pub payload: Option<Json>,
    /// Bytes, instead of `payload`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<Base64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub max_attempts: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub timeout_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub deadline_ms: Option<i64>,
    /// Tasks of a schedule also get the labels `schedule` and `scheduled_at_ms`, unless given here. Tasks of a
    /// workflow get `workflow`, `workflow_node` and similar labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler_versions: Option<String>,
}

impl ScheduledTask {
    /// A task for this queue.
    pub fn new(queue: impl Into<String>) -> Self {
        Self { queue: queue.into(), ..Self::default() }
    }

    /// The rules are those of an insert.
    fn check(&self) -> Result<(), Invalid> {
        self.check_fields().map_err(|invalid| invalid.under("/task"))
    }

    pub(crate) fn check_fields(&self) -> Result<(), Invalid> {
        let as_insert = InsertTask {
            queue: self.queue.clone(),
            kind: self.kind.clone(),
            priority: self.priority,
            payload: self.payload.clone(),
            payload_base64: self.payload_base64.clone(),
            max_attempts: self.max_attempts,
            retry: self.retry.clone(),
            timeout_ms: self.timeout_ms,
            deadline_ms: self.deadline_ms,
            labels: self.labels.clone(),
            concurrency_key: self.concurrency_key.clone(),
            handler_versions: self.handler_versions.clone(),
            ..InsertTask::default()
        };
        as_insert.check()
    }
}

/// A schedule in a request. At least one of `cron`, `every_ms` and `at`; their instants are combined.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutSchedule {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Default: `true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Five fields (minute hour day month weekday), six with the seconds first, or a name such as `@daily`. `L`, `W`
    /// and `#` are supported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "0 9 * * MON-FRI")]
    pub cron: Option<OneOrMany>,
    /// The interval in milliseconds, at least 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 100)]
    pub every_ms: Option<i64>,
    /// An instant from which the interval is counted, epoch milliseconds. Default: `start_at`, or else the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub phase_ms: Option<i64>,
    /// Up to 1,000 instants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Vec<Instant>>,
    /// A name of the IANA time zone database. Default: `UTC`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "Europe/Berlin")]
    pub time_zone: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at: Option<Instant>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub start_at_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_at: Option<Instant>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub end_at_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_runs: Option<u64>,
    /// Each run fires up to this much later. For one instant the delay is always the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub jitter_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude: Option<Vec<Exclude>>,
    /// Default: `allow`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Overlap>,
    /// Default: `latest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<Missed>,
    /// Default: one day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub missed_window_ms: Option<i64>,
    pub task: ScheduledTask,
    // The additional fields of an answer, so that it can be changed and sent back.
    #[serde(default, skip_serializing)]
    #[schema(ignore)]
    pub name: Option<IgnoredAny>,
    #[serde(default, skip_serializing)]
    #[schema(ignore)]
    pub namespace: Option<IgnoredAny>,
    #[serde(default, skip_serializing)]
    #[schema(ignore)]
    pub revision: Option<IgnoredAny>,
    #[serde(default, skip_serializing)]
    #[schema(ignore)]
    pub pause: Option<IgnoredAny>,
    #[serde(default, skip_serializing)]
    #[schema(ignore)]
    pub next_run_at: Option<IgnoredAny>,
    #[serde(default, skip_serializing)]
    #[schema(ignore)]
    pub next_run_at_ms: Option<IgnoredAny>,
    #[serde(default, skip_serializing)]
    #[schema(ignore)]
    pub last_run_at: Option<IgnoredAny>,
    #[serde(default, skip_serializing)]
    #[schema(ignore)]
    pub last_run_at_ms: Option<IgnoredAny>,
    #[serde(default, skip_serializing)]
    #[schema(ignore)]
    pub runs: Option<IgnoredAny>,
    #[serde(default, skip_serializing)]
    #[schema(ignore)]
    pub buffered: Option<IgnoredAny>,
    #[serde(default, skip_serializing)]
    #[schema(ignore)]
    pub created_at: Option<IgnoredAny>,
    #[serde(default, skip_serializing)]
    #[schema(ignore)]
    pub created_at_ms: Option<IgnoredAny>,
    #[serde(default, skip_serializing)]
    #[schema(ignore)]
    pub updated_at: Option<IgnoredAny>,
    #[serde(default, skip_serializing)]
    #[schema(ignore)]
    pub updated_at_ms: Option<IgnoredAny>,
    #[serde(default, skip_serializing)]
    #[schema(ignore)]
    pub updated_by: Option<IgnoredAny>,
    #[serde(default, skip_serializing)]
    #[schema(ignore)]
    pub taken_back: Option<IgnoredAny>,
}

impl PutSchedule {
    /// A schedule of this task, without an instant yet.
    pub fn new(task: ScheduledTask) -> Self {
        Self { task, ..Self::default() }
    }

    /// Reads and checks one.
    pub fn from_json(json: &[u8]) -> Result<Self, Invalid> {
        let schedule: Self = parse_settings(json)?;
        schedule.check()?;
        Ok(schedule)
    }

    /// Every rule of the wire; whether an expression can be read, the server knows.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut checks = Checks::default();
        checks.at_most_chars("/description", self.description.as_deref(), TEXT_MAX_CHARS);
        checks.at_most_chars("/owner", self.owner.as_deref(), TEXT_MAX_CHARS);
        checks
            .at_most_one(("start_at", self.start_at.is_some()), ("start_at_ms", self.start_at_ms.is_some()));
        checks.at_most_one(("end_at", self.end_at.is_some()), ("end_at_ms", self.end_at_ms.is_some()));
        let instants =
            self.at.iter().flatten().enumerate().map(|(nth, instant)| (format!("/at/{nth}"), instant));
        let bounds = [("/start_at", &self.start_at), ("/end_at", &self.end_at)];
        let bounds =
            bounds.into_iter().filter_map(|(pointer, bound)| Some((pointer.to_owned(), bound.as_ref()?)));
        for (pointer, instant) in instants.chain(bounds) {
            if instant.ms().is_none() {
                let rule = "must be an RFC 3339 date and time with an offset, or epoch milliseconds, between 1970 and 9999";
                checks.refuse(pointer, rule);
            }
        }
        for (pointer, ms) in [("/start_at_ms", self.start_at_ms), ("/end_at_ms", self.end_at_ms)] {
            checks.range(pointer, ms, 0..=INSTANT_MAX_MS);
        }
        match (checks.done(), self.task.check()) {
            (Err(mut all), Err(of_task)) => {
                all.errors.extend(of_task.errors);
                Err(all)
            }
            (first, second) => first.and(second),
        }
    }
}

/// The author and the end of a pause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SchedulePause {
    #[schema(value_type = String, format = DateTime)]
    pub at: At,
    pub at_ms: i64,
    pub by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The pause ends by itself then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub until: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<i64>,
}

/// Runs that were made in advance, and that a change has cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RunsTakenBack {
    /// They will not fire.
    pub cancelled: u64,
    /// Runs that had already fired.
    pub fired: u64,
}

/// A schedule: its document and its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Schedule {
    #[schema(example = "digest")]
    pub name: String,
    pub namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    pub enabled: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cron: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub at: Vec<At>,
    pub time_zone: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub start_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub end_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_runs: Option<u64>,
    pub jitter_ms: i64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    pub overlap: Overlap,
    pub missed: Missed,
    pub missed_window_ms: i64,
    pub task: ScheduledTask,
    /// Present while the schedule is paused: no run is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<SchedulePause>,
    /// Present if engines crashed while they evaluated it. It rests until it is stored again, changed or resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_aside: Option<SetAside>,
    /// The revision of the last change. The ETag is derived from it.
    pub revision: i64,
    /// The next run. Absent if there is none, or if the schedule is paused or not enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub next_run_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_run_at_ms: Option<i64>,
    /// The instant of the latest past run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_run_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run_at_ms: Option<i64>,
    /// The number of runs that were made, including those made in advance.
    pub runs: u64,
    /// The number of runs that wait for the end of the preceding one.
    #[serde(default)]
    pub buffered: u64,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: At,
    pub created_at_ms: i64,
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: At,
    pub updated_at_ms: i64,
    pub updated_by: String,
    /// Only in answers to changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_back: Option<RunsTakenBack>,
}
