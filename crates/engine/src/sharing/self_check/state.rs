//! A heartbeat of a thread or a service of this engine. Judges nothing.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};
use tokio::time::Instant;

/// The heartbeat of a thread or service that must not hang. Before the first beat, none is missed: an engine
/// that is run manually has neither threads nor services.
#[derive(Debug)]
pub(crate) struct LivenessTick {
    since: Instant,
    /// Milliseconds after `since`, from 1 on; 0: never.
    last_ms: AtomicU64,
}

impl Default for LivenessTick {
    fn default() -> Self {
        Self { since: Instant::now(), last_ms: AtomicU64::new(0) }
    }
}

impl LivenessTick {
    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    pub(crate) fn beat(&self) {
        self.last_ms.store(self.elapsed_ms(), Relaxed);
    }

    /// `None` if the tick never beat.
    pub(crate) fn silent_for(&self) -> Option<Duration> {
        silence(self.last_ms.load(Relaxed), self.elapsed_ms())
    }
}

fn silence(last_ms: u64, now_ms: u64) -> Option<Duration> {
    (last_ms > 0).then(|| Duration::from_millis(now_ms.saturating_sub(last_ms)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_beat_is_not_missed_and_what_stopped_is() {
        let tick = LivenessTick::default();
        assert_eq!(tick.silent_for(), None);
        tick.beat();
        assert!(tick.silent_for().is_some());
        assert_eq!(silence(0, 60_000), None);
        assert_eq!(silence(1, 5_001), Some(Duration::from_secs(5)));
    }
}
