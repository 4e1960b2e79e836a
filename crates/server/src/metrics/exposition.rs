//! Writes the Prometheus text format, version 0.0.4. Knows no metric.

use super::{Kind, Metric};
use std::fmt::{Display, Write as _};

/// Media type of the format.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Debug, Default)]
pub(super) struct Exposition(String);

/// A histogram at one instant: how many were within each bound and above the one before, the last without bound.
#[derive(Debug)]
pub(super) struct Buckets<'a> {
    /// Bounds as text, in seconds; one fewer than `counts`.
    pub(super) bounds: &'a [String],
    pub(super) counts: &'a [u64],
    /// In seconds.
    pub(super) sum: &'a str,
}

impl Exposition {
    /// Begins a metric; its samples follow.
    pub(super) fn begin(&mut self, metric: &Metric) {
        let (name, kind) = (metric.name, metric.kind.word());
        let _ = writeln!(self.0, "# HELP {name} {}\n# TYPE {name} {kind}", metric.help);
    }

    /// A sample; `labels` are the values of the metric's labels, in their order.
    pub(super) fn sample(&mut self, metric: &Metric, labels: &[&str], value: impl Display) {
        debug_assert_eq!(metric.labels.len(), labels.len(), "{}", metric.name);
        self.line(metric.name, metric, labels, None, value);
    }

    /// A metric with one sample and no labels.
    pub(super) fn single(&mut self, metric: &Metric, value: impl Display) {
        self.begin(metric);
        self.sample(metric, &[], value);
    }

    pub(super) fn histogram(&mut self, metric: &Metric, labels: &[&str], buckets: &Buckets<'_>) {
        debug_assert_eq!(metric.kind, Kind::Histogram);
        let bounds = buckets.bounds.iter().map(String::as_str).chain(["+Inf"]);
        let bucket = format!("{}_bucket", metric.name);
        let mut count = 0;
        for (bound, more) in bounds.zip(buckets.counts) {
            count += more;
            self.line(&bucket, metric, labels, Some(bound), count);
        }
        self.line(&format!("{}_sum", metric.name), metric, labels, None, buckets.sum);
        self.line(&format!("{}_count", metric.name), metric, labels, None, count);
    }

    fn line(&mut self, name: &str, metric: &Metric, labels: &[&str], le: Option<&str>, value: impl Display) {
        self.0.push_str(name);
        let pairs = metric.labels.iter().copied().zip(labels.iter().copied());
        let mut open = '{';
        for (label, value) in pairs.chain(le.map(|it| ("le", it))) {
            let _ = write!(self.0, "{open}{label}=\"{}\"", escape(value));
            open = ',';
        }
        let close = if open == ',' { "}" } else { "" };
        let _ = writeln!(self.0, "{close} {value}");
    }

    pub(super) fn done(self) -> String {
        self.0
    }
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Microseconds as seconds, without needless zeros: exact, and the same text each time.
pub(super) fn seconds(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{HTTP_LATENCY, TASKS};

    #[test]
    fn seconds_are_exact_and_short() {
        for (micros, text) in
            [(0, "0"), (250, "0.00025"), (1_000, "0.001"), (30_000_000, "30"), (1_500_000, "1.5")]
        {
            assert_eq!(seconds(micros), text);
        }
    }

    #[test]
    fn a_sample_and_a_histogram_read_like_this() {
        let mut out = Exposition::default();
        out.sample(&TASKS, &["a", "b\"\\\n", "ready"], 3);
        let bounds = ["0.5".to_owned()];
        out.histogram(
            &HTTP_LATENCY,
            &["GET", "/"],
            &Buckets { bounds: &bounds, counts: &[2, 1], sum: "1.5" },
        );
        let golden = concat!(
            "punctual_tasks{namespace=\"a\",queue=\"b\\\"\\\\\\n\",state=\"ready\"} 3\n",
            "punctual_http_request_seconds_bucket{method=\"GET\",route=\"/\",le=\"0.5\"} 2\n",
            "punctual_http_request_seconds_bucket{method=\"GET\",route=\"/\",le=\"+Inf\"} 3\n",
            "punctual_http_request_seconds_sum{method=\"GET\",route=\"/\"} 1.5\n",
            "punctual_http_request_seconds_count{method=\"GET\",route=\"/\"} 3\n",
        );
        assert_eq!(out.done(), golden);
    }
}
