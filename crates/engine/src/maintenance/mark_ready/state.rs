//! The number of marks that are requested from the store at once. Requests none.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Tasks in one unit of work.
pub(super) const CHUNK: usize = 200;
/// The minimum number of marks, however slow the store is.
const FEW: usize = 10;

/// The number of tasks of busy executors that are marked at once. It is halved after each slow unit of work: each
/// mark is a read and an update, and hand-overs wait for them.
#[derive(Debug)]
pub(crate) struct MarkPace(AtomicUsize);

impl Default for MarkPace {
    fn default() -> Self {
        Self(AtomicUsize::new(CHUNK))
    }
}

impl MarkPace {
    pub(super) fn most(&self) -> usize {
        self.0.load(Relaxed)
    }

    pub(super) fn learn(&self, is_slow: bool) {
        let most = if is_slow { self.most() / 2 } else { self.most() * 2 };
        self.0.store(most.clamp(FEW, CHUNK), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_store_is_asked_for_fewer_marks_and_never_for_none() {
        let pace = MarkPace::default();
        let mut after = |is_slow| {
            pace.learn(is_slow);
            pace.most()
        };
        assert_eq!([true; 6].map(&mut after), [100, 50, 25, 12, 10, 10]);
        assert_eq!([false; 6].map(&mut after), [20, 40, 80, 160, 200, 200]);
    }
}
