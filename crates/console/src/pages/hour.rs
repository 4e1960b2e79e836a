//! The last hour in curves: of the whole cluster, or of one queue.

use crate::{
    charts::{self, Series, Unit},
    context::Context,
    texts,
};
use maud::{Markup, html};
use punctual_protocol::StatsStep;

/// The last step is not over: its numbers would look like a fall.
pub(super) fn whole(steps: &[StatsStep]) -> &[StatsStep] {
    steps.split_last().map_or(&[], |it| it.1)
}

pub(super) fn as_float(it: u64) -> f64 {
    texts::lossy(i64::try_from(it).unwrap_or(i64::MAX))
}

pub(super) fn late(
    steps: &[StatsStep],
    label: &'static str,
    tone: &'static str,
    of: fn(&StatsStep) -> Option<i64>,
) -> Series {
    Series { label, tone, values: whole(steps).iter().map(|it| of(it).map(texts::lossy)).collect() }
}

pub(super) fn curves(context: &Context, steps: &[StatsStep], step_ms: i64) -> Markup {
    let at: Vec<i64> = whole(steps).iter().map(|it| it.at_ms).collect();
    let seconds = texts::lossy(step_ms.max(1)) / 1_000.0;
    let counted = |label, tone, of: fn(&StatsStep) -> u64, in_each: f64| {
        let values = whole(steps).iter().map(|it| Some(as_float(of(it)) / in_each)).collect();
        Series { label, tone, values }
    };
    html! {
        (charts::lines(context, "rates", "In and out, per second", &at, Unit::PerSecond, &[
            counted("inserted", "in", |it| it.inserted, seconds),
            counted("fired", "fired", |it| it.fired, seconds),
            counted("succeeded", "good", |it| it.succeeded, seconds),
        ]))
        (charts::lines(context, "lateness", "Lateness", &at, Unit::Millis, &[
            late(steps, "p50", "in", |it| it.lateness.p50_ms),
            late(steps, "p99", "fired", |it| it.lateness.p99_ms),
            late(steps, "max", "bad", |it| it.lateness.max_ms),
        ]))
        (charts::lines(context, "failures", "Failures, per minute", &at, Unit::Count, &[
            counted("retried", "warn", |it| it.retried, 1.0),
            counted("dead", "bad", |it| it.dead, 1.0),
            counted("cancelled", "off", |it| it.cancelled, 1.0),
        ]))
    }
}
