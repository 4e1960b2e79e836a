//! The coming runs as a calendar: in the days of a zone, five weeks of them. It is drawn from the runs that the API
//! returns, and shows where they end.

use super::{Schedule, UpcomingRun};
use crate::{
    context::Context,
    parts,
    texts::{self, Zone},
};
use jiff::{ToSpan as _, civil::Date};
use maud::{Markup, html};
use std::collections::BTreeMap;

const WEEKS: usize = 5;
/// Times that a day names; the others are counted.
const SHOWN_OF_DAY: usize = 4;

/// The choice of the zone of the calendar. The address contains it.
pub(super) fn chooser(context: &Context, schedule: &Schedule, zone: &Zone) -> Markup {
    let mut known = vec![(schedule.time_zone.as_str(), format!("{} (its own)", schedule.time_zone))];
    if context.zone.name != schedule.time_zone {
        known.push((&context.zone.name, format!("{} (yours)", context.zone.name)));
    }
    let is_named = |known: &[(&str, String)], name: &str| known.iter().any(|pair| pair.0 == name);
    for name in ["UTC", &zone.name] {
        if !is_named(&known, name) {
            known.push((name, name.to_owned()));
        }
    }
    let options: Vec<(&str, &str)> = known.iter().map(|pair| (pair.0, pair.1.as_str())).collect();
    html! {
        form.filters #calendar-zone method="get" action=(context.path) data-filter {
            @if context.namespace != "default" { input type="hidden" name="ns" value=(context.namespace); }
            div { label for="zone" { "The calendar is in" } (parts::choice("zone", &options, &zone.name)) }
            button type="submit" { "Show" }
        }
    }
}

pub(super) fn month(context: &Context, zone: &Zone, runs: &[UpcomingRun]) -> Markup {
    let Some((first, last)) = runs.first().zip(runs.last()) else {
        return parts::panel(
            "Coming runs",
            &html! { p.dim #coming { "No run is planned: the schedule is paused, disabled, or over." } },
        );
    };
    let days = by_day(zone, runs);
    let Some(grid) =
        zone.date(context.now_ms).zip(zone.date(first.at_ms)).map(|(today, first)| grid(today, first))
    else {
        return html! {};
    };
    let is_beyond = |date: &Date| zone.date(last.at_ms).is_some_and(|this_date| *date > this_date);
    parts::panel(
        "Coming runs",
        &html! {
            ol.month #coming {
                @for date in &grid { @let runs = days.get(date).map_or(&[][..], Vec::as_slice);
                    li class=(if runs.is_empty() { "none" } else { "some" }) data-day=(date) {
                        span.day { (date.strftime("%a %-d %b")) }
                        @for at_ms in runs.iter().take(SHOWN_OF_DAY) { time datetime=(texts::rfc3339(*at_ms)) { (zone.minute(*at_ms)) } }
                        @if runs.len() > SHOWN_OF_DAY { span.more { "and " (texts::number((runs.len() - SHOWN_OF_DAY) as u64)) " more" } }
                        @if runs.is_empty() { @if is_beyond(date) && runs_go_on(context, last) { span.dim { "…" } } @else { span.dim aria-label="none" { "–" } } }
                    }
                }
            }
            p.dim { "In " (zone.name) ". The next " (texts::count(runs.len() as u64, "run", "runs")) ", until " (zone.second(last.at_ms)) "." }
        },
    )
}

/// True if there may be more runs than requested.
fn runs_go_on(context: &Context, last: &UpcomingRun) -> bool {
    last.at_ms > context.now_ms
}

fn by_day(zone: &Zone, runs: &[UpcomingRun]) -> BTreeMap<Date, Vec<i64>> {
    let mut days: BTreeMap<Date, Vec<i64>> = BTreeMap::new();
    for run in runs {
        if let Some(date) = zone.date(run.at_ms) {
            days.entry(date).or_default().push(run.at_ms);
        }
    }
    days
}

/// Complete weeks, from that of today; from that of the first run, if it is later than these.
fn grid(today: Date, first: Date) -> Vec<Date> {
    let monday = |date: Date| date.saturating_sub(i64::from(date.weekday().to_monday_zero_offset()).days());
    let from_today: Vec<Date> = monday(today).series(1.day()).take(7 * WEEKS).collect();
    match from_today.last() {
        Some(last) if first > *last => monday(first).series(1.day()).take(7 * WEEKS).collect(),
        _ => from_today,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;

    #[test]
    fn weeks_begin_on_monday_and_with_the_first_run_where_it_is_far() {
        let near = grid(date(2026, 11, 25), date(2026, 11, 30));
        assert_eq!((near.len(), near[0], near[34]), (35, date(2026, 11, 23), date(2026, 12, 27)));
        assert_eq!(grid(date(2026, 11, 25), date(2027, 6, 6))[0], date(2027, 5, 31));
    }
}
