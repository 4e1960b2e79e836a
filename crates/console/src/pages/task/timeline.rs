//! The life of a task as a bar: each state as long as it lasted. Where the waiting dwarfs the rest, what came after the firing
//! is drawn once more, alone.

use crate::{context::Context, parts, texts};
use maud::{Markup, html};
use punctual_protocol::{State, Task};

const WIDTH: f64 = 1_000.0;
/// What is shorter is still seen.
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
    // From when it was first due and somebody had it.
    let worked_from =
        all.iter().find(|it| !matches!(it.state, State::Scheduled | State::Blocked)).map(|it| it.from_ms);
    let is_dwarfed = worked_from.is_some_and(|it| it > first.from_ms && (last.to_ms - it) * 8 < whole_ms);
    html! {
        section.panel #timeline {
            h2 { "Its life, to scale" }
            (bar(context, "Its whole life", &all))
            @if let Some(from) = worked_from.filter(|_| is_dwarfed) {
                h3 { "From its firing on" }
                @let rest: Vec<Stretch> = all.iter().filter(|it| it.from_ms >= from).map(|it| Stretch { ..*it }).collect();
                (bar(context, "From its firing on", &rest))
            }
            ul.states { @for (state, ms) in sums(&all) { li { (parts::state(state)) " " (texts::duration(ms)) } } }
        }
    }
}

fn stretches(context: &Context, task: &Task) -> Vec<Stretch> {
    let history = &task.history;
    let mut all = Vec::new();
    for (nth, it) in history.iter().enumerate() {
        let next_ms = history.get(nth + 1).map(|it| it.at_ms);
        let is_last = next_ms.is_none();
        if is_last && super::has_ended(it.to) {
            // An end has no length.
            all.push(Stretch { state: it.to, from_ms: it.at_ms, to_ms: it.at_ms, is_ahead: false });
            continue;
        }
        let to_ms = next_ms.unwrap_or_else(|| context.now_ms.max(it.at_ms));
        all.push(Stretch { state: it.to, from_ms: it.at_ms, to_ms, is_ahead: false });
    }
    let waits = matches!(task.state, State::Scheduled | State::Retrying | State::DispatchFailed);
    if let Some(last) = all.last().filter(|it| waits && task.execute_at_ms > it.to_ms) {
        let (state, from_ms) = (last.state, last.to_ms);
        all.push(Stretch { state, from_ms, to_ms: task.execute_at_ms, is_ahead: true });
    }
    all
}

fn sums(all: &[Stretch]) -> Vec<(State, i64)> {
    let mut sums: Vec<(State, i64)> = Vec::new();
    for it in all.iter().filter(|it| !it.is_ahead && it.to_ms > it.from_ms) {
        match sums.iter_mut().find(|sum| sum.0 == it.state) {
            Some(sum) => sum.1 += it.to_ms - it.from_ms,
            None => sums.push((it.state, it.to_ms - it.from_ms)),
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
            @for it in all {
                @let width = (x(it.to_ms) - x(it.from_ms)).max(LEAST);
                rect class={ "fill-" (texts::tone_of_state(texts::state(it.state))) } x=(format!("{:.1}", x(it.from_ms))) y="4"
                    width=(format!("{width:.1}")) height="18" opacity=(if it.is_ahead { "0.35" } else { "1" }) {
                    title { (texts::state(it.state)) @if it.is_ahead { ", until it is due" } ": " (texts::duration(it.to_ms - it.from_ms)) }
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
