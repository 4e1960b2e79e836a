//! Lists: a page of items, and the criteria of task searches.

use std::fmt;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize, Serializer};

use crate::fields::{Checks, Invalid};
use crate::limits::{INSTANT_MAX_MS, PAGE_MAX};
use crate::{At, Int64, Phase, State, Task};

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Pass it as `cursor` to get the next page; null at the end.
    pub next_cursor: Option<String>,
}

/// A page of a search for tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct FoundTasks {
    pub items: Vec<Task>,
    /// Pass it as `cursor` to get the next page; null at the end.
    pub next_cursor: Option<String>,
    // An older server does not say it.
    #[serde(default)]
    #[schema(required = true)]
    pub search: Searched,
}

/// The access path of a search, and its progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Searched {
    pub along: SearchedAlong,
    /// True if the page is full, or if no more tasks match. False if the two seconds of one call ended before that
    /// was known, and `next_cursor` continues.
    // An older server omits it.
    #[serde(default = "complete")]
    #[schema(required = true)]
    pub is_complete: bool,
    /// The approximate number of tasks that this call examined.
    #[serde(default)]
    #[schema(required = true)]
    pub examined: u64,
    /// The percentage that was searched so far, including earlier pages. Present only on a page that is neither full
    /// nor the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = 12.5)]
    pub through_percent: Option<f64>,
    /// The same for a search by due time: tasks due at this instant or later were searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub through_due_at: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through_due_at_ms: Option<i64>,
}

const fn complete() -> bool {
    true
}

impl Default for Searched {
    fn default() -> Self {
        Self {
            along: SearchedAlong::default(),
            is_complete: complete(),
            examined: 0,
            through_percent: None,
            through_due_at: None,
            through_due_at_ms: None,
        }
    }
}

/// The access path of a search. It determines how many tasks are read in vain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SearchedAlong {
    /// The versions of one `task_id` or `key`.
    TaskId,
    /// Tasks with the label. All queues that may have it declare it in `indexed_labels`.
    Label,
    /// Dead tasks.
    Dead,
    /// Tasks that are due in the given range.
    DueTime,
    /// Ranges of ids in which the queue, or the namespace, has tasks; with a `kind`, tasks of that kind.
    Queue,
    /// All tasks, the newest first. No index has the matching ones.
    #[default]
    All,
}

/// The order of the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub enum SortTasks {
    /// The newest first.
    #[serde(rename = "-created_at")]
    NewestFirst,
    /// The oldest first.
    #[serde(rename = "created_at")]
    OldestFirst,
    /// The latest due first.
    #[serde(rename = "-due_at")]
    LatestDueFirst,
    /// The task that fires next is first.
    #[serde(rename = "due_at")]
    EarliestDueFirst,
}

/// Query parameters of `GET /v1/tasks`. All given conditions must hold.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema, utoipa::IntoParams,
)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SearchTasks {
    /// The caller's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<i64>)]
    pub task_id: Option<Int64>,
    /// The caller's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(min_length = 1, max_length = 128)]
    pub key: Option<String>,
    /// Only together with `task_id` or `key`. Default: every version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<i64>)]
    pub task_version: Option<Int64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// The phase of the task, a general word for its state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// `key=value`, or `key:value` where the key has no `=`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(example = "team=payments")]
    pub label: Option<String>,
    /// `execute_at` at or after this instant: RFC 3339 or epoch milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>)]
    pub due_after: Option<TimeBound>,
    /// `execute_at` before this instant: RFC 3339 or epoch milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>)]
    pub due_before: Option<TimeBound>,
    /// `-created_at`, the newest first, or `created_at`, the oldest first; `due_at`, the earliest due first,
    /// or `-due_at`, the latest due first. Default: the latest due first with `due_after` or `due_before`,
    /// otherwise the newest first. Refused if no index has the tasks in that order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(inline)]
    pub sort: Option<SortTasks>,
    /// Items per page, 1 to 1,000. Default: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next_cursor` of the preceding page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

impl SearchTasks {
    /// Every rule that needs no store.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut checks = Checks::default();
        if self.task_version.is_some() && self.task_id.is_none() && self.key.is_none() {
            checks.refuse("/task_version", "needs task_id or key");
        }
        checks.key("/key", self.key.as_deref());
        checks.at_most_one(("task_id", self.task_id.is_some()), ("key", self.key.is_some()));
        for (pointer, name) in [("/queue", &self.queue), ("/kind", &self.kind)] {
            if let Some(name) = name {
                checks.name(pointer, name);
            }
        }
        check_label(&mut checks, self.label.as_deref());
        if self.sort.is_some() && (self.task_id.is_some() || self.key.is_some()) {
            checks.refuse(
                "/sort",
                "does not go with task_id or key: of one identity the highest version comes first",
            );
        }
        checks.range("/limit", self.limit, 1..=PAGE_MAX);
        checks.done()
    }

    /// The label as key and value.
    pub fn label(&self) -> Option<(&str, &str)> {
        label_of(self.label.as_deref())
    }
}

pub(crate) fn label_of(label: Option<&str>) -> Option<(&str, &str)> {
    let label = label?;
    label.split_once('=').or_else(|| label.split_once(':')).filter(|(key, _)| !key.is_empty())
}

pub(crate) fn check_label(checks: &mut Checks, label: Option<&str>) {
    if let Some(label) = label.filter(|label| label_of(Some(label)).is_none()) {
        checks.refuse("/label", format!("must be key=value, not {label:?}"));
    }
}

/// An instant in a query, epoch milliseconds; RFC 3339 or an integer on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, utoipa::ToSchema)]
#[schema(value_type = String)]
pub struct TimeBound(pub i64);

impl fmt::Display for TimeBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for TimeBound {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TimeBound {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let ms = text.parse().ok().filter(|ms| (0..=INSTANT_MAX_MS).contains(ms));
        ms.or_else(|| At::from_rfc3339(&text).map(At::ms))
            .map(Self)
            .ok_or_else(|| D::Error::custom("expected RFC 3339 or epoch milliseconds, between 1970 and 9999"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_reads_like_this() {
        let last = Page { items: vec![1], next_cursor: None };
        assert_eq!(serde_json::to_string(&last).unwrap(), r#"{"items":[1],"next_cursor":null}"#);
    }

    #[test]
    fn a_search_by_time_takes_both_forms() {
        let search: SearchTasks =
            serde_json::from_str(r#"{"due_after":"1970-01-01T00:00:01Z","due_before":"5000","task_id":"7"}"#)
                .unwrap();
        assert_eq!((search.due_after, search.due_before), (Some(TimeBound(1_000)), Some(TimeBound(5_000))));
        for bad in ["soon", "-1", "999999999999999"] {
            assert!(serde_urlencoded::from_str::<SearchTasks>(&format!("due_after={bad}")).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_search_is_written_as_it_is_read_and_unknown_parameters_are_refused() {
        let search = SearchTasks {
            due_after: Some(TimeBound(5)),
            label: Some("a=b".into()),
            ..SearchTasks::default()
        };
        let query = serde_urlencoded::to_string(&search).unwrap();
        assert_eq!(query, "label=a%3Db&due_after=5");
        assert_eq!(serde_urlencoded::from_str::<SearchTasks>(&query).unwrap(), search);
        assert!(serde_urlencoded::from_str::<SearchTasks>("lable=a").is_err());
    }

    #[test]
    fn a_search_that_makes_no_sense_is_refused() {
        let pointers = |search: SearchTasks| {
            search.check().unwrap_err().errors.into_iter().map(|e| e.pointer).collect::<Vec<_>>()
        };
        let none = SearchTasks::default;
        assert_eq!(pointers(SearchTasks { task_version: Some(Int64(1)), ..none() }), ["/task_version"]);
        assert_eq!(pointers(SearchTasks { label: Some("team".into()), ..none() }), ["/label"]);
        assert_eq!(
            pointers(SearchTasks { limit: Some(0), queue: Some(String::new()), ..none() }),
            ["/queue", "/limit"]
        );
        assert_eq!(
            pointers(SearchTasks { limit: Some(1_001), kind: Some("a b".into()), ..none() }),
            ["/kind", "/limit"]
        );
        let fine = SearchTasks { label: Some("a=b=c".into()), limit: Some(1_000), ..none() };
        assert_eq!((fine.check(), fine.label()), (Ok(()), Some(("a", "b=c"))));
    }
}
