//! Where logs go: stderr, as lines for people or one JSON document each.

use crate::config::{LogFormat, Settings};
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// For commands with settings.
pub(crate) fn start(settings: &Settings) {
    start_with(&settings.log_filter, settings.log_format);
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
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match format {
        LogFormat::Text => lines.init(),
        LogFormat::Json => lines.json().init(),
    }
}
