//! The actions on a schedule: pause, resume, run now, backfill, delete. Each asks first, and describes its effect.

use super::{
    form::rfc3339_of,
    shared::{LIST, MANAGE, address, call, missed, when},
};
use crate::{
    confirm::Confirm,
    context::Context,
    fault::Fault,
    form::Form,
    parts, texts,
    view::{Done, Page, View},
};
use axum::http::Method;
use maud::{Markup, html};
use punctual_protocol::{BackfillAnswer, Schedule, ScheduleRun};
use serde_json::{Map, Value, json};

pub(super) fn pages() -> Vec<Page> {
    vec![
        Page {
            path: "/console/schedules/{schedule}/pause",
            show: |context| Box::pin(ask(context, "pause")),
            act: Some(|context, form| Box::pin(act(context, "pause", form))),
        },
        Page {
            path: "/console/schedules/{schedule}/resume",
            show: |context| Box::pin(ask(context, "resume")),
            act: Some(|context, form| Box::pin(act(context, "resume", form))),
        },
        Page {
            path: "/console/schedules/{schedule}/run",
            show: |context| Box::pin(ask(context, "run")),
            act: Some(|context, form| Box::pin(act(context, "run", form))),
        },
        Page {
            path: "/console/schedules/{schedule}/backfill",
            show: |context| Box::pin(ask(context, "backfill")),
            act: Some(|context, form| Box::pin(act(context, "backfill", form))),
        },
        Page {
            path: "/console/schedules/{schedule}/delete",
            show: |context| Box::pin(ask(context, "delete")),
            act: Some(|context, form| Box::pin(act(context, "delete", form))),
        },
    ]
}

async fn ask(context: &Context, action: &str) -> Result<View, Fault> {
    let schedule: Schedule = context.api.get(&call(context, "")).await?;
    Ok(question(context, action, &schedule, &Form::default(), None))
}

fn question(
    context: &Context,
    action: &str,
    schedule: &Schedule,
    form: &Form,
    fault: Option<&Fault>,
) -> View {
    let (label, does, fields) = match action {
        "pause" => ("Pause", "Pause the schedule", pause_fields(context, form)),
        "resume" => ("Resume", "Resume the schedule", html! {}),
        "run" => ("Run now:", "Make one run now", html! {}),
        "backfill" => ("Backfill", "Make the runs", backfill_fields(context, form)),
        _ => ("Delete", "Delete the schedule", html! {}),
    };
    let title = format!("{label} {}?", schedule.name);
    let says = html! {
        p { (says(context, action, schedule)) }
        p { code { (when(schedule)) } " in " (schedule.time_zone) ", into the queue " strong { (schedule.task.queue) } }
    };
    let back = address(context, &schedule.name);
    Confirm { title: &title, says, fields, does, permission: MANAGE, is_dangerous: action == "delete", back }
        .with(context, fault)
}

fn says(context: &Context, action: &str, schedule: &Schedule) -> Markup {
    html! {
        @match action {
            "pause" => {
                "It no longer runs. "
                @if let Some(at) = schedule.next_run_at_ms { "The first run that is skipped is that of " (parts::time(context, at)) ". " }
                "Tasks that it has created stay."
            },
            "resume" => { "It resumes by its plan. Of the runs that it missed within the last " (texts::duration(schedule.missed_window_ms)) ": " strong { (missed(schedule.missed).0) } "." },
            "run" => "One task is created and is due at once, in addition to the planned runs. The overlap rule and a pause do not apply.",
            "backfill" => "Creates the runs of a past range as tasks: at most 10,000, at the given rate. A run that exists is not created twice.",
            _ => "The schedule is deleted and runs no more. Its runs that have not fired are cancelled. Its other tasks stay.",
        }
    }
}

fn time_field(id: &str, label: &str, help: &str, form: &Form) -> Markup {
    parts::field(
        id,
        label,
        Some(help),
        &html! { input id=(id) name=(id) type="datetime-local" step="1" value=(form.raw(id)); },
        None,
    )
}

fn pause_fields(context: &Context, form: &Form) -> Markup {
    html! {
        (parts::field("reason", "Why", Some("Shown wherever the pause is."), &parts::input("reason", form.raw("reason"), "the printer burns"), None))
        (time_field("until", "Until", &format!("In {}. Empty: until it is resumed.", context.zone.name), form))
    }
}

fn backfill_fields(context: &Context, form: &Form) -> Markup {
    let zone = format!("In {}.", context.zone.name);
    html! {
        div.fields {
            (time_field("from", "From", &zone, form))
            (time_field("to", "To, without it", &zone, form))
            (parts::field("rate", "Runs a second", None, &parts::input("rate", form.raw("rate"), "100"), None))
        }
    }
}

async fn act(context: &Context, action: &'static str, form: &Form) -> Result<Done, Fault> {
    let schedule: Schedule = context.api.get(&call(context, "")).await?;
    match send(context, action, form).await {
        Ok(said) if action == "delete" => Ok(Done::to(context.href(LIST, &[]), said)),
        Ok(said) => Ok(Done::to(address(context, &schedule.name), said)),
        Err(fault) if fault.is_sign_in() => Err(fault),
        Err(fault) => Ok(Done::Again(Box::new(question(context, action, &schedule, form, Some(&fault))))),
    }
}

async fn send(context: &Context, action: &str, form: &Form) -> Result<String, Fault> {
    let post =
        |body: Value| async move { context.api.post(&call(context, &format!("/{action}")), &body).await };
    Ok(match action {
        "pause" => {
            let mut body = Map::new();
            body.extend(form.get("reason").map(|reason| ("reason".to_owned(), json!(reason))));
            body.extend(
                rfc3339_of(context, form, "until", "Until")?
                    .map(|rfc3339| ("until".to_owned(), json!(rfc3339))),
            );
            post(Value::Object(body)).await?;
            "It is paused.".to_owned()
        }
        "resume" => {
            post(json!({})).await?;
            "It runs again.".to_owned()
        }
        "run" => {
            let run: ScheduleRun =
                context.api.send(Method::POST, &call(context, "/run"), None, None).await?.read()?;
            run.task_ref.map_or_else(
                || "One run is being made.".to_owned(),
                |task_ref| format!("One run was created: task {task_ref}."),
            )
        }
        "backfill" => {
            let needed = |name: &'static str, label: &'static str| {
                rfc3339_of(context, form, name, label)?
                    .ok_or_else(|| Fault::Invalid(format!("{label}: give a time.")))
            };
            let mut body = Map::from_iter([
                ("from".to_owned(), json!(needed("from", "From")?)),
                ("to".to_owned(), json!(needed("to", "To")?)),
            ]);
            body.extend(
                form.number::<u32>("rate", "Runs a second")?.map(|number| ("rate".to_owned(), json!(number))),
            );
            let made: BackfillAnswer = post(Value::Object(body)).await?.read()?;
            format!("The range has {}; missing ones are created.", texts::count(made.runs, "run", "runs"))
        }
        _ => {
            context.api.send(Method::DELETE, &call(context, ""), None, None).await?;
            format!("{} is deleted.", context.param("schedule"))
        }
    })
}
