//! How near rows lie to each other where moves are made now, from the last count: what lies around them a moment later is
//! like it, and counting costs as much as a tenth of the moves. Must only ever decide how something is read.

use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// How long a count is believed: where a crowd comes after it, a statement or two read through it.
const BELIEVED_FOR: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(crate) struct Density(Mutex<Option<Count>>);

#[derive(Clone, Copy, Debug)]
struct Count {
    at: Instant,
    rows: u64,
    /// Of all partitions that were counted, together.
    span_ms: u64,
}

impl Density {
    /// About how many rows there are in so much time, if that is known.
    pub(crate) fn rows(&self, span_ms: u64) -> Option<u64> {
        let last = *self.0.lock();
        let last = last.filter(|it| it.at.elapsed() < BELIEVED_FOR)?;
        Some((last.rows.max(1) * span_ms).div_ceil(last.span_ms.max(1)))
    }

    pub(crate) fn counted(&self, rows: u64, span_ms: u64) {
        *self.0.lock() = Some(Count { at: Instant::now(), rows, span_ms });
    }

    /// There were too many to count.
    pub(crate) fn forget(&self) {
        *self.0.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_stands_for_as_much_time_elsewhere() {
        let density = Density::default();
        assert_eq!(density.rows(10), None);
        density.counted(300, 100);
        assert_eq!([10, 100, 1_000].map(|it| density.rows(it)), [30, 300, 3_000].map(Some));
        density.counted(0, 100);
        assert_eq!(density.rows(1_000), Some(10), "nothing was there does not mean that nothing ever is");
        density.forget();
        assert_eq!(density.rows(10), None);
    }

    #[test]
    fn a_count_is_not_believed_for_long() {
        let density = Density::default();
        *density.0.lock() = Some(Count { at: Instant::now() - BELIEVED_FOR, rows: 1, span_ms: 1 });
        assert_eq!(density.rows(1), None);
    }
}
