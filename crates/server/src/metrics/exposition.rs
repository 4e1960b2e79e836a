//! The values of a scrape, before prometheus-client writes their text: Prometheus' own format, version 0.0.4, or
//! OpenMetrics 1.0. Knows no metric, and writes no text itself.

use super::{Kind, Metric};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _, MetricEncoder, NoLabelSet, prometheus_text, text},
    metrics::MetricType,
    registry::Registry,
};
use punctual_engine::Processing;
use std::fmt;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Format {
    #[default]
    Prometheus,
    OpenMetrics,
}

impl Format {
    /// The format that the caller requests in its `Accept`: Prometheus itself requests OpenMetrics first.
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
    families: Vec<Family>,
}

#[derive(Debug)]
struct Family {
    metric: &'static Metric,
    samples: Vec<(Vec<(&'static str, String)>, Sample)>,
}

#[derive(Debug)]
enum Sample {
    Number(Number),
    Buckets(Buckets),
    Processing(Processing),
}

/// A value of a counter or a gauge.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Natural(u64),
    Whole(i64),
    Real(f64),
}

/// A histogram at one instant, in seconds: up to which bound how many more than up to the one before, the last without bound.
#[derive(Debug)]
pub(super) struct Buckets {
    buckets: Vec<(f64, u64)>,
    sum: f64,
}

impl Buckets {
    /// `counts` has one more than `bounds_us`.
    pub(super) fn new(bounds_us: impl Iterator<Item = u64>, counts: &[u64], sum_us: u64) -> Self {
        let bounds = bounds_us.map(seconds).chain([f64::INFINITY]);
        Self { buckets: bounds.zip(counts.iter().copied()).collect(), sum: seconds(sum_us) }
    }
}

impl Exposition {
    /// Begins a metric; its samples follow.
    pub(super) fn begin(&mut self, metric: &'static Metric) {
        self.families.push(Family { metric, samples: Vec::new() });
    }

    /// A sample; `labels` are the values of the metric's labels, in their order.
    pub(super) fn sample(&mut self, metric: &Metric, labels: &[&str], value: impl Into<Number>) {
        assert_ne!(metric.kind, Kind::Histogram);
        self.add(metric, labels, Sample::Number(value.into()));
    }

    /// A metric with one sample and no labels.
    pub(super) fn single(&mut self, metric: &'static Metric, value: impl Into<Number>) {
        self.begin(metric);
        self.sample(metric, &[], value);
    }

    pub(super) fn histogram(&mut self, metric: &Metric, labels: &[&str], buckets: Buckets) {
        assert_eq!(metric.kind, Kind::Histogram);
        self.add(metric, labels, Sample::Buckets(buckets));
    }

    pub(super) fn processing(&mut self, metric: &Metric, labels: &[&str], processing: Processing) {
        assert_eq!(metric.kind, Kind::Histogram);
        self.add(metric, labels, Sample::Processing(processing));
    }

    fn add(&mut self, metric: &Metric, labels: &[&str], sample: Sample) {
        assert_eq!(metric.labels.len(), labels.len(), "{}", metric.name);
        let labels = metric.labels.iter().copied().zip(labels.iter().map(|label| (*label).to_owned()));
        if let Some(family) = self.families.last_mut() {
            assert_eq!(family.metric.name, metric.name, "a sample follows the beginning of its metric");
            family.samples.push((labels.collect(), sample));
        }
    }

    pub(super) fn write(self, format: Format) -> Result<String, fmt::Error> {
        let (mut registry, mut text) = (Registry::default(), String::new());
        registry.register_collector(Box::new(self));
        match format {
            Format::Prometheus => prometheus_text::encode(&mut text, &registry)?,
            Format::OpenMetrics => text::encode(&mut text, &registry)?,
        }
        Ok(text)
    }
}

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for Family { metric, samples } in &self.families {
            // Both formats add it where it belongs.
            let name = metric.name.strip_suffix("_total").unwrap_or(metric.name);
            let mut family = encoder.encode_descriptor(name, metric.help, None, metric.kind.of_client())?;
            for (labels, sample) in samples {
                sample.encode(metric.kind, family.encode_family(labels)?)?;
            }
        }
        Ok(())
    }
}

impl Sample {
    fn encode(&self, kind: Kind, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        match (self, kind) {
            (Self::Number(number), Kind::Counter) => match number {
                Number::Natural(natural) => encoder.encode_counter::<NoLabelSet, _, u64>(natural, None),
                Number::Real(number) => encoder.encode_counter::<NoLabelSet, _, u64>(number, None),
                // A counter does not go below zero.
                Number::Whole(number) => {
                    encoder.encode_counter::<NoLabelSet, _, u64>(&u64::try_from(*number).unwrap_or(0), None)
                }
            },
            (Self::Number(number), Kind::Gauge | Kind::Histogram) => match number {
                Number::Natural(natural) => encoder.encode_gauge(natural),
                Number::Whole(number) => encoder.encode_gauge(number),
                Number::Real(number) => encoder.encode_gauge(number),
            },
            (Self::Buckets(buckets), _) => {
                let count = buckets.buckets.iter().map(|bucket| bucket.1).sum();
                encoder.encode_histogram::<NoLabelSet>(buckets.sum, count, &buckets.buckets, None)
            }
            (Self::Processing(processing), _) => processing.encode(encoder),
        }
    }
}

impl Kind {
    const fn of_client(self) -> MetricType {
        match self {
            Self::Counter => MetricType::Counter,
            Self::Gauge => MetricType::Gauge,
            Self::Histogram => MetricType::Histogram,
        }
    }
}

impl From<u64> for Number {
    fn from(number: u64) -> Self {
        Self::Natural(number)
    }
}

impl From<u32> for Number {
    fn from(number: u32) -> Self {
        Self::Natural(number.into())
    }
}

impl From<usize> for Number {
    fn from(number: usize) -> Self {
        Self::Natural(u64::try_from(number).unwrap_or(u64::MAX))
    }
}

impl From<bool> for Number {
    fn from(flag: bool) -> Self {
        Self::Natural(flag.into())
    }
}

impl From<i64> for Number {
    fn from(number: i64) -> Self {
        Self::Whole(number)
    }
}

impl From<f64> for Number {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

/// Exact to the microsecond for longer than there are computers.
pub(super) const fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{HTTP_LATENCY, PROCESS_CPU, TASKS, TASKS_ACCEPTED};

    fn some() -> Exposition {
        let mut out = Exposition::default();
        out.begin(&TASKS);
        out.sample(&TASKS, &["a", "b\"\\\n", "ready"], -3_i64);
        out.single(&TASKS_ACCEPTED, 3_u64);
        out.single(&PROCESS_CPU, seconds(1_250_000));
        out.begin(&HTTP_LATENCY);
        out.histogram(
            &HTTP_LATENCY,
            &["GET", "/"],
            Buckets::new([250, 1_000_000].into_iter(), &[2, 0, 1], 1_500_000),
        );
        out
    }

    #[test]
    fn both_formats_read_like_this() {
        let text = some().write(Format::asked("text/plain;version=0.0.4")).unwrap();
        for line in [
            "punctual_tasks{namespace=\"a\",queue=\"b\\\"\\\\\\n\",state=\"ready\"} -3",
            "# TYPE punctual_tasks_accepted_total counter",
            "punctual_tasks_accepted_total 3",
            "punctual_process_cpu_seconds_total 1.25",
        ] {
            assert!(text.lines().any(|candidate| candidate == line), "{line}: {text}");
        }
        assert!(!text.contains("# EOF"));
        let asked = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
        let text = some().write(Format::asked(asked)).unwrap();
        for line in ["# TYPE punctual_tasks_accepted counter", "punctual_tasks_accepted_total 3"] {
            assert!(text.lines().any(|candidate| candidate == line), "{line}: {text}");
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
    }

    #[test]
    fn the_buckets_of_a_histogram_are_cumulative() {
        for (format, one) in [(Format::Prometheus, "le=\"1\""), (Format::OpenMetrics, "le=\"1.0\"")] {
            let text = some().write(format).unwrap();
            let of = |le: &str, count| {
                // The order of labels means nothing.
                let is_it = |line: &&str| {
                    line.starts_with("punctual_http_request_seconds_bucket{") && line.contains(le)
                };
                let line = text.lines().find(is_it).unwrap_or_else(|| panic!("{le}: {text}"));
                assert!(line.ends_with(&format!("}} {count}")), "{line}");
            };
            of("le=\"0.00025\"", 2);
            of(one, 2);
            of("le=\"+Inf\"", 3);
            for line in [
                "punctual_http_request_seconds_sum{method=\"GET\",route=\"/\"} 1.5",
                "punctual_http_request_seconds_count{method=\"GET\",route=\"/\"} 3",
            ] {
                assert!(text.lines().any(|candidate| candidate == line), "{line}: {text}");
            }
        }
    }
}
