//! Where logs go: stderr, as lines for people or one JSON document each. Must never stop whoever logs: see `lines`.

mod lines;

use crate::config::{LogFormat, Settings};
use lines::Lines;
use punctual_engine::ProcessMeters;
use std::{
    io::IsTerminal,
    sync::{Arc, LazyLock},
    time::Duration,
};
use tracing_subscriber::EnvFilter;

/// Of this process: its log is one, and so is its panic hook.
static METERS: LazyLock<Arc<ProcessMeters>> = LazyLock::new(Arc::default);
static STDERR: LazyLock<Lines> = LazyLock::new(|| Lines::to(std::io::stderr(), Arc::clone(&METERS)));

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
        .with_env_filter(filter)
        .with_writer(STDERR.clone())
        // Else what could not be written is printed, and what cannot be printed panics.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal());
    match format {
        LogFormat::Text => lines.init(),
        LogFormat::Json => lines.json().init(),
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
