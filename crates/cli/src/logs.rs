//! The destination of logs: stderr, as lines for people or one JSON document each; repeated lines of an engine are
//! counted. Must never stop a caller that logs: see `lines`.

mod lines;
mod thinned;

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
use thinned::{Repetitions, Shape, Thinned};
use tracing_subscriber::{
    EnvFilter,
    fmt::format::{self, JsonFields},
    reload::Handle,
};

/// The meters of this process: its log is one, and so is its panic hook.
static METERS: LazyLock<Arc<ProcessMeters>> = LazyLock::new(Arc::default);
static STDERR: LazyLock<Lines> = LazyLock::new(|| Lines::to(std::io::stderr(), Arc::clone(&METERS)));

type SetFilter = Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>;

/// Set when the log begins.
static SET_FILTER: OnceLock<SetFilter> = OnceLock::new();
static REPETITIONS: OnceLock<Arc<Repetitions>> = OnceLock::new();

/// A reader that blocks must not hold the process at its end, nor a caller that waits for a line to be there.
const WRITTEN_WITHIN: Duration = Duration::from_secs(1);

/// The counts of this process.
pub(crate) fn meters() -> &'static Arc<ProcessMeters> {
    &METERS
}

/// Starts the log for commands that run an engine: repeated lines are counted.
pub(crate) fn start_for_engine(settings: &Settings) {
    let shape = if settings.log_format == LogFormat::Json { Shape::Json } else { Shape::Text };
    let repetitions = REPETITIONS.get_or_init(|| Repetitions::new(shape, STDERR.clone()));
    begin(settings, Some(Arc::clone(repetitions)));
}

/// Starts the log for other commands with settings.
pub(crate) fn start(settings: &Settings) {
    begin(settings, None);
}

fn begin(settings: &Settings, repetitions: Option<Arc<Repetitions>>) {
    start_with(&settings.log_filter, settings.log_format, repetitions);
    for warning in &settings.warnings {
        tracing::warn!(warning, "a setting is not as safe as it could be");
    }
}

/// Starts the log for commands without settings: warnings, or the filter in `PUNCTUAL_LOG_FILTER`.
pub(crate) fn start_for_client() {
    start_or("warn");
}

/// Starts the log of a worker. It also has each execution that the guard lets begin, with its task and attempt (D12).
pub(crate) fn start_for_worker() {
    start_or("warn,punctual_bus::guard=info");
}

fn start_or(filter: &str) {
    let filter = std::env::var("PUNCTUAL_LOG_FILTER").unwrap_or_else(|_| filter.to_owned());
    start_with(&filter, LogFormat::Text, None);
}

fn start_with(filter: &str, format: LogFormat, repetitions: Option<Arc<Repetitions>>) {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("warn"));
    let lines = tracing_subscriber::fmt()
        .with_writer(STDERR.clone())
        // Else what could not be written is printed, and what cannot be printed panics.
        .log_internal_errors(false);
    let set = match format {
        LogFormat::Text => {
            let has_colours = look::has_colours_on_stderr();
            let format = format::format().with_ansi(has_colours);
            let lines = lines.with_ansi(has_colours).event_format(Thinned { format, repetitions });
            let lines = lines.with_env_filter(filter).with_filter_reloading();
            let set = setter(lines.reload_handle());
            lines.init();
            set
        }
        LogFormat::Json => {
            let format = format::format().with_ansi(false).json();
            let lines = lines
                .with_ansi(false)
                .fmt_fields(JsonFields::new())
                .event_format(Thinned { format, repetitions });
            let lines = lines.with_env_filter(filter).with_filter_reloading();
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

/// The log of this process, for callers that may change it over the API.
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
    if let Some(repetitions) = REPETITIONS.get() {
        repetitions.write_all();
    }
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
