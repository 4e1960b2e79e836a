//! The last hour in curves: of the complete cluster, or of one queue.

use crate::{
    charts::{self, Series, Unit},
    context::Context,
    texts,
};
use maud::{Markup, html};
use punctual_protocol::StatsStep;

/// The steps without the last one, which is not over: its numbers would look like a fall.
pub(super) fn whole(steps: &[StatsStep]) -> &[StatsStep] {
    steps.split_last().map_or(&[], |pair| pair.1)
}

pub(super) fn as_float(number: u64) -> f64 {
    texts::lossy(i64::try_from(number).unwrap_or(i64::MAX))
}

pub(super) fn late(
    steps: &[StatsStep],
    label: &'static str,
    tone: &'static str,
    of: fn(&StatsStep) -> Option<i64>,
) -> Series {
    Series { label, tone, values: whole(steps).iter().map(|step| of(step).map(texts::lossy)).collect() }
}

pub(super) fn curves(context: &Context, steps: &[StatsStep], step_ms: i64) -> Markup {
    let at: Vec<i64> = whole(steps).iter().map(|step| step.at_ms).collect();
    let seconds = texts::lossy(step_ms.max(1)) / 1_000.0;
    let counted = |label, tone, of: fn(&StatsStep) -> u64, in_each: f64| {
        let values = whole(steps).iter().map(|step| Some(as_float(of(step)) / in_each)).collect();
        Series { label, tone, values }
    };
    html! {
        (charts::lines(context, "rates", "In and out, per second", &at, Unit::PerSecond, &[
            counted("inserted", "in", |step| step.inserted, seconds),
            counted("fired", "fired", |step| step.fired, seconds),
            counted("succeeded", "good", |step| step.succeeded, seconds),
        ]))
        (charts::lines(context, "lateness", "Lateness", &at, Unit::Millis, &[
            late(steps, "p50", "in", |step| step.lateness.p50_ms),
            late(steps, "p99", "fired", |step| step.lateness.p99_ms),
            late(steps, "max", "bad", |step| step.lateness.max_ms),
        ]))
        (charts::lines(context, "failures", "Failures, per minute", &at, Unit::Count, &[
            counted("retried", "warn", |step| step.retried, 1.0),
            counted("dead", "bad", |step| step.dead, 1.0),
            counted("cancelled", "off", |step| step.cancelled, 1.0),
        ]))
    }
}
