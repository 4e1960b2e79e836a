//! Retry policies: the delay of the next attempt after a failed one, by `Duration`. The arithmetic is the server's.

use std::time::Duration;

use punctual_protocol::Retry;
use punctual_protocol::limits::{RETRY_FACTOR_DEFAULT, RETRY_JITTER_DEFAULT, RETRY_MAX_DELAY_MS_DEFAULT};

use crate::new_task::ms_up;

/// Immediately.
pub fn immediate() -> Retry {
    Retry::Immediate {}
}

/// Retries after the same delay each time.
pub fn fixed(delay: Duration) -> Retry {
    Retry::Fixed { delay_ms: ms_up(delay) }
}

/// Twice as long each time, up to ten minutes (or `delay`, if that is longer), varied by a fifth at random:
/// the server's default.
pub fn exponential(delay: Duration) -> Retry {
    let delay_ms = ms_up(delay);
    Retry::Exponential {
        delay_ms,
        factor: RETRY_FACTOR_DEFAULT,
        max_delay_ms: RETRY_MAX_DELAY_MS_DEFAULT.max(delay_ms),
        jitter: RETRY_JITTER_DEFAULT,
    }
}

/// Retries after the first of these delays, then the second; the last one repeats.
pub fn list(delays: impl IntoIterator<Item = Duration>) -> Retry {
    Retry::List { delays_ms: delays.into_iter().map(ms_up).collect() }
}
