//! The wall clock in microseconds. Server and generator share one machine, hence one clock: what the server calls
//! `execute_at` and what an executor reads here can be subtracted. Must never be used against a remote server.

use std::time::Duration;

/// Microseconds since the epoch.
#[expect(clippy::disallowed_methods, reason = "a measuring tool is where the clock is read")]
pub(crate) fn now_us() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(since.map_or(0, |since| since.as_micros())).unwrap_or(i64::MAX)
}

/// Microseconds since this was first asked; never goes back, whatever is done to the wall clock.
#[expect(clippy::disallowed_methods, reason = "a measuring tool is where the clock is read")]
pub(crate) fn monotonic_us() -> i64 {
    static FIRST: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    i64::try_from(FIRST.elapsed().as_micros()).unwrap_or(i64::MAX)
}

/// Milliseconds since the epoch.
pub(crate) fn now_ms() -> i64 {
    now_us() / 1_000
}

/// Returns at once when the instant has passed.
pub(crate) async fn sleep_until_us(at_us: i64) {
    if let Ok(left @ 1..) = u64::try_from(at_us.saturating_sub(now_us())) {
        tokio::time::sleep(Duration::from_micros(left)).await;
    }
}

/// The seconds of a span, for rates: never zero.
pub(crate) fn seconds(span_us: i64) -> f64 {
    span_us.max(1) as f64 / 1e6
}
