//! The log filter that is in effect, and until when. Must never import a handler or the server's state: the options hold it.

use parking_lot::Mutex;
use punctual_domain::time::Millis;
use punctual_protocol::{At, LogFilter};
use std::{fmt, sync::Arc};

/// The log of a process.
pub trait Log: Send + Sync + fmt::Debug + 'static {
    /// Sets what is written from now on. After an error nothing has changed; the error says what is wrong with the filter.
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
pub(super) struct CurrentFilter {
    pub(super) filter: String,
    until: Option<Millis>,
    /// Number of changes. The timer of an earlier filter does not end a later one.
    pub(super) sets: u64,
}

impl LogFilters {
    #[must_use]
    pub fn new(log: Box<dyn Log>, started_with: String) -> Self {
        let current = CurrentFilter { filter: started_with.clone(), until: None, sets: 0 };
        Self(Arc::new(Inner { log, started_with, current: Mutex::new(current) }))
    }

    /// The filter before the change, and the filter after.
    pub(super) fn set(
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

    /// Restores the filter of the start, unless another filter was set since.
    pub(super) fn end(&self, set: u64) {
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

    pub(super) fn current(&self) -> LogFilter {
        self.shown(self.0.current.lock().clone())
    }

    pub(super) fn shown(&self, CurrentFilter { filter, until, .. }: CurrentFilter) -> LogFilter {
        LogFilter {
            filter,
            started_with: self.0.started_with.clone(),
            until: until.map(|at| At::from_ms(at.0)),
            until_ms: until.map(|at| at.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records the filters that are set; refuses the filter `bad`.
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
