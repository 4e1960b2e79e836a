//! What the table knows of one partition besides its tasks: whether this engine works on it, how far it is claimed, and
//! which of it is being loaded from the store. Must not name a task.
//!
//! A load rests on a look at the store that may be older than what has become of a task since: leased ahead by this engine,
//! then withdrawn and cancelled through another one, the task would come back into the hot set, be taken at its instant, and
//! go with the lease, although the cancel was answered. So nothing is leased ahead in a range of instants that is being
//! loaded, and what is leased ahead is not loaded.

use punctual_domain::time::Millis;

/// What is due later than this is not leased ahead before its load has ended.
pub(super) const NEAR_MS: i64 = 60_000;
/// A load that was not answered may take effect for this long.
const MAY_COME_MS: i64 = 60_000;

#[derive(Debug, Default)]
pub(super) struct Span {
    /// This engine works on the partition. Otherwise it claims nothing there and holds nothing.
    pub(super) is_open: bool,
    /// All that was due until then when last looked at has been claimed. Whoever loads something earlier claims it at once.
    pub(super) claimed_until: Millis,
    under_way: Vec<Range>,
    /// All that was not answered, as one range, and until when it may take effect.
    unanswered: Option<(Range, Millis)>,
}

/// Instants that are being loaded. Both ends belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) from: Millis,
    pub(super) until: Millis,
}

impl Range {
    fn has(self, instant: Millis) -> bool {
        (self.from..=self.until).contains(&instant)
    }

    fn with(self, other: Self) -> Self {
        Self { from: self.from.min(other.from), until: self.until.max(other.until) }
    }
}

impl Span {
    pub(super) fn new(is_open: bool) -> Self {
        Self { is_open, ..Self::default() }
    }

    pub(super) fn begin_load(&mut self, range: Range) {
        self.under_way.push(range);
    }

    /// `now`: the load was not answered. None: nothing of it comes any more.
    pub(super) fn end_load(&mut self, range: Range, unanswered_at: Option<Millis>) {
        if let Some(nth) = self.under_way.iter().position(|load| *load == range) {
            self.under_way.swap_remove(nth);
        }
        if let Some(now) = unanswered_at {
            let before = self.unanswered.filter(|(_, until)| *until > now).map_or(range, |(range, _)| range);
            self.unanswered = Some((before.with(range), now.plus(MAY_COME_MS)));
        }
    }

    /// What is due then may be loaded from an older look at the store.
    pub(super) fn is_being_loaded(&self, due_at: Millis, now: Millis) -> bool {
        self.under_way.iter().any(|range| range.has(due_at))
            || self.unanswered.is_some_and(|(range, until)| until > now && range.has(due_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: i64, until: i64) -> Range {
        Range { from: Millis(from), until: Millis(until) }
    }

    #[test]
    fn a_load_bars_its_range_until_it_is_answered() {
        let (mut span, now) = (Span::default(), Millis(1));
        span.begin_load(range(10, 20));
        span.begin_load(range(15, 30));
        let barred = |span: &Span| [9, 10, 18, 25, 31].map(|at| span.is_being_loaded(Millis(at), now));
        assert_eq!(barred(&span), [false, true, true, true, false]);
        span.end_load(range(10, 20), None);
        assert_eq!(barred(&span), [false, false, true, true, false]);
        span.end_load(range(15, 30), None);
        assert_eq!(barred(&span), [false; 5]);
    }

    #[test]
    fn a_load_that_was_not_answered_may_come_for_a_while() {
        let (mut span, at) = (Span::default(), Millis(1));
        for range in [range(10, 20), range(30, 40)] {
            span.begin_load(range);
            span.end_load(range, Some(at));
        }
        let end = at.plus(MAY_COME_MS);
        assert!(
            span.is_being_loaded(Millis(15), end.plus(-1)) && span.is_being_loaded(Millis(35), end.plus(-1))
        );
        assert!(!span.is_being_loaded(Millis(15), end));
        span.begin_load(range(50, 60));
        span.end_load(range(50, 60), Some(end));
        assert!(!span.is_being_loaded(Millis(15), end), "the old range is over");
        assert!(span.is_being_loaded(Millis(55), end));
    }
}
