//! What the last count of the rows of a database found. Shapes only: the server fills them.

use crate::{At, Int64};
use serde::{Deserialize, Serialize};

/// The ledger of a database: every row, counted on one snapshot against the account and the register of ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Ledger {
    pub shard: u64,
    /// A count is requested, and has not ended.
    pub is_requested: bool,
    /// When the last count ended. Absent: the rows were never counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub checked_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked_at_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<i64>,
    #[serde(flatten)]
    pub totals: LedgerTotals,
    pub partitions: Vec<LedgerPartition>,
    /// Tasks that are not as they should be, at most 100 of each partition and kind, and queues whose account differs
    /// from their rows.
    pub findings: Vec<LedgerFinding>,
}

/// The sums of the database. `accepted` = `waiting` + `in_flight` + `finished` + `deleted`, unless tasks are unaccounted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LedgerTotals {
    /// Tasks that the account has as accepted.
    pub accepted: i64,
    /// Tasks that the account has as deleted.
    pub deleted: i64,
    /// Rows of tasks that wait for their time, an executor or a retry.
    pub waiting: i64,
    /// Rows of tasks that an executor has.
    pub in_flight: i64,
    /// Rows of tasks that have ended.
    pub finished: i64,
    /// Tasks that are lost, doubled or misplaced, or in another state than the account has. Anything but 0 is a fault.
    pub unaccounted: i64,
}

/// One partition, as the last count found it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LedgerPartition {
    pub partition: u16,
    /// Tasks that came into the partition of this database.
    pub accepted: i64,
    /// Rows of tasks that wait for their time, an executor or a retry.
    pub waiting: i64,
    /// Rows of tasks that an executor has.
    pub in_flight: i64,
    /// Rows of tasks that have ended.
    pub finished: i64,
    /// Tasks deleted here since the database counts them by partition (release 0.3).
    pub deleted: i64,
    /// Tasks of this partition that are lost, doubled or misplaced.
    pub unaccounted: i64,
    /// When the count ended.
    #[schema(value_type = String, format = DateTime)]
    pub checked_at: At,
    pub checked_at_ms: i64,
}

/// One task that is not as it should be, or one queue and state whose account differs from the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LedgerFinding {
    /// `lost`: registered, without a row. `doubled`: a second row of a task. `misplaced`: a row that the reference of
    /// its task does not lead to, or that the register does not have. `books`: the account of a queue and state differs
    /// from the rows.
    #[schema(example = "lost")]
    pub kind: String,
    /// The reference of the task. Absent for `books`, and for a lost row of an embedded store, which registers ids alone.
    #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
    pub task_ref: Option<String>,
    /// The id of the row. Absent for `books`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<Int64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_version: Option<Int64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The state of the row. For a lost task the state that the account still has, if it is definite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "scheduled")]
    pub last_state: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub due_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at_ms: Option<i64>,
    /// Tasks of the queue in `last_state` by the account. Only for `books`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<i64>,
    /// Tasks of the queue in `last_state` by the rows. Only for `books`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<i64>,
    /// The finding in one line.
    pub text: String,
}
