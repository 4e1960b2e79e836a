//! Spans of time, gathered by the microsecond and reported as percentiles in milliseconds.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// One hour: longer spans are counted as this.
const SPAN_MAX_US: u64 = 3_600_000_000;
const DIGITS: u8 = 3;

#[derive(Debug)]
pub(crate) struct Spans(Histogram<u64>);

impl Default for Spans {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, SPAN_MAX_US, DIGITS).expect("the bounds are constants that fit"))
    }
}

impl Spans {
    /// A span below zero is counted as zero: whether it may be is for the checker to say.
    pub(crate) fn record_us(&mut self, span_us: i64) {
        self.0.saturating_record(u64::try_from(span_us).unwrap_or(0));
    }

    pub(crate) fn add(&mut self, others: &Self) {
        self.0.add(&others.0).expect("all have the same bounds");
    }

    pub(crate) fn percentiles(&self) -> Percentiles {
        let at = |quantile| milliseconds(self.0.value_at_quantile(quantile));
        Percentiles {
            count: self.0.len(),
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            max_ms: milliseconds(self.0.max()),
        }
    }
}

fn milliseconds(span_us: u64) -> f64 {
    span_us as f64 / 1e3
}

/// All zero when nothing was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Percentiles {
    pub(crate) count: u64,
    pub(crate) p50_ms: f64,
    pub(crate) p90_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) p999_ms: f64,
    pub(crate) max_ms: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_spans() {
        let mut spans = Spans::default();
        (1..=1_000).for_each(|number| spans.record_us(number * 1_000));
        let reported = spans.percentiles();
        for (got, want) in [
            (reported.p50_ms, 500.0),
            (reported.p90_ms, 900.0),
            (reported.p99_ms, 990.0),
            (reported.p999_ms, 999.0),
            (reported.max_ms, 1_000.0),
        ] {
            assert!((got - want).abs() <= want * 0.002, "{got} for {want}");
        }
        assert_eq!(reported.count, 1_000);
    }

    #[test]
    fn nothing_counted_is_all_zero_and_extremes_are_kept_in_bounds() {
        assert_eq!(Spans::default().percentiles(), Percentiles::default());
        let mut spans = Spans::default();
        spans.record_us(-5);
        spans.record_us(i64::MAX);
        let reported = spans.percentiles();
        assert_eq!((reported.count, reported.p50_ms), (2, 0.0));
        assert!(reported.max_ms >= 3_600_000.0);
    }
}
