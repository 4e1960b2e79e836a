//! Curves over time. A picture that is in the page, which scripts make into one that says what is under the pointer; and
//! the same numbers as a table. Draws what it is given, and never joins what was not measured.

use crate::{context::Context, texts};
use maud::{Markup, html};
use serde_json::json;

const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 120.0;

#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) label: &'static str,
    /// The class that colours it: see `console.css`.
    pub(crate) tone: &'static str,
    /// `None` if nothing was measured.
    pub(crate) values: Vec<Option<f64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    PerSecond,
    Count,
    Millis,
}

impl Unit {
    pub(crate) fn text(self, number: f64) -> String {
        match self {
            Self::PerSecond => format!("{}/s", texts::rate(number)),
            Self::Count => texts::number(texts::whole(number)),
            Self::Millis if number > 300_000.0 => "> 5 min".to_owned(),
            Self::Millis => texts::duration(texts::whole(number)),
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::PerSecond => "per_second",
            Self::Count => "count",
            Self::Millis => "ms",
        }
    }
}

/// `at_ms`: one for each value.
pub(crate) fn lines(
    context: &Context,
    id: &str,
    title: &str,
    at_ms: &[i64],
    unit: Unit,
    series: &[Series],
) -> Markup {
    let seconds: Vec<i64> = at_ms.iter().map(|number| number / 1_000).collect();
    let curves: Vec<_> = series
        .iter()
        .map(|series| json!({"label": series.label, "tone": series.tone, "values": series.values}))
        .collect();
    let data = json!({"x": seconds, "unit": unit.word(), "zone": context.zone.name, "series": curves});
    html! {
        figure.chart id={ "chart-" (id) } data-chart=(data.to_string()) {
            figcaption { span.title { (title) } span.legend {
                @for series in series {
                    span class={ "key tone-" (series.tone) } { (series.label) " " b { @match last(&series.values) { Some(value) => (unit.text(value)), None => "–" } } }
                }
            } }
            div.plot aria-hidden="true" { (picture(series)) }
            details id={ "numbers-" (id) } {
                summary { "Numbers" }
                div.scroll tabindex="0" role="region" aria-label={ (title) ", as a table" } { (table(context, title, at_ms, unit, series)) }
            }
        }
    }
}

/// The last that was measured.
fn last(values: &[Option<f64>]) -> Option<f64> {
    values.iter().rev().find_map(|value| *value)
}

fn table(context: &Context, title: &str, at_ms: &[i64], unit: Unit, series: &[Series]) -> Markup {
    html! {
        table.numbers {
            caption.hidden { (title) }
            thead { tr { th scope="col" { "From" } @for series in series { th.num scope="col" { (series.label) } } } }
            tbody {
                @for (nth, at) in at_ms.iter().enumerate().rev() {
                    tr {
                        th scope="row" { (context.zone.minute(*at)) }
                        @for series in series {
                            td.num { @match series.values.get(nth).copied().flatten() { Some(value) => (unit.text(value)), None => "–" } }
                        }
                    }
                }
            }
        }
    }
}

/// A picture for pages without scripts, and until they have run.
fn picture(series: &[Series]) -> Markup {
    let all = series.iter().flat_map(|series| series.values.iter().flatten());
    let top = all.copied().fold(0.0_f64, f64::max).max(1e-9);
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" {
            @for series in series {
                @for path in paths(&series.values, top) { polyline class={ "tone-" (series.tone) } points=(path) {} }
            }
        }
    }
}

/// One for each stretch without a gap.
fn paths(values: &[Option<f64>], top: f64) -> Vec<String> {
    let step = WIDTH / texts::lossy(i64::try_from(values.len().saturating_sub(1)).unwrap_or(1).max(1));
    let mut paths = vec![String::new()];
    for (nth, value) in values.iter().enumerate() {
        match (value, paths.last_mut()) {
            (Some(value), Some(path)) => {
                let x = texts::lossy(i64::try_from(nth).unwrap_or(0)) * step;
                let y = HEIGHT - 2.0 - value / top * (HEIGHT - 6.0);
                path.push_str(&format!("{x:.1},{y:.1} "));
            }
            _ => paths.push(String::new()),
        }
    }
    paths.retain(|path| !path.is_empty());
    paths
}

/// A small curve in a row.
pub(crate) fn spark(label: &str, tone: &'static str, values: Vec<Option<f64>>) -> Markup {
    let top = values.iter().flatten().copied().fold(0.0_f64, f64::max).max(1e-9);
    html! {
        svg.spark viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label=(label) {
            @for path in paths(&values, top) { polyline class={ "tone-" (tone) } points=(path) {} }
        }
    }
}

/// Draws the parts of a total: label, class, number. Nothing is drawn of a total that is 0.
pub(crate) fn shares(label: &str, parts: &[(&str, &str, i64)]) -> Markup {
    let whole: i64 = parts.iter().map(|part| part.2.max(0)).sum();
    let mut at = 0.0;
    let mut bars = Vec::new();
    for (name, tone, part) in parts.iter().filter(|part| part.2 > 0) {
        // One that is there is seen.
        let width = (texts::lossy(*part) / texts::lossy(whole.max(1)) * WIDTH).max(3.0);
        bars.push((*name, *tone, *part, at, width));
        at += width;
    }
    html! {
        @if whole > 0 {
            svg.shares viewBox={ "0 0 " (format!("{:.1}", at.max(1.0))) " 12" } preserveAspectRatio="none" role="img" aria-label=(label) {
                @for (name, tone, number, x, width) in bars {
                    rect class={ "fill-" (tone) } x=(format!("{x:.1}")) y="0" width=(format!("{width:.1}")) height="12" {
                        title { (name) ": " (texts::number(number)) }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_not_drawn_over() {
        let found = paths(&[Some(0.0), Some(1.0), None, Some(1.0)], 1.0);
        assert_eq!(found, ["0.0,118.0 200.0,4.0 ", "600.0,4.0 "]);
        assert!(paths(&[None, None], 1.0).is_empty());
    }

    #[test]
    fn what_is_nothing_draws_nothing_and_what_is_little_is_seen() {
        assert_eq!(shares("x", &[("a", "run", 0)]).into_string(), "");
        let drawn = shares("x", &[("a", "run", 1), ("b", "bad", 1_000_000)]).into_string();
        assert!(drawn.contains("width=\"3.0\""), "{drawn}");
    }
}
