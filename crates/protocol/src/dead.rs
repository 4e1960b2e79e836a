//! Dead letters: searches, and redrives of many in one call.

use serde::{Deserialize, Serialize};

use crate::fields::{Checks, Invalid};
use crate::limits::{BATCH_MAX, ERROR_TEXT_MAX_CHARS, INSTANT_MAX_MS, PAGE_MAX};
use crate::search::{check_label, label_of};
use crate::{At, TimeBound, parse};

/// Query parameters of `GET /v1/dead-letters`. All given conditions must hold.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema, utoipa::IntoParams,
)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SearchDead {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// `key=value`, or `key:value` where the key has no `=`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(example = "team=payments")]
    pub label: Option<String>,
    /// The last error contains this text exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(example = "card declined")]
    pub error: Option<String>,
    /// Died at or after this instant: RFC 3339 or epoch milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>)]
    pub since: Option<TimeBound>,
    /// Items per page, 1 to 1,000. Default: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next_cursor` of the preceding page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

impl SearchDead {
    /// Every rule that needs no store.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut checks = Checks::default();
        check_filters(&mut checks, [&self.queue, &self.kind, &self.label, &self.error]);
        checks.range("/limit", self.limit, 1..=PAGE_MAX);
        checks.done()
    }

    /// The label as key and value.
    pub fn label(&self) -> Option<(&str, &str)> {
        label_of(self.label.as_deref())
    }
}

fn check_filters(checks: &mut Checks, [queue, kind, label, error]: [&Option<String>; 4]) {
    for (pointer, name) in [("/queue", queue), ("/kind", kind)] {
        if let Some(name) = name {
            checks.name(pointer, name);
        }
    }
    check_label(checks, label.as_deref());
    checks.text("/error", error.as_deref(), ERROR_TEXT_MAX_CHARS);
}

/// Selects dead tasks that run again with a new set of attempts, and how fast. All given filters must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RedriveDead {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// `key=value`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The last error contains this text exactly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Died at or after this instant: RFC 3339 or epoch milliseconds, as a string.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub since: Option<TimeBound>,
    /// The maximum number of tasks, 1 to 10,000. Default: 1,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 10000)]
    pub limit: Option<u32>,
    /// Spreads the tasks over time: this many are due in each second. Default: all are due at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0.001, maximum = 100_000)]
    pub rate_per_second: Option<f64>,
    /// The instant at which the first task is due: `until_ms` of the preceding call, to continue at its rate.
    /// Default, and for a past instant: now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_at_ms: Option<i64>,
    /// `next_cursor` of the call before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Required without a filter: redrives all dead tasks of the namespace.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    /// Only count the tasks; change nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

impl RedriveDead {
    /// Reads and checks one; an empty body is one without filters.
    pub fn from_json(json: &[u8]) -> Result<Self, Invalid> {
        let request: Self = if json.trim_ascii().is_empty() { Self::default() } else { parse(json)? };
        request.check()?;
        Ok(request)
    }

    /// Every rule that needs no store.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut checks = Checks::default();
        check_filters(&mut checks, [&self.queue, &self.kind, &self.label, &self.error]);
        checks.range("/limit", self.limit, 1..=u32::try_from(BATCH_MAX).unwrap_or(u32::MAX));
        checks.range("/rate_per_second", self.rate_per_second, 0.001..=100_000.0);
        checks.range("/start_at_ms", self.start_at_ms, 0..=INSTANT_MAX_MS);
        checks.done()
    }

    /// It has no condition, and does not request all.
    #[must_use]
    pub fn is_unbounded(&self) -> bool {
        let Self { queue, kind, label, error, since, .. } = self;
        let named = [queue, kind, label, error].into_iter().any(Option::is_some) || since.is_some();
        !(named || self.all || self.dry_run)
    }

    /// The filters, as of a search.
    pub fn filters(&self) -> SearchDead {
        let Self { queue, kind, label, error, since, cursor, .. } = self.clone();
        SearchDead { queue, kind, label, error, since, limit: None, cursor }
    }
}

/// The result of a redrive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RedriveAnswer {
    /// Tasks that were redriven, or would be with `dry_run`.
    pub tasks: u64,
    /// Tasks that were no longer dead when they were processed. They are unchanged.
    pub skipped: u64,
    /// The instant at which the next task would be due.
    pub until: At,
    pub until_ms: i64,
    pub dry_run: bool,
    /// Pass it as `cursor` to continue. `null`: there are no more tasks.
    pub next_cursor: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_held() {
        let refused =
            |json: &str| RedriveDead::from_json(json.as_bytes()).unwrap_err().errors.remove(0).pointer;
        assert_eq!(refused(r#"{"queue":"a b"}"#), "/queue");
        assert_eq!(refused(r#"{"label":"x"}"#), "/label");
        assert_eq!(refused(r#"{"error":""}"#), "/error");
        assert_eq!(refused(r#"{"limit":10001}"#), "/limit");
        assert_eq!(refused(r#"{"rate_per_second":0}"#), "/rate_per_second");
        assert_eq!(refused(r#"{"start_at_ms":-1}"#), "/start_at_ms");
        assert_eq!(refused(r#"{"sinse":"1"}"#), "/sinse");
        let all = concat!(
            r#"{"queue":"q","kind":"k","label":"a=b","error":"no","since":"5","limit":7,"rate_per_second":0.5,"#,
            r#""start_at_ms":9,"cursor":"c","dry_run":true}"#
        );
        let request = RedriveDead::from_json(all.as_bytes()).unwrap();
        assert_eq!(serde_json::to_string(&request).unwrap(), all);
        assert_eq!(request.filters().label(), Some(("a", "b")));
        assert_eq!(RedriveDead::from_json(b""), Ok(RedriveDead::default()));
    }
}
