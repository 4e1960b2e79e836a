//! The common code of the pages of schedules: addresses, calls and the words of settings. Must never draw a page.

use crate::{api::segment, context::Context, layout::under, texts};
use punctual_protocol::{Missed, Overlap, Schedule};

pub(super) const LIST: &str = "/console/schedules";
pub(super) const MANAGE: &str = "manage_schedules";

pub(super) fn address(context: &Context, name: &str) -> String {
    context.href(&under(LIST, name), &[])
}

pub(super) fn call(context: &Context, rest: &str) -> String {
    format!("/v1/schedules/{}{rest}", segment(context.param("schedule")))
}

/// The instants as requested.
pub(super) fn when(schedule: &Schedule) -> String {
    let mut said = schedule.cron.clone();
    said.extend(schedule.every_ms.map(|ms| format!("every {}", texts::duration(ms))));
    match schedule.at.as_slice() {
        [] => {}
        [one] => said.push(format!("at {}", texts::rfc3339(one.ms()))),
        many => said.push(format!("at {} instants", many.len())),
    }
    said.join(" · ")
}

/// The policies in words, and as the form sends them.
pub(super) const OVERLAPS: [(Overlap, &str, &str); 5] = [
    (Overlap::Allow, "runs beside it", "allow"),
    (Overlap::Skip, "is left out", "skip"),
    (Overlap::BufferOne, "one waits, others are left out", "buffer_one"),
    (Overlap::BufferAll, "all wait", "buffer_all"),
    (Overlap::CancelOther, "the old one is stopped", "cancel_other"),
];
pub(super) const MISSED: [(Missed, &str, &str); 3] = [
    (Missed::Latest, "the last one runs, once", "latest"),
    (Missed::Skip, "they are left out", "skip"),
    (Missed::All, "all of them run", "all"),
];

pub(super) fn overlap(overlap: Overlap) -> (&'static str, &'static str) {
    OVERLAPS.iter().find(|known| known.0 == overlap).map_or(("", ""), |known| (known.1, known.2))
}

pub(super) fn missed(missed: Missed) -> (&'static str, &'static str) {
    MISSED.iter().find(|known| known.0 == missed).map_or(("", ""), |known| (known.1, known.2))
}
