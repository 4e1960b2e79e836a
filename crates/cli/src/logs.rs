//! Where logs go: stderr, as lines for people or one JSON document each. Must never stop whoever logs: see `lines`.

mod lines;

use crate::{
    config::{LogFormat, Settings},
    look,
};
use lines::Lines;
use punctual_engine::ProcessMeters;
use std::{
    sync::{Arc, LazyLock, OnceLock},
    time::Duration,
};
use tracing_subscriber::{EnvFilter, reload::Handle};

/// Of this process: its log is one, and so is its panic hook.
static METERS: LazyLock<Arc<ProcessMeters>> = LazyLock::new(Arc::default);
static STDERR: LazyLock<Lines> = LazyLock::new(|| Lines::to(std::io::stderr(), Arc::clone(&METERS)));

type SetFilter = Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>;

/// Set when the log begins.
static SET_FILTER: OnceLock<SetFilter> = OnceLock::new();

/// A reader that stands still must not hold the process at its end, nor whoever waits for a line to be there.
const WRITTEN_WITHIN: Duration = Duration::from_secs(1);

/// What this process counts of itself.
pub(crate) fn meters() -> &'static Arc<ProcessMeters> {
    &METERS
}

/// For commands with settings.
pub(crate) fn start(settings: &Settings) {
    start_with(&settings.log_filter, settings.log_format);
    for warning in &settings.warnings {
        tracing::warn!(warning, "a setting is not as safe as it could be");
    }
}

/// For commands without: warnings, or what `PUNCTUAL_LOG_FILTER` says.
pub(crate) fn start_for_client() {
    let filter = std::env::var("PUNCTUAL_LOG_FILTER").unwrap_or_else(|_| "warn".to_owned());
    start_with(&filter, LogFormat::Text);
}

fn start_with(filter: &str, format: LogFormat) {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("warn"));
    let lines = tracing_subscriber::fmt()
        .with_writer(STDERR.clone())
        // Else what could not be written is printed, and what cannot be printed panics.
        .log_internal_errors(false)
        .with_ansi(look::has_colours_on_stderr());
    let set = match format {
        LogFormat::Text => {
            let lines = lines.with_env_filter(filter).with_filter_reloading();
            let set = setter(lines.reload_handle());
            lines.init();
            set
        }
        LogFormat::Json => {
            let lines = lines.json().with_env_filter(filter).with_filter_reloading();
            let set = setter(lines.reload_handle());
            lines.init();
            set
        }
    };
    let _ = SET_FILTER.set(set);
}

fn setter<S: 'static>(handle: Handle<EnvFilter, S>) -> SetFilter {
    Box::new(move |filter| handle.reload(filter).map_err(|error| error.to_string()))
}

/// Of this process, for who may change it over the API.
#[derive(Debug)]
pub(crate) struct ProcessLog;

impl punctual_server::Log for ProcessLog {
    fn set_filter(&self, filter: &str) -> Result<(), String> {
        let filter = EnvFilter::try_new(filter).map_err(|error| error.to_string())?;
        SET_FILTER.get().map_or_else(|| Err("nothing is logged".to_owned()), |set| set(filter))
    }
}

/// A line on stderr, behind what was logged before; waits until it is there, but not for ever.
pub(crate) fn line(text: &str) {
    STDERR.push(format!("{text}\n").into_bytes());
    flush();
}

/// Waits until what was logged is written, but not for ever.
pub(crate) fn flush() {
    STDERR.flush(WRITTEN_WITHIN);
}

/// Flushes when it is dropped.
#[derive(Debug)]
pub(crate) struct FlushedAtEnd;

impl Drop for FlushedAtEnd {
    fn drop(&mut self) {
        flush();
    }
}
