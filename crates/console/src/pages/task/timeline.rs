//! The life of a task as a bar: each state as long as it lasted. Where the waiting dwarfs the rest, what came after the firing
//! is drawn once more, alone.

use crate::{context::Context, parts, texts};
use maud::{Markup, html};
use punctual_protocol::{State, Task};

const WIDTH: f64 = 1_000.0;
/// The minimum width of a visible piece.
const LEAST: f64 = 3.0;

struct Stretch {
    state: State,
    from_ms: i64,
    to_ms: i64,
    /// It has not come yet.
    is_ahead: bool,
}

pub(super) fn drawn(context: &Context, task: &Task) -> Markup {
    let all = stretches(context, task);
    let (Some(first), Some(last)) = (all.first(), all.last()) else { return html! {} };
    let whole_ms = (last.to_ms - first.from_ms).max(1);
    // From when it was first due and an executor had it.
    let worked_from = all
        .iter()
        .find(|stretch| !matches!(stretch.state, State::Scheduled | State::Blocked))
        .map(|stretch| stretch.from_ms);
    let is_dwarfed = worked_from
        .is_some_and(|worked_from| worked_from > first.from_ms && (last.to_ms - worked_from) * 8 < whole_ms);
    html! {
        section.panel #timeline {
            h2 { "Its life, to scale" }
            (bar(context, "Its whole life", &all))
            @if let Some(from) = worked_from.filter(|_| is_dwarfed) {
                h3 { "From its firing on" }
                @let rest: Vec<Stretch> = all.iter().filter(|stretch| stretch.from_ms >= from).map(|stretch| Stretch { ..*stretch }).collect();
                (bar(context, "From its firing on", &rest))
            }
            ul.states { @for (state, ms) in sums(&all) { li { (parts::state(state)) " " (texts::duration(ms)) } } }
        }
    }
}

fn stretches(context: &Context, task: &Task) -> Vec<Stretch> {
    let history = &task.history;
    let mut all = Vec::new();
    for (nth, entry) in history.iter().enumerate() {
        let next_ms = history.get(nth + 1).map(|history_entry| history_entry.at_ms);
        let is_last = next_ms.is_none();
        if is_last && texts::has_ended(entry.to) {
            // An end has no length.
            all.push(Stretch { state: entry.to, from_ms: entry.at_ms, to_ms: entry.at_ms, is_ahead: false });
            continue;
        }
        let to_ms = next_ms.unwrap_or_else(|| context.now_ms.max(entry.at_ms));
        all.push(Stretch { state: entry.to, from_ms: entry.at_ms, to_ms, is_ahead: false });
    }
    let waits = matches!(task.state, State::Scheduled | State::Retrying | State::DispatchFailed);
    if let Some(last) = all.last().filter(|stretch| waits && task.execute_at_ms > stretch.to_ms) {
        let (state, from_ms) = (last.state, last.to_ms);
        all.push(Stretch { state, from_ms, to_ms: task.execute_at_ms, is_ahead: true });
    }
    all
}

fn sums(all: &[Stretch]) -> Vec<(State, i64)> {
    let mut sums: Vec<(State, i64)> = Vec::new();
    for stretch in all.iter().filter(|stretch| !stretch.is_ahead && stretch.to_ms > stretch.from_ms) {
        match sums.iter_mut().find(|sum| sum.0 == stretch.state) {
            Some(sum) => sum.1 += stretch.to_ms - stretch.from_ms,
            None => sums.push((stretch.state, stretch.to_ms - stretch.from_ms)),
        }
    }
    sums
}

fn bar(context: &Context, label: &str, all: &[Stretch]) -> Markup {
    let (Some(first), Some(last)) = (all.first(), all.last()) else { return html! {} };
    let (from, to) = (first.from_ms, last.to_ms.max(first.from_ms + 1));
    let x = |ms: i64| texts::lossy(ms - from) / texts::lossy(to - from) * (WIDTH - LEAST);
    html! {
        svg.timeline viewBox={ "0 0 " (WIDTH) " 26" } preserveAspectRatio="none" role="img" aria-label=(label) {
            @for stretch in all {
                @let width = (x(stretch.to_ms) - x(stretch.from_ms)).max(LEAST);
                rect class={ "fill-" (texts::tone_of_state(texts::state(stretch.state))) } x=(format!("{:.1}", x(stretch.from_ms))) y="4"
                    width=(format!("{width:.1}")) height="18" opacity=(if stretch.is_ahead { "0.35" } else { "1" }) {
                    title { (texts::state(stretch.state)) @if stretch.is_ahead { ", until it is due" } ": " (texts::duration(stretch.to_ms - stretch.from_ms)) }
                }
            }
            @if last.is_ahead {
                @let now = x(last.from_ms);
                line.axis x1=(format!("{now:.1}")) x2=(format!("{now:.1}")) y1="0" y2="26" {}
            }
        }
        div.ends {
            span { (context.zone.exact(from)) }
            @if last.is_ahead { span { "the line is now" } }
            span { (context.zone.exact(to)) }
        }
    }
}
