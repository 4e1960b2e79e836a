//! An operator's requests about all engines.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fields::{Checks, Invalid};
use crate::limits::PAGE_MAX;
use crate::{At, TimeBound};

/// Query parameters of `GET /v1/events`. All given conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SearchEvents {
    /// `engine_started`, `engine_stopped`, `engine_lost`, `engine_back`, `partitions_taken_over`, `partition_moved`,
    /// `hot_set_lost`, `hot_set_back`, `database_away`, `database_back`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(example = "engine_lost")]
    pub event: Option<String>,
    /// The name of an engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// Only events at or after this instant: RFC 3339 or epoch milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>)]
    pub since: Option<TimeBound>,
    /// Only events before this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>)]
    pub until: Option<TimeBound>,
    /// Items per page, 1 to 1,000. Default: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next_cursor` of the preceding page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

impl SearchEvents {
    /// Every rule but that of the kind, which is the domain's.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut checks = Checks::default();
        checks.range("/limit", self.limit, 1..=PAGE_MAX);
        checks.done()
    }
}

/// Something that happened to the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Event {
    pub id: i64,
    #[schema(value_type = String, format = DateTime)]
    pub at: At,
    pub at_ms: i64,
    #[schema(example = "engine_lost")]
    pub event: String,
    /// The engine that the event is about, or that noticed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// A sentence for humans.
    pub text: String,
    /// Further details.
    #[schema(value_type = Object)]
    pub details: serde_json::Value,
}

/// An engine of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Engine {
    pub name: String,
    pub state: EngineState,
    /// True for the engine that answers this request.
    pub is_this: bool,
    /// True for the engine that does the work that only one engine may do.
    pub leads: bool,
    /// The number of partitions that it owns.
    pub partitions: u64,
    /// True if the engine reaches the hot set.
    pub has_hot_set: bool,
    /// The numbers of the databases that the engine does not reach.
    pub databases_away: Vec<u64>,
    /// Time since its last heartbeat, if the engine is silent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub started_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at_ms: Option<i64>,
    /// Absent if it has reported nothing for a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rates: Option<Rates>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EngineState {
    #[default]
    Alive,
    /// It has sent no heartbeat for two seconds, and has not announced its stop.
    Silent,
}

/// Tasks per second, over the last minute or two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Rates {
    pub inserted: f64,
    pub fired: f64,
    pub dispatched: f64,
    pub succeeded: f64,
    pub retried: f64,
    pub dead: f64,
    pub cancelled: f64,
}

/// Query parameters of `GET /v1/partitions`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListPartitions {
    /// Items per page, 1 to 1,000. Default: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next_cursor` of the preceding page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

impl ListPartitions {
    pub fn check(&self) -> Result<(), Invalid> {
        let mut checks = Checks::default();
        checks.range("/limit", self.limit, 1..=PAGE_MAX);
        checks.done()
    }
}

/// A partition, and its owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Partition {
    pub partition: u16,
    /// The number of its database.
    pub database: u64,
    /// The number of the database to which the partition is being moved (`punctual shard move`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moving_to: Option<u64>,
    /// The owner. Absent if no engine owns the partition now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// Grows with every change of the owner.
    pub term: i64,
    /// The remaining time of the owner's lease. Absent if no other engine can own the partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_left_ms: Option<i64>,
    /// The due time of the oldest task that is overdue by more than ten seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub overdue_since: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overdue_since_ms: Option<i64>,
}

/// A database of the store. The server of the database estimates the sizes. They are at most 15 seconds old.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Shard {
    pub shard: u64,
    /// True if the database answered when its size was requested.
    pub answers: bool,
    pub partitions: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_estimated: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<i64>,
    /// The number of slices of its time axis. Absent if tasks are not stored in slices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buckets: Option<i64>,
    /// The slices, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub time_axis: Vec<Bucket>,
    /// The number of times that old data was moved to archives. Absent if it never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archives_published: Option<i64>,
    /// The names of the engines that do not reach the database.
    pub away_from: Vec<String>,
    /// When its rows were last counted (`/v1/shards/{shard}/ledger`), and how many tasks are not as they are accounted for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub checked_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked_at_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unaccounted: Option<i64>,
}

/// A slice of a database's time axis: tasks that are due before its end, and not before that of the preceding
/// slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Bucket {
    /// The end of the slice. Absent for the last slice, which has no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub until: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<i64>,
    pub rows_estimated: i64,
}

/// The statistics of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Stats {
    #[schema(value_type = String, format = DateTime)]
    pub at: At,
    pub at_ms: i64,
    /// The number of live engines.
    pub engines: u64,
    pub rates: Rates,
    /// The lateness of tasks that fired in the last minute or two.
    pub lateness: Lateness,
    /// The lateness of tasks that fired in the last hour.
    pub lateness_hour: Lateness,
    /// Absent if the account cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<Backlog>,
    /// Absent if the hot set does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot_set: Option<HotSet>,
    pub step_ms: i64,
    /// The last hour, the oldest first; the last step is not over.
    pub steps: Vec<StatsStep>,
}

/// The lateness of fired tasks. Each number is the upper bound of its bucket. 300001 means later than five minutes.
/// Absent if no task fired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Lateness {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p999_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ms: Option<i64>,
    /// Tasks that fired later than the budget of their queue.
    pub over_budget: u64,
    /// Tasks that fired before their time. Any number but 0 is a fault of Punctual.
    pub early: u64,
}

/// Tasks in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Backlog {
    /// The number of tasks in each state.
    pub states: BTreeMap<String, i64>,
    /// Tasks ever stored. `deleted` of them were deleted since.
    pub accepted: i64,
    pub deleted: i64,
    /// In no state, or not as the last count of the rows found: 0, or something is broken.
    pub unaccounted: i64,
    /// Payload bytes of waiting tasks.
    pub pending_bytes: i64,
}

/// The content of Redis, or of the memory of an engine without Redis: tasks that are due soon, and tasks that wait
/// for executors. The numbers are at most five seconds old.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct HotSet {
    /// Tasks that are not due yet.
    pub due: u64,
    /// Tasks that an engine is firing.
    pub firing: u64,
    /// Tasks that wait for an executor.
    pub ready: u64,
    /// Tasks that wait because their queue is paused.
    pub parked: u64,
    /// The used part of its memory (`hot.memory_max_mib`), 0 to 1. From 0.8 on, only tasks due in the next
    /// half minute are loaded.
    pub fullness: f64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct StatsStep {
    /// The beginning of the step.
    #[schema(value_type = String, format = DateTime)]
    pub at: At,
    pub at_ms: i64,
    pub inserted: u64,
    pub fired: u64,
    pub dispatched: u64,
    pub succeeded: u64,
    pub retried: u64,
    pub dead: u64,
    pub cancelled: u64,
    pub lateness: Lateness,
}

/// The last hour of one queue, over all engines. Each engine reports its 500 busiest queues of each
/// minute: a quiet queue is missing from a minute in which more than 500 were busier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct QueueStats {
    #[schema(value_type = String, format = DateTime)]
    pub at: At,
    pub at_ms: i64,
    pub rates: Rates,
    /// The lateness of tasks that fired in the last minute or two.
    pub lateness: Lateness,
    /// The lateness of tasks that fired in the last hour.
    pub lateness_hour: Lateness,
    pub step_ms: i64,
    /// The last hour, the oldest first; the last step is not over.
    pub steps: Vec<StatsStep>,
}

/// Tasks that fall due in each minute of the next hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Due {
    /// The time of the count, at which the first step begins.
    #[schema(value_type = String, format = DateTime)]
    pub at: At,
    pub at_ms: i64,
    pub step_ms: i64,
    /// Only some partitions were counted, and the rest was extrapolated: there is too much to count, or a
    /// database is unavailable.
    pub is_estimate: bool,
    pub partitions: u64,
    pub partitions_counted: u64,
    pub steps: Vec<DueStep>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DueStep {
    #[schema(value_type = String, format = DateTime)]
    pub at: At,
    pub at_ms: i64,
    /// Absent: too many tasks fall due before it, so it was not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u64>,
}
