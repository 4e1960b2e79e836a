//! What the last count of a database found, as it is stored for all engines, and when the next one is due. Counts nothing
//! itself.

use parking_lot::Mutex;
use punctual_contract::ledger::{LedgerCount, LedgerFault, LedgerReport};
use punctual_domain::{state::State, time::Millis};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

/// Between two counts of one database: at least this,
const REST_MIN_MS: i64 = 10 * 60_000;
/// at most this,
const REST_MAX_MS: i64 = 24 * 3_600_000;
/// and between them as many times as long as the last one took.
const REST_FACTOR: i64 = 100;

/// What the last count of a database found. Stored as JSON; fields may be missing from another release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LedgerPass {
    pub began_ms: i64,
    pub took_ms: i64,
    pub engine: String,
    pub accepted: i64,
    pub deleted: i64,
    pub unaccounted: i64,
    pub partitions: Vec<PartitionPass>,
    pub differences: Vec<Difference>,
    pub faults: Vec<TaskFault>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PartitionPass {
    pub partition: u16,
    pub accepted: i64,
    pub deleted: i64,
    pub waiting: i64,
    pub in_flight: i64,
    pub finished: i64,
    /// Faults, and rows too many or too few.
    pub unaccounted: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Difference {
    pub namespace: String,
    pub queue: String,
    pub state: String,
    pub account: i64,
    pub rows: i64,
}

/// One task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskFault {
    pub fault: String,
    pub id: i64,
    pub partition: Option<u16>,
    pub namespace: Option<String>,
    pub task_id: Option<i64>,
    pub task_version: Option<i64>,
    pub queue: Option<String>,
    pub state: Option<String>,
    pub due_ms: Option<i64>,
    pub reference: Option<String>,
}

impl Difference {
    /// One line of text.
    #[must_use]
    pub fn described(&self) -> String {
        let Self { namespace, queue, state, account, rows } = self;
        format!("{namespace}/{queue} has {rows} {state} tasks, and {account} by the account")
    }
}

impl TaskFault {
    /// One line of text.
    #[must_use]
    pub fn described(&self) -> String {
        let name = match (self.task_id, self.task_version) {
            (Some(id), Some(version)) => format!("task {id} version {version} (row {})", self.id),
            _ => format!("row {}", self.id),
        };
        let at = match (&self.namespace, &self.queue) {
            (Some(namespace), Some(queue)) => format!(" of {namespace}/{queue}"),
            (Some(namespace), None) => format!(" of {namespace}"),
            _ => String::new(),
        };
        let state = self.state.as_ref().map_or_else(String::new, |state| format!(", last {state}"));
        format!("{} {name}{at}{state}", self.fault)
    }

    fn of(fault: &LedgerFault) -> Self {
        let namespace = fault.task.as_ref().map(|task| &task.namespace);
        let namespace = namespace.or_else(|| fault.queue.as_ref().map(|queue| &queue.namespace));
        Self {
            fault: fault.kind.word().to_owned(),
            id: fault.id,
            partition: fault.partition.map(|partition| partition.0),
            namespace: namespace.map(|name| name.as_str().to_owned()),
            task_id: fault.task.as_ref().map(|task| task.task_id),
            task_version: fault.task.as_ref().map(|task| task.task_version),
            queue: fault.queue.as_ref().map(|queue| queue.queue.as_str().to_owned()),
            state: fault.state.map(|state| State::word(state).to_owned()),
            due_ms: fault.due_at.map(|at| at.0),
            reference: fault.reference.map(|reference| reference.to_string()),
        }
    }
}

impl LedgerPass {
    /// What a count says.
    #[must_use]
    pub fn of(count: &LedgerCount, engine: &str, (began, ended): (Millis, Millis)) -> Self {
        let partitions = count.partitions.iter().map(|of| {
            let is_here = |fault: &&LedgerFault| fault.partition == Some(of.partition);
            let faults = i64::try_from(count.faults.iter().filter(is_here).count()).unwrap_or(i64::MAX);
            PartitionPass {
                partition: of.partition.0,
                accepted: of.accepted,
                deleted: of.deleted,
                waiting: of.waiting,
                in_flight: of.in_flight,
                finished: of.finished,
                unaccounted: of.missing().abs().max(faults),
            }
        });
        let differences = count.differences.iter().map(|tally| Difference {
            namespace: tally.queue.namespace.as_str().to_owned(),
            queue: tally.queue.queue.as_str().to_owned(),
            state: tally.state.word().to_owned(),
            account: tally.books,
            rows: tally.rows,
        });
        Self {
            began_ms: began.0,
            took_ms: ended.since(began).max(0),
            engine: engine.to_owned(),
            accepted: count.accepted,
            deleted: count.deleted,
            unaccounted: count.unaccounted(),
            partitions: partitions.collect(),
            differences: differences.collect(),
            faults: count.faults.iter().map(TaskFault::of).collect(),
        }
    }

    #[must_use]
    pub const fn ended_ms(&self) -> i64 {
        self.began_ms.saturating_add(self.took_ms)
    }

    /// What an alert says: how many, and the first of them by name.
    #[must_use]
    pub fn described(&self) -> String {
        const NAMED: usize = 5;
        let faults = self.faults.iter().map(TaskFault::described);
        let named: Vec<String> =
            faults.chain(self.differences.iter().map(Difference::described)).take(NAMED).collect();
        let more = (self.faults.len() + self.differences.len()).saturating_sub(named.len());
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        let tasks = if self.unaccounted == 1 { "task" } else { "tasks" };
        format!("{} {tasks} unaccounted for: {}{more}", self.unaccounted, named.join("; "))
    }

    pub(crate) fn is_over(&self, now: Millis) -> bool {
        let rest_ms = self.took_ms.saturating_mul(REST_FACTOR).clamp(REST_MIN_MS, REST_MAX_MS);
        // A clock that was set back begins anew.
        !(0..rest_ms).contains(&now.since(Millis(self.ended_ms())))
    }
}

/// One database, as its report says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerView {
    pub database: usize,
    /// None: it was never counted.
    pub pass: Option<LedgerPass>,
    /// A count is requested, and not made yet.
    pub is_requested: bool,
}

/// Reports as last read by the service, for alerts and metrics, which wait for nothing.
#[derive(Debug, Default)]
pub(crate) struct LedgerCache {
    pub(crate) last: Mutex<Vec<LedgerView>>,
    pub(crate) asked: Notify,
}

pub(crate) fn view(report: &LedgerReport) -> LedgerView {
    let pass = report.body.as_deref().and_then(|body| serde_json::from_str(body).ok());
    LedgerView { database: report.part, pass, is_requested: report.requests > report.answered }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_takes_long_is_made_once_a_day_and_a_short_one_every_ten_minutes() {
        let over = |took_ms: i64, later_ms: i64| {
            let pass = LedgerPass { began_ms: 1_000, took_ms, ..LedgerPass::default() };
            pass.is_over(Millis(1_000 + took_ms + later_ms))
        };
        assert!(!over(20, REST_MIN_MS - 1) && over(20, REST_MIN_MS));
        assert!(!over(60_000, 60_000 * 100 - 1) && over(60_000, 60_000 * 100));
        assert!(!over(3_600_000, REST_MAX_MS - 1) && over(3_600_000, REST_MAX_MS));
        assert!(over(20, -1), "a clock that was set back");
    }

    #[test]
    fn a_report_of_another_release_is_read_as_far_as_it_is_known() {
        let report = LedgerReport {
            part: 3,
            requests: 2,
            answered: 1,
            body: Some(r#"{"unaccounted": 2, "later": {}}"#.to_owned()),
        };
        let view = view(&report);
        assert_eq!((view.database, view.is_requested), (3, true));
        assert_eq!(view.pass.map(|pass| pass.unaccounted), Some(2));
    }

    #[test]
    fn an_alert_names_the_first_and_counts_the_rest() {
        let fault = |id| TaskFault {
            fault: "lost".to_owned(),
            id,
            namespace: Some("default".to_owned()),
            queue: Some("mail".to_owned()),
            state: Some("scheduled".to_owned()),
            ..TaskFault::default()
        };
        let pass =
            LedgerPass { unaccounted: 7, faults: (1..8).map(fault).collect(), ..LedgerPass::default() };
        let text = pass.described();
        assert!(
            text.starts_with(
                "7 tasks unaccounted for: lost row 1 of default/mail, last scheduled; lost row 2"
            )
        );
        assert!(text.ends_with("; and 2 more"), "{text}");
    }
}
