//! Panics of a server: each is counted and logged as one line, wherever it happens; whatever supervises the part starts
//! it again. Must never write by itself: a log that blocks would hold the thread that panicked.

use crate::logs;
use std::{backtrace::Backtrace, panic, thread};

/// Installs the hook for commands that serve; others print panics as any program does.
pub(crate) fn watch() {
    panic::set_hook(Box::new(|info| {
        logs::meters().panicked();
        let thread = thread::current();
        let (thread, place) = (thread.name().unwrap_or("unnamed"), info.location().map(ToString::to_string));
        let message = info.payload_as_str().unwrap_or("no message");
        // Empty unless RUST_BACKTRACE asks for it.
        let backtrace = Backtrace::capture();
        tracing::error!(panic = message, place, thread, %backtrace, "a panic");
    }));
}
