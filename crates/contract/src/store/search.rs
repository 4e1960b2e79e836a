//! Searches of callers: conditions, pages and access paths.

use punctual_domain::{name::Name, state::State, task::Task, time::Millis};

/// All given conditions hold together. `due_*` are inclusive / exclusive.
#[derive(Clone, Debug, Default)]
pub struct Query {
    pub namespace: Option<Name>,
    pub queue: Option<Name>,
    pub state: Option<State>,
    pub kind: Option<Name>,
    pub label: Option<(String, String)>,
    pub due_after: Option<Millis>,
    pub due_before: Option<Millis>,
    /// Changed at or after.
    pub updated_from: Option<Millis>,
    /// The task's last error contains this text, letter for letter.
    pub error: Option<String>,
    /// Along the due times, the latest first, instead of the newest first, where the store has a key for that; otherwise as if
    /// it were not set.
    pub by_due_time: bool,
    /// A search along the due times returns the earliest first.
    pub earliest_first: bool,
    /// A search that is not along the due times returns the oldest first, along all ids, instead of the newest.
    pub oldest_first: bool,
    /// Continue above this id, in a search for the oldest first.
    pub after_id: Option<i64>,
    /// Continue below this id.
    pub before_id: Option<i64>,
    /// Continue after this task in a search by due time.
    pub behind_due: Option<DuePosition>,
    pub limit: usize,
}

/// A task in the order of due times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DuePosition {
    pub due_at: Millis,
    pub id: i64,
}

impl DuePosition {
    #[must_use]
    pub fn of(task: &Task) -> Self {
        Self { due_at: task.due_at, id: task.place.id }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Histories are not filled in.
    pub tasks: Vec<Task>,
    /// `before_id` of the next page, or `None` if this was the last, or the search is by due time.
    pub next_before_id: Option<i64>,
    /// `after_id` of the next page, in a search for the oldest first, or `None` if this was the last.
    pub next_after_id: Option<i64>,
    /// `behind_due` of the next page, in a search by due time, or `None` if this was the last.
    pub next_behind_due: Option<DuePosition>,
    pub along: Along,
    /// The highest existing id. Set for a page along ids that is short of its limit and is not the last.
    pub newest_id: Option<i64>,
    /// Ids that were examined, of which the result is a part; for an index, the number of results.
    pub examined: u64,
}

impl Page {
    /// There may be more.
    #[must_use]
    pub const fn has_next(&self) -> bool {
        self.next_before_id.is_some() || self.next_after_id.is_some() || self.next_behind_due.is_some()
    }
}

/// The access path of a search; the number of examined rows differs for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Along {
    /// All tasks, whatever they are, by their ids.
    #[default]
    Ids,
    /// Tasks that have the label: their queue has declared it.
    Label,
    /// The dead.
    Dead,
    /// Tasks that are due in the range of time.
    DueTime,
    /// Chunks of ids in which the namespace or the queue has tasks, of the given kind if any.
    Chunks,
}
