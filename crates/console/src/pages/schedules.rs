//! Schedules: which there are, when each runs next and ran last, what became of its runs, and what can be done with it. When an
//! expression fires is the API's to say: nothing is computed here but where an instant is in a calendar.

mod act;
mod calendar;
mod form;
mod shared;

use crate::{
    context::Context,
    fault::Fault,
    layout::under,
    parts,
    texts::{self, Zone},
    view::{Page, View},
};
use maud::{Markup, html};
use punctual_protocol::{Page as Items, RunKind, RunOutcome, Schedule, ScheduleRun, UpcomingRun};
use shared::{LIST, MANAGE, address, call, missed, overlap, when};

const ROWS: &str = "100";
const COLUMNS: usize = 8;
/// The number of coming runs that are read for a calendar.
const COMING: &str = "500";

pub(super) fn pages() -> Vec<Page> {
    let mut pages = vec![
        Page { path: LIST, show: |context| Box::pin(list(context)), act: None },
        Page { path: "/console/schedules/{schedule}", show: |context| Box::pin(show(context)), act: None },
    ];
    // Before the page of a schedule that is called `new`, which can be reached by the API alone.
    pages.splice(1..1, form::pages());
    pages.extend(act::pages());
    pages
}

async fn list(context: &Context) -> Result<View, Fault> {
    let mut query = vec![("limit", ROWS)];
    query.extend(context.query("cursor").map(|query| ("cursor", query)));
    let page: Items<Schedule> = context.api.get_with("/v1/schedules", &query).await?;
    Ok(View::new(
        "Schedules",
        "Recurring tasks: next and last run, time zone, and what happens while the previous run is not over.",
    )
    .actions(parts::link_button(
        context,
        MANAGE,
        &context.href("/console/schedules/new", &[]),
        "New schedule",
        "primary",
    ))
    .live("schedules", table(context, &page)))
}

fn table(context: &Context, page: &Items<Schedule>) -> Markup {
    if page.items.is_empty() {
        return parts::empty(
            "There are no schedules yet.",
            &html! { "Make one " a href=(context.href("/console/schedules/new", &[])) { "here" } ", or with " code { "punctual schedule create digest --cron '0 9 * * MON-FRI' --queue mail" } },
        );
    }
    html! {
        div.scroll.list tabindex="0" role="region" aria-label="Schedules" { table.cards #schedules {
            caption.hidden { "Schedules" }
            thead { tr {
                th scope="col" { "Schedule" } th scope="col" { "State" } th scope="col" { "Next run" } th scope="col" { "Last run" }
                th scope="col" { "When" } th scope="col" { "Zone" } th scope="col" { "Over\u{ad}lap" } th scope="col" { "Task" }
            } }
            tbody data-rows {
                @for schedule in &page.items { (row(context, schedule)) }
                (parts::pager(context, page.next_cursor.as_deref(), COLUMNS, page.items.len()))
            }
        } }
    }
}

fn row(context: &Context, this_schedule: &Schedule) -> Markup {
    html! {
        tr data-row data-key=(this_schedule.name) data-schedule=(this_schedule.name) {
            th scope="row" { a href=(address(context, &this_schedule.name)) { (this_schedule.name) } }
            td data-label="State" { (state_of(this_schedule)) }
            td data-label="Next run" { (parts::time_or(context, this_schedule.next_run_at_ms, "none")) }
            td data-label="Last run" { (parts::time_or(context, this_schedule.last_run_at_ms, "never")) }
            td data-label="When" { code { (when(this_schedule)) } }
            td data-label="Zone" { (this_schedule.time_zone) }
            td data-label="Overlap" { (overlap(this_schedule.overlap).0) @if this_schedule.buffered > 0 { " " (parts::badge(&format!("{} wait", texts::number(this_schedule.buffered)), "warn")) } }
            td data-label="Task" { (parts::queue_link(context, &this_schedule.task.queue)) @if let Some(kind) = &this_schedule.task.kind { " · " (kind) } }
        }
    }
}

fn state_of(schedule: &Schedule) -> Markup {
    match (&schedule.pause, schedule.enabled, schedule.next_run_at_ms) {
        _ if schedule.set_aside.is_some() => parts::badge("set aside", "bad"),
        (Some(pause), ..) => parts::paused(&pause.by, pause.reason.as_deref()),
        (None, false, _) => parts::badge("disabled", "off"),
        (None, true, Some(_)) => parts::badge("active", "good"),
        (None, true, None) => parts::badge("over", "off"),
    }
}

async fn show(context: &Context) -> Result<View, Fault> {
    let schedule: Schedule = context.api.get(&call(context, "")).await?;
    let coming = context.api.get::<Items<UpcomingRun>>(&call(context, &format!("/next?n={COMING}"))).await;
    let mut query = vec![("limit", "50")];
    query.extend(context.query("cursor").map(|query| ("cursor", query)));
    let runs = context.api.get_with::<Items<ScheduleRun>>(&call(context, "/runs"), &query).await;
    let zone = Zone::named(context.query("zone").unwrap_or(&schedule.time_zone));
    let view = View::new(
        schedule.name.clone(),
        "The next runs in a calendar, the results of past runs, and the task it creates.",
    )
    .under("Schedules", context.href(LIST, &[]))
    .live_actions(actions(context, &schedule))
    .live("state", state(context, &schedule))
    .part(calendar::chooser(context, &schedule, &zone))
    .live(
        "calendar",
        match &coming {
            Ok(coming) => calendar::month(context, &zone, &coming.items),
            Err(fault) => parts::missing(fault),
        },
    )
    .live(
        "runs",
        match &runs {
            Ok(runs) => history(context, runs),
            Err(fault) => parts::missing(fault),
        },
    );
    Ok(view.part(task(context, &schedule)))
}

fn actions(context: &Context, schedule: &Schedule) -> Markup {
    let to = |rest: &str| context.href(&format!("{}/{rest}", under(LIST, &schedule.name)), &[]);
    html! {
        @if schedule.pause.is_some() || schedule.set_aside.is_some() { (parts::button(context, MANAGE, &to("resume"), "Resume", "primary")) }
        @else { (parts::button(context, MANAGE, &to("pause"), "Pause", "")) }
        (parts::button(context, MANAGE, &to("run"), "Run now", ""))
        (parts::link_button(context, MANAGE, &to("change"), "Change", ""))
        (parts::button(context, MANAGE, &to("backfill"), "Backfill", ""))
        (parts::button(context, MANAGE, &to("delete"), "Delete", "danger"))
    }
}

fn state(context: &Context, schedule: &Schedule) -> Markup {
    html! {
        @if let Some(set_aside) = &schedule.set_aside { (parts::set_aside(context, set_aside)) }
        @if let Some(pause) = &schedule.pause {
            div.note.warn #paused { strong { "Paused" } " by " (pause.by) " " (parts::ago(context, pause.at_ms))
                @if let Some(reason) = &pause.reason { ": " (reason) } ". Nothing of it runs"
                @if let Some(at) = pause.until_ms { " until " (parts::time(context, at)) } "." }
        }
        section.panel #state {
            @if let Some(text) = &schedule.description { p.why { (text) } }
            dl.facts {
                (parts::fact("State", state_of(schedule)))
                (parts::fact("Next run", parts::time_or(context, schedule.next_run_at_ms, "none")))
                (parts::fact("Last run", parts::time_or(context, schedule.last_run_at_ms, "never")))
                (parts::fact("Runs made", html! { (texts::number(schedule.runs)) @if let Some(most) = schedule.max_runs { " of at most " (texts::number(most)) } }))
                (parts::fact("When", html! { code { (when(schedule)) } }))
                (parts::fact("Zone", html! { (schedule.time_zone) }))
                @if schedule.jitter_ms > 0 { (parts::fact("Later by up to", texts::duration(schedule.jitter_ms))) }
                @if let Some(at) = schedule.start_at { (parts::fact("From", parts::time(context, at.ms()))) }
                @if let Some(at) = schedule.end_at { (parts::fact("Until", parts::time(context, at.ms()))) }
                @if !schedule.exclude.is_empty() { (parts::fact("But not", schedule.exclude.join(", "))) }
                (parts::fact("Overlap", html! { (overlap(schedule.overlap).0) @if schedule.buffered > 0 { " · " (texts::number(schedule.buffered)) " wait" } }))
                (parts::fact("What was missed", html! { (missed(schedule.missed).0) ", of the last " (texts::duration(schedule.missed_window_ms)) }))
                @if let Some(owner) = &schedule.owner { (parts::fact("Owner", html! { (owner) })) }
                (parts::fact("Revision", html! { (schedule.revision) ", by " (schedule.updated_by) " " (parts::ago(context, schedule.updated_at_ms)) }))
            }
        }
    }
}

const fn outcome(run_outcome: RunOutcome) -> (&'static str, &'static str) {
    match run_outcome {
        RunOutcome::Created => ("made", "good"),
        RunOutcome::Skipped => ("left out", "warn"),
        RunOutcome::Buffered => ("waits", "wait"),
        RunOutcome::Missed => ("missed", "bad"),
        RunOutcome::Cancelled => ("taken back", "off"),
    }
}

const fn kind(kind: RunKind) -> &'static str {
    match kind {
        RunKind::Planned => "by plan",
        RunKind::Manual => "by hand",
        RunKind::Backfill => "backfill",
    }
}

fn history(context: &Context, runs: &Items<ScheduleRun>) -> Markup {
    parts::panel(
        "What became of its runs",
        &html! {
            @if runs.items.is_empty() { p.dim { "It has not run yet." } }
            @else { div.scroll tabindex="0" role="region" aria-label="Runs" { table.cards #runs {
                caption.hidden { "Runs" }
                thead { tr {
                    th scope="col" { "Instant" } th scope="col" { "What became of it" } th scope="col" { "Task" }
                    th scope="col" { "Due" } th scope="col" { "Asked for" } th.num scope="col" { "Run" } th scope="col" { "Why" }
                } }
                tbody data-rows {
                    @for run in &runs.items { @let (word, tone) = outcome(run.outcome); tr data-row data-key={ (run.at_ms) "-" (kind(run.kind)) } data-outcome=(word) {
                        th scope="row" { (parts::time(context, run.at_ms)) }
                        td data-label="What became of it" { (parts::badge(word, tone)) }
                        td data-label="Task" { @match &run.task_ref { Some(text) => (parts::task_link(context, text)), None => (parts::dash()) } }
                        td data-label="Due" { (parts::ago(context, run.execute_at_ms)) }
                        td data-label="Asked for" { (kind(run.kind)) }
                        td.num data-label="Run" { @if run.run > 0 { (texts::number(run.run)) } @else { (parts::dash()) } }
                        td.wrap data-label="Why" { (parts::text_or_dash(run.reason.as_deref())) }
                    } }
                    (parts::pager(context, runs.next_cursor.as_deref(), 7, runs.items.len()))
                }
            } } }
        },
    )
}

/// The task of each run.
fn task(context: &Context, schedule: &Schedule) -> Markup {
    let labels: Vec<String> =
        schedule.task.labels.iter().map(|label| format!("{}={}", label.0, label.1)).collect();
    let tasks = context.href("/console/tasks", &[("label", &format!("schedule={}", schedule.name))]);
    parts::panel_with(
        "What each run makes",
        &html! { a.button.small href=(tasks) { "Its tasks" } },
        &html! {
            dl.facts {
                (parts::fact("Queue", parts::queue_link(context, &schedule.task.queue)))
                (parts::fact("Kind", html! { (schedule.task.kind.as_deref().unwrap_or("default")) }))
                @if let Some(priority) = schedule.task.priority { (parts::fact("Priority", html! { (priority) " of 5" })) }
                @if let Some(max_attempts) = schedule.task.max_attempts { (parts::fact("Attempts", html! { (max_attempts) })) }
                @if let Some(timeout_ms) = schedule.task.timeout_ms { (parts::fact("Longest attempt", texts::duration(timeout_ms))) }
                @if !labels.is_empty() { (parts::fact("Labels", labels.join(", "))) }
            }
            @match (&schedule.task.payload, &schedule.task.payload_base64) {
                (Some(json), _) => (crate::json::json(json.get())),
                (_, Some(bytes)) => (parts::hex(&bytes.0)),
                (None, None) => p.dim { "Without a payload." },
            }
        },
    )
}
