//! What the last count of the rows of a database found.

use crate::{At, Int64};
use serde::{Deserialize, Serialize};

/// The ledger of a database: every row counted against the account and the register of ids, as of one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Ledger {
    pub shard: u64,
    /// A count is requested, and not over yet.
    pub is_requested: bool,
    /// When the last count began, whose result this is; absent: there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub counted_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_at_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<i64>,
    #[serde(flatten)]
    pub totals: LedgerTotals,
    pub partitions: Vec<LedgerPartition>,
    /// Where account and rows differ, by queue and state.
    pub differences: Vec<LedgerDifference>,
    /// Tasks that are not as they should be: the first hundred of each partition.
    pub faults: Vec<LedgerFault>,
}

/// Accepted = deleted + waiting + in flight + finished, or tasks are unaccounted for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LedgerTotals {
    /// By the account.
    pub accepted: i64,
    pub deleted: i64,
    /// Rows.
    pub waiting: i64,
    pub in_flight: i64,
    pub finished: i64,
    /// Tasks that are lost, doubled, elsewhere, or in another state than the account has: 0, or something is broken.
    pub unaccounted: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LedgerPartition {
    pub partition: u16,
    /// Ids in the register: accepted, and not deleted. Absent in an embedded store, which registers ids of all partitions
    /// together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registered: Option<i64>,
    pub waiting: i64,
    pub in_flight: i64,
    pub finished: i64,
    pub unaccounted: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LedgerDifference {
    pub namespace: String,
    pub queue: String,
    pub state: String,
    /// Tasks by the account, and by the rows.
    pub account: i64,
    pub rows: i64,
}

/// One task that is not as it should be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LedgerFault {
    /// `lost`: registered, without a row. `doubled`: a second row. `misplaced`: a row where no reference leads.
    /// `unregistered`: a row that the register does not have.
    #[schema(example = "lost")]
    pub fault: String,
    /// Of the row.
    pub id: i64,
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
    /// Of a lost task, the last known one, where the account tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub due_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at_ms: Option<i64>,
    /// All of this in one line.
    pub text: String,
}
