//! The runs of schedules: future and past ones, and manual requests.

use serde::{Deserialize, Serialize};

use crate::fields::{Checks, Invalid};
use crate::limits::{INSTANT_MAX_MS, PAGE_MAX, PAUSE_REASON_MAX_CHARS};
use crate::schedules::Instant;
use crate::{At, parse};

/// The maximum number of future runs in an answer.
pub const NEXT_MAX: u32 = 1_000;

/// A future run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct UpcomingRun {
    /// The instant at which the run fires.
    #[schema(value_type = String, format = DateTime)]
    pub at: At,
    pub at_ms: i64,
    /// The instant of the schedule, before the jitter is added.
    #[schema(value_type = String, format = DateTime)]
    pub scheduled_at: At,
    pub scheduled_at_ms: i64,
}

/// The result of an instant of the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    Created,
    /// The preceding run had not ended.
    Skipped,
    /// The run waits for the end of the preceding run.
    Buffered,
    Missed,
    /// The run was created, and cancelled before it fired.
    Cancelled,
}

/// Why a run was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    Planned,
    /// A caller requested it.
    Manual,
    Backfill,
}

/// An entry in the history of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ScheduleRun {
    /// The instant of the schedule.
    #[schema(value_type = String, format = DateTime)]
    pub at: At,
    pub at_ms: i64,
    pub kind: RunKind,
    pub outcome: RunOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The reference of its task. Absent if there is none, or if it is being created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_ref: Option<String>,
    /// The time at which its task fires.
    #[schema(value_type = String, format = DateTime)]
    pub execute_at: At,
    pub execute_at_ms: i64,
    /// The number of the run; 0: no run was made.
    pub run: u64,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: At,
    pub created_at_ms: i64,
}

/// Query parameters of lists of schedules and of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListSchedules {
    /// 1 to 1,000. Default: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

impl ListSchedules {
    pub fn check(&self) -> Result<(), Invalid> {
        let mut checks = Checks::default();
        checks.range("/limit", self.limit, 1..=PAGE_MAX);
        checks.done()
    }
}

/// Query parameters of the list of future runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HowMany {
    /// 1 to 1,000. Default: 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u32>,
}

impl HowMany {
    pub fn check(&self) -> Result<u32, Invalid> {
        let mut checks = Checks::default();
        checks.range("/n", self.n, 1..=NEXT_MAX);
        checks.done()?;
        Ok(self.n.unwrap_or(10))
    }
}

/// The reason and the end of a pause. The body is optional.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseSchedule {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Instant>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<i64>,
}

impl PauseSchedule {
    pub fn from_json(json: &[u8]) -> Result<Self, Invalid> {
        if json.is_empty() {
            return Ok(Self::default());
        }
        let asked: Self = parse(json)?;
        let mut checks = Checks::default();
        checks.at_most_chars("/reason", asked.reason.as_deref(), PAUSE_REASON_MAX_CHARS);
        checks.at_most_chars("/by", asked.by.as_deref(), PAUSE_REASON_MAX_CHARS);
        checks.at_most_one(("until", asked.until.is_some()), ("until_ms", asked.until_ms.is_some()));
        if asked.until.as_ref().is_some_and(|instant| instant.ms().is_none()) {
            checks.refuse("/until", "must be an RFC 3339 date and time with an offset");
        }
        checks.range("/until_ms", asked.until_ms, 0..=INSTANT_MAX_MS);
        checks.done()?;
        Ok(asked)
    }

    /// Epoch milliseconds.
    pub fn until_ms(&self) -> Option<i64> {
        self.until.as_ref().and_then(Instant::ms).or(self.until_ms)
    }
}

/// A range of time whose runs are made again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BackfillSchedule {
    /// Inclusive.
    pub from: Instant,
    /// Exclusive.
    pub to: Instant,
    /// The number of runs that fire per second. Default: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 10_000)]
    pub rate: Option<u32>,
}

impl BackfillSchedule {
    /// Reads and checks one, with its range in epoch milliseconds.
    pub fn from_json(json: &[u8]) -> Result<(Self, i64, i64), Invalid> {
        let asked: Self = parse(json)?;
        let mut checks = Checks::default();
        let (from, to) = (asked.from.ms(), asked.to.ms());
        for (pointer, number) in [("/from", from), ("/to", to)] {
            if number.is_none() {
                checks.refuse(
                    pointer,
                    "must be an RFC 3339 date and time with an offset, or epoch milliseconds",
                );
            }
        }
        checks.range("/rate", asked.rate, 1..=10_000);
        checks.done()?;
        Ok((asked, from.unwrap_or_default(), to.unwrap_or_default()))
    }
}

/// The result of a backfill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BackfillAnswer {
    /// The number of runs in the range.
    pub runs: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_at_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_at_ms: Option<i64>,
    /// The time at which the last of them fires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<i64>,
}
