//! Reads and changes the log filter of this process while it runs. It applies to the engine that is asked, and to no other.
//! The process owner (the command line) applies it.

use crate::{
    access::Changed,
    answer,
    app::{App, Shared},
    extract::Body,
    refusal::Refusal,
};
use axum::{extract::State, http::StatusCode, response::Response};
use parking_lot::Mutex;
use punctual_domain::time::Millis;
use punctual_protocol::{At, Code, LogFilter, PutLogFilter};
use serde_json::json;
use std::{fmt, sync::Arc, time::Duration};

/// The log of a process.
pub trait Log: Send + Sync + fmt::Debug + 'static {
    /// What it writes from now on; the error says what is wrong with the filter, and nothing has changed then.
    fn set_filter(&self, filter: &str) -> Result<(), String>;
}

/// Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub struct LogFilters(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    log: Box<dyn Log>,
    started_with: String,
    current: Mutex<CurrentFilter>,
}

#[derive(Clone, Debug)]
struct CurrentFilter {
    filter: String,
    until: Option<Millis>,
    /// How often it was set: what was to end an earlier one leaves a later one alone.
    sets: u64,
}

impl LogFilters {
    #[must_use]
    pub fn new(log: Box<dyn Log>, started_with: String) -> Self {
        let current = CurrentFilter { filter: started_with.clone(), until: None, sets: 0 };
        Self(Arc::new(Inner { log, started_with, current: Mutex::new(current) }))
    }

    /// What it took the place of, and what stands since.
    fn set(
        &self,
        filter: Option<&str>,
        until: Option<Millis>,
    ) -> Result<(CurrentFilter, CurrentFilter), String> {
        let mut current = self.0.current.lock();
        let before = current.clone();
        self.put(&mut current, filter, until)?;
        Ok((before, current.clone()))
    }

    fn put(
        &self,
        current: &mut CurrentFilter,
        filter: Option<&str>,
        until: Option<Millis>,
    ) -> Result<(), String> {
        let filter = filter.unwrap_or(&self.0.started_with);
        self.0.log.set_filter(filter)?;
        *current = CurrentFilter { filter: filter.to_owned(), until, sets: current.sets + 1 };
        Ok(())
    }

    /// Back to what it was started with, unless it was set again.
    fn end(&self, set: u64) {
        let mut current = self.0.current.lock();
        if current.sets != set {
            return;
        }
        match self.put(&mut current, None, None) {
            Ok(()) => {
                tracing::info!(filter = self.0.started_with, "what is logged is as at the start again");
            }
            Err(error) => tracing::error!(error, "what is logged could not be set back"),
        }
    }

    fn current(&self) -> LogFilter {
        self.shown(self.0.current.lock().clone())
    }

    fn shown(&self, CurrentFilter { filter, until, .. }: CurrentFilter) -> LogFilter {
        LogFilter {
            filter,
            started_with: self.0.started_with.clone(),
            until: until.map(|at| At::from_ms(at.0)),
            until_ms: until.map(|at| at.0),
        }
    }
}

fn filters(app: &App) -> Result<&LogFilters, Refusal> {
    let none = || Refusal::new(Code::RequestUnknownRoute, "the log of this server cannot be changed");
    app.options.log.as_ref().ok_or_else(none)
}

/// What this engine logs.
///
/// Of the engine that is asked: each has its own.
#[utoipa::path(
    get, path = "/v1/log-filter", operation_id = "get_log_filter", tag = "operation",
    responses((status = 200, description = "What is logged, and until when.", body = LogFilter)),
)]
pub(crate) async fn get_log_filter(State(app): State<Shared>) -> Result<Response, Refusal> {
    Ok(answer::json(StatusCode::OK, &filters(&app)?.current()))
}

/// Change what this engine logs.
///
/// Of the engine that is asked, until it is restarted, or for `for_ms`; without `filter`, what it was started with.
#[utoipa::path(
    put, path = "/v1/log-filter", operation_id = "put_log_filter", tag = "operation",
    request_body(content = PutLogFilter, example = json!({"filter": "info,punctual_engine=debug", "for_ms": 600_000})),
    responses((status = 200, description = "What is logged from now on.", body = LogFilter)),
)]
pub(crate) async fn put_log_filter(State(app): State<Shared>, Body(body): Body) -> Result<Response, Refusal> {
    let asked = PutLogFilter::from_json(&body)?;
    let filters = filters(&app)?.clone();
    let lasts = asked.for_ms.map(Duration::from_millis);
    let until =
        lasts.map(|lasts| app.engine.now().plus(i64::try_from(lasts.as_millis()).unwrap_or(i64::MAX)));
    let (before, after) = filters
        .set(asked.filter.as_deref(), until)
        .map_err(|what| Refusal::field("/filter", format!("is no filter: {what}")))?;
    let set = after.sets;
    let after = filters.shown(after);
    tracing::info!(filter = after.filter, "what is logged was changed");
    if let Some(lasts) = lasts {
        let stopping = app.shutdown.clone();
        app.detached.spawn(async move {
            tokio::select! {
                () = stopping.cancelled() => {}
                () = tokio::time::sleep(lasts) => filters.end(set),
            }
        });
    }
    let changed = Changed {
        before: Some(json!({ "filter": before.filter }).to_string()),
        after: Some(json!({ "filter": after.filter, "until_ms": after.until_ms }).to_string()),
        reason: None,
    };
    Ok(changed.reported_with(answer::json(StatusCode::OK, &after)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What it was told, and a fault for one filter.
    #[derive(Debug, Default)]
    struct RecordingLog(Arc<Mutex<Vec<String>>>);

    impl Log for RecordingLog {
        fn set_filter(&self, filter: &str) -> Result<(), String> {
            if filter == "bad" {
                return Err("no level".to_owned());
            }
            self.0.lock().push(filter.to_owned());
            Ok(())
        }
    }

    #[test]
    fn one_that_ends_leaves_a_later_one_alone() {
        let log = RecordingLog::default();
        let reported = Arc::clone(&log.0);
        let filters = LogFilters::new(Box::new(log), "info".to_owned());
        let (_, first) = filters.set(Some("debug"), Some(Millis(5))).unwrap();
        let (before, second) = filters.set(Some("trace"), None).unwrap();
        assert_eq!((before.filter, second.filter.as_str()), ("debug".to_owned(), "trace"));
        filters.end(first.sets);
        assert_eq!((filters.current().filter, filters.current().until_ms), ("trace".to_owned(), None));
        assert!(filters.set(Some("bad"), None).is_err());
        assert_eq!(filters.current().filter, "trace", "nothing has changed");
        filters.end(second.sets);
        assert_eq!(filters.current().filter, "info");
        assert_eq!(*reported.lock(), ["debug", "trace", "info"]);
    }
}
