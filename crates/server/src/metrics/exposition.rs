//! Writes the Prometheus text format, version 0.0.4, or OpenMetrics 1.0. Knows no metric.

use super::{Kind, Metric};
use std::fmt::{Display, Write as _};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Format {
    #[default]
    Prometheus,
    OpenMetrics,
}

impl Format {
    /// What the caller asks for, by its `Accept`: Prometheus itself asks for OpenMetrics first.
    pub(super) fn asked(accept: &str) -> Self {
        if accept.contains("application/openmetrics-text") { Self::OpenMetrics } else { Self::Prometheus }
    }

    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Exposition {
    text: String,
    format: Format,
}

/// What a bucket shows an example of.
#[derive(Debug)]
pub(super) struct Example<'a> {
    pub(super) trace_id: &'a str,
    /// In seconds.
    pub(super) value: String,
    /// In seconds since the epoch.
    pub(super) at: String,
}

/// A histogram at one instant: how many were within each bound and above the one before, the last without bound.
#[derive(Debug)]
pub(super) struct Buckets<'a> {
    /// Bounds as text, in seconds; one fewer than `counts`.
    pub(super) bounds: &'a [String],
    pub(super) counts: &'a [u64],
    /// In seconds.
    pub(super) sum: &'a str,
    /// In the order of `counts`; those that are missing have none.
    pub(super) examples: &'a [Option<Example<'a>>],
}

impl Exposition {
    pub(super) const fn new(format: Format) -> Self {
        Self { text: String::new(), format }
    }

    /// Begins a metric; its samples follow.
    pub(super) fn begin(&mut self, metric: &Metric) {
        let (mut name, kind) = (metric.name, metric.kind.word());
        if self.format == Format::OpenMetrics && metric.kind == Kind::Counter {
            // There `_total` belongs to the sample.
            name = name.strip_suffix("_total").unwrap_or(name);
        }
        let _ = writeln!(self.text, "# HELP {name} {}\n# TYPE {name} {kind}", metric.help);
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
        for (nth, (bound, more)) in bounds.zip(buckets.counts).enumerate() {
            count += more;
            match buckets.examples.get(nth).and_then(Option::as_ref) {
                Some(example) if self.format == Format::OpenMetrics => {
                    let Example { trace_id, value, at } = example;
                    let shown = format!("{count} # {{trace_id=\"{}\"}} {value} {at}", escape(trace_id));
                    self.line(&bucket, metric, labels, Some(bound), shown);
                }
                _ => self.line(&bucket, metric, labels, Some(bound), count),
            }
        }
        self.line(&format!("{}_sum", metric.name), metric, labels, None, buckets.sum);
        self.line(&format!("{}_count", metric.name), metric, labels, None, count);
    }

    fn line(&mut self, name: &str, metric: &Metric, labels: &[&str], le: Option<&str>, value: impl Display) {
        self.text.push_str(name);
        let pairs = metric.labels.iter().copied().zip(labels.iter().copied());
        let mut open = '{';
        for (label, value) in pairs.chain(le.map(|it| ("le", it))) {
            let _ = write!(self.text, "{open}{label}=\"{}\"", escape(value));
            open = ',';
        }
        let close = if open == ',' { "}" } else { "" };
        let _ = writeln!(self.text, "{close} {value}");
    }

    pub(super) fn done(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
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
    use crate::metrics::{HTTP_LATENCY, TASKS, TASKS_ACCEPTED};

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
            &Buckets { bounds: &bounds, counts: &[2, 1], sum: "1.5", examples: &[] },
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

    #[test]
    fn openmetrics_has_counters_by_their_family_examples_and_an_end() {
        assert_eq!(Format::asked("text/plain;version=0.0.4"), Format::Prometheus);
        let asked = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
        let mut out = Exposition::new(Format::asked(asked));
        out.single(&TASKS_ACCEPTED, 3);
        let example = Example { trace_id: "0af7", value: "0.4".to_owned(), at: "1.5".to_owned() };
        let (bounds, examples) = (["0.5".to_owned()], [Some(example), None]);
        let buckets = Buckets { bounds: &bounds, counts: &[2, 1], sum: "1.5", examples: &examples };
        out.histogram(&HTTP_LATENCY, &["GET", "/"], &buckets);
        let text = out.done();
        for line in [
            "# TYPE punctual_tasks_accepted counter",
            "punctual_tasks_accepted_total 3",
            "punctual_http_request_seconds_bucket{method=\"GET\",route=\"/\",le=\"0.5\"} 2 # {trace_id=\"0af7\"} 0.4 1.5",
            "punctual_http_request_seconds_bucket{method=\"GET\",route=\"/\",le=\"+Inf\"} 3",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}: {text}");
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
