//! Bulk operations: requests, and their progress.

use serde::{Deserialize, Serialize};

use crate::fields::{Checks, Invalid};
use crate::limits::{
    DURATION_MAX_MS, ERROR_TEXT_MAX_CHARS, PAGE_MAX, PAUSE_REASON_MAX_CHARS, PRIORITY_MAX, PRIORITY_MIN,
};
use crate::schedule::instant_fault;
use crate::schedules::Instant;
use crate::search::{check_label, label_of};
use crate::task::{Phase, State, Task};
use crate::{At, SetAside, parse};

/// The default rate, and the maximum, in tasks per second.
pub const BULK_RATE_DEFAULT: u32 = 1_000;
pub const BULK_RATE_MAX: u32 = 100_000;

/// The action on each matching task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BulkAction {
    Cancel,
    Reschedule,
    SetPriority,
    /// Moves tasks to another queue of the namespace.
    SetQueue,
    RunNow,
    Redrive,
    /// Moves tasks to the dead tasks, where they can be inspected and redriven.
    Bury,
    /// Deletes finished tasks with their histories and payloads.
    Delete,
    /// Finds and counts tasks. Read them from `/tasks` of the operation.
    Export,
}

/// Selects the tasks. All given conditions must hold. An empty filter requires `all`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BulkFilter {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// `key=value`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "team=payments")]
    pub label: Option<String>,
    /// Due at or after: RFC 3339, or epoch milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_after: Option<Instant>,
    /// Due before: RFC 3339, or epoch milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_before: Option<Instant>,
    /// The last error contains this text exactly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl BulkFilter {
    /// The label as key and value.
    pub fn label(&self) -> Option<(&str, &str)> {
        label_of(self.label.as_deref())
    }

    fn check(&self, checks: &mut Checks) {
        for (pointer, name) in [("/filter/queue", &self.queue), ("/filter/kind", &self.kind)] {
            if let Some(name) = name {
                checks.name(pointer, name);
            }
        }
        let mut own = Checks::default();
        check_label(&mut own, self.label.as_deref());
        checks.under("/filter", own);
        checks.text("/filter/error", self.error.as_deref(), ERROR_TEXT_MAX_CHARS);
        for (pointer, instant) in
            [("/filter/due_after", &self.due_after), ("/filter/due_before", &self.due_before)]
        {
            if instant.as_ref().is_some_and(|instant| instant.ms().is_none()) {
                checks.refuse(pointer, "must be RFC 3339 with an offset, or epoch milliseconds");
            }
        }
    }
}

/// The parameters of the action.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BulkArgs {
    /// Only for `cancel`: the operation also cancels tasks that have fired and wait, and asks running executors to
    /// stop.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stop_if_fired: bool,
    /// Only for `reschedule`: the operation moves tasks later by this many milliseconds; a negative number moves them
    /// earlier. Exclusive with `execute_at` and `execute_at_ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_ms: Option<i64>,
    /// Only for `reschedule`: the new execution time, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execute_at: Option<Instant>,
    /// Only for `reschedule`: the new execution time, epoch milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execute_at_ms: Option<i64>,
    /// Only for `set_priority`: the new priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 5)]
    pub priority: Option<u8>,
    /// Only for `set_queue`: the new queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
}

impl BulkArgs {
    /// The new time, epoch milliseconds.
    pub fn execute_at_ms(&self) -> Option<i64> {
        self.execute_at.as_ref().and_then(Instant::ms).or(self.execute_at_ms)
    }

    fn check(&self, action: BulkAction, checks: &mut Checks) {
        let times = [self.by_ms.is_some(), self.execute_at.is_some(), self.execute_at_ms.is_some()];
        let given = [
            ("/args/stop_if_fired", self.stop_if_fired, BulkAction::Cancel),
            ("/args/by_ms", self.by_ms.is_some(), BulkAction::Reschedule),
            ("/args/execute_at", self.execute_at.is_some(), BulkAction::Reschedule),
            ("/args/execute_at_ms", self.execute_at_ms.is_some(), BulkAction::Reschedule),
            ("/args/priority", self.priority.is_some(), BulkAction::SetPriority),
            ("/args/queue", self.queue.is_some(), BulkAction::SetQueue),
        ];
        for (pointer, _, _) in given.into_iter().filter(|row| row.1 && row.2 != action) {
            checks.refuse(pointer, "does not go with this action");
        }
        if action == BulkAction::Reschedule && times.into_iter().filter(|time| *time).count() != 1 {
            checks.refuse("/args", "give one of by_ms, execute_at and execute_at_ms");
        }
        if action == BulkAction::SetPriority && self.priority.is_none() {
            checks.refuse("/args/priority", "is missing");
        }
        match &self.queue {
            Some(queue) => checks.name("/args/queue", queue),
            None if action == BulkAction::SetQueue => checks.refuse("/args/queue", "is missing"),
            None => {}
        }
        if self.execute_at.as_ref().is_some_and(|execute_at| execute_at.ms().is_none()) {
            checks.refuse("/args/execute_at", "must be RFC 3339 with an offset");
        }
        if let Some(fault) = self.execute_at_ms.and_then(instant_fault) {
            checks.refuse("/args/execute_at_ms", fault);
        }
        checks.span("/args/by_ms", self.by_ms, -DURATION_MAX_MS..=DURATION_MAX_MS);
        checks.range("/args/priority", self.priority, PRIORITY_MIN..=PRIORITY_MAX);
    }
}

/// An action and the tasks that it is for. Nothing changes until the operation is confirmed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateBulk {
    pub action: BulkAction,
    #[serde(default)]
    pub filter: BulkFilter,
    /// Selects every task of the namespace. Required if the filter is empty.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    #[serde(default)]
    pub args: BulkArgs,
    /// Tasks per second. Default: 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100_000)]
    pub rate: Option<u32>,
    /// The reason, shown with the operation and in the audit log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
}

impl CreateBulk {
    /// Reads and checks one.
    pub fn from_json(json: &[u8]) -> Result<Self, Invalid> {
        let asked: Self = parse(json)?;
        asked.check()?;
        Ok(asked)
    }

    /// Every rule that needs no store.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut checks = Checks::default();
        self.filter.check(&mut checks);
        if self.filter == BulkFilter::default() && !self.all {
            let detail = "is empty: all tasks of the namespace would be meant; if so, say \"all\": true";
            checks.refuse("/filter", detail);
        }
        self.args.check(self.action, &mut checks);
        checks.range("/rate", self.rate, 1..=BULK_RATE_MAX);
        checks.at_most_chars("/reason", self.reason.as_deref(), PAUSE_REASON_MAX_CHARS);
        checks.done()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BulkState {
    /// Counted, not confirmed. Nothing has changed.
    Previewed,
    Running,
    Paused,
    /// Stopped before its end. It does not continue.
    Stopped,
    Done,
}

/// A bulk operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BulkOperation {
    pub id: i64,
    /// Grows with every change. The ETag is derived from `id` and this number.
    pub revision: i64,
    pub namespace: String,
    pub action: BulkAction,
    pub args: BulkArgs,
    pub filter: BulkFilter,
    pub rate: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub state: BulkState,
    /// The states that are searched: those of the filter in which the action has an effect.
    pub states: Vec<State>,
    /// The number of tasks that the preview has counted.
    pub count: u64,
    /// The same as `counted_all`.
    pub count_is_exact: bool,
    /// False if `count` is a lower bound. Counting continues until all tasks were read, or the operation is
    /// confirmed.
    #[serde(default)]
    #[schema(required = true)]
    pub counted_all: bool,
    /// The expected duration of the remaining work at the given rate.
    pub takes_ms: u64,
    /// Tasks that were changed.
    pub done: u64,
    /// Tasks that no longer matched when they were processed: they had fired, or another caller had changed them.
    pub skipped: u64,
    /// Tasks that could not be changed. `/failures` lists them; `/repeat` tries them again.
    pub failed: u64,
    /// The first tasks. Only in the answer to the preview.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Vec<Task>>,
    /// Why the operation waits. It continues by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// Present if engines crashed while they ran it. It rests until it is resumed or stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_aside: Option<SetAside>,
    /// The reason of a pause or stop, and who requested it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: At,
    pub created_at_ms: i64,
    pub created_by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub confirmed_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed_at_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<i64>,
}

/// A task that could not be changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BulkFailure {
    #[serde(rename = "ref")]
    pub task_ref: String,
    pub error: String,
    #[schema(value_type = String, format = DateTime)]
    pub at: At,
    pub at_ms: i64,
}

/// Query parameters of lists of bulk operations, and of one's failures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListBulk {
    /// 1 to 1,000. Default: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

impl ListBulk {
    pub fn check(&self) -> Result<(), Invalid> {
        let mut checks = Checks::default();
        checks.range("/limit", self.limit, 1..=PAGE_MAX);
        checks.done()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_held() {
        let refused = |json: &str| {
            let errors = CreateBulk::from_json(json.as_bytes()).unwrap_err().errors;
            errors.into_iter().map(|error| error.pointer).collect::<Vec<_>>()
        };
        assert_eq!(refused(r#"{"action":"cancel"}"#), ["/filter"]);
        assert_eq!(refused(r#"{"action":"cancel","filter":{}}"#), ["/filter"]);
        assert_eq!(refused(r#"{"action":"cancel","filter":{"queue":"a b"}}"#), ["/filter/queue"]);
        assert_eq!(refused(r#"{"action":"cancel","filter":{"label":"x"}}"#), ["/filter/label"]);
        assert_eq!(refused(r#"{"action":"cancel","filter":{"due_after":"soon"}}"#), ["/filter/due_after"]);
        assert_eq!(refused(r#"{"action":"reschedule","all":true}"#), ["/args"]);
        assert_eq!(
            refused(r#"{"action":"reschedule","all":true,"args":{"by_ms":1,"execute_at_ms":2000000000000}}"#),
            ["/args"]
        );
        assert_eq!(refused(r#"{"action":"cancel","all":true,"args":{"by_ms":1}}"#), ["/args/by_ms"]);
        assert_eq!(
            refused(r#"{"action":"reschedule","all":true,"args":{"execute_at_ms":2000000000}}"#),
            ["/args/execute_at_ms"],
            "seconds"
        );
        assert_eq!(refused(r#"{"action":"set_priority","all":true}"#), ["/args/priority"]);
        assert_eq!(
            refused(r#"{"action":"set_priority","all":true,"args":{"priority":6}}"#),
            ["/args/priority"]
        );
        assert_eq!(refused(r#"{"action":"set_queue","all":true}"#), ["/args/queue"]);
        assert_eq!(refused(r#"{"action":"set_queue","all":true,"args":{"queue":"a b"}}"#), ["/args/queue"]);
        assert_eq!(refused(r#"{"action":"run_now","all":true,"args":{"queue":"a"}}"#), ["/args/queue"]);
        assert_eq!(refused(r#"{"action":"cancel","all":true,"rate":0}"#), ["/rate"]);
        assert!(CreateBulk::from_json(br#"{"action":"cancel","all":true}"#).is_ok());
    }

    #[test]
    fn a_request_is_written_as_it_is_read() {
        let text = concat!(
            r#"{"action":"reschedule","filter":{"queue":"mail","state":"scheduled","phase":"pending","kind":"k","#,
            r#""label":"a=b","due_after":5,"due_before":"2030-01-01T00:00:00Z","error":"no"},"#,
            r#""args":{"by_ms":-5},"rate":7,"reason":"why"}"#
        );
        let asked = CreateBulk::from_json(text.as_bytes()).unwrap();
        assert_eq!(serde_json::to_string(&asked).unwrap(), text);
        assert_eq!(asked.filter.label(), Some(("a", "b")));
    }
}
