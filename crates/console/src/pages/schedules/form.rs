//! The form of a schedule, new or changed, with its next ten runs, which the API computes of what is in it: while one types, where
//! scripts run, and by a button where they do not. What the API refuses is at the field that it names. What the form has no field
//! for stays as it is.

use super::shared::{LIST, MANAGE, MISSED, OVERLAPS, address, call, missed, overlap};
use crate::{
    context::Context,
    fault::Fault,
    form::{self, Form},
    parts,
    texts::{self, Zone},
    view::{Done, Page, View},
};
use axum::http::Method;
use maud::{Markup, html};
use punctual_protocol::{Page as Items, Schedule, UpcomingRun};
use serde_json::{Map, Value, json};

const NEW: &str = "/console/schedules/new";
/// The placeholder for a queue that is not typed yet: the queue does not affect the instants.
const ANY_QUEUE: &str = "preview";

pub(super) fn pages() -> Vec<Page> {
    vec![
        Page {
            path: NEW,
            show: |context| Box::pin(new(context)),
            act: Some(|context, form| Box::pin(create(context, form))),
        },
        Page {
            path: "/console/schedules/{schedule}/change",
            show: |context| Box::pin(change(context)),
            act: Some(|context, form| Box::pin(store(context, form))),
        },
    ]
}

/// Name, label, what to know of it, what is where it is empty.
const FIELDS: [(&str, &str, &str, &str); 22] = [
    ("name", "Name", "A-Z a-z 0-9 . _ : -", "digest"),
    ("description", "What it is for", "", ""),
    ("owner", "Who looks after it", "", ""),
    (
        "cron",
        "Cron expressions",
        "One per line: minute hour day month weekday; with six fields the first is seconds. L, W, # and @daily are supported.",
        "0 9 * * MON-FRI",
    ),
    ("every", "Every", "Such as 30 s, 15 min, 2 h.", "15 min"),
    ("at", "At these instants", "One a line.", "2026-12-24T18:00:00Z"),
    ("time_zone", "Zone", "Time zone of cron expressions and days.", "UTC"),
    ("exclude", "But not", "One per line: 2026-12-24, 2026-12-24/2026-12-26, or a cron expression.", ""),
    ("start_at", "Not before", "", ""),
    ("end_at", "Not after", "", ""),
    ("max_runs", "At most so many runs", "", "no limit"),
    ("jitter", "Later by up to", "A fixed offset per schedule: not all runs start at the full hour.", "0"),
    ("overlap", "If the previous run is not over, a run", "", ""),
    ("missed", "Of runs that were missed", "Because all engines were down, or it was paused.", ""),
    ("missed_window", "but none older than", "", "1 d"),
    ("queue", "Queue", "", "mail"),
    ("kind", "Kind", "", "default"),
    ("priority", "Priority", "1 (first) to 5 (last).", "3"),
    ("max_attempts", "Attempts", "", "as the queue says"),
    ("timeout", "Longest attempt", "", "as the queue says"),
    ("labels", "Labels", "One a line: key=value.", ""),
    (
        "payload",
        "Payload, JSON",
        "{\"$expr\": \"scheduled_at\"} is replaced by the value of the expression.",
        "",
    ),
];
const LINES: [&str; 4] = ["cron", "at", "exclude", "labels"];

fn label(name: &str) -> &'static str {
    FIELDS.iter().find(|field| field.0 == name).map_or("", |field| field.1)
}

/// The field's pointer in the API's faults.
fn pointer(name: &str) -> String {
    match name {
        "every" | "jitter" | "missed_window" => format!("/{name}_ms"),
        "timeout" => "/task/timeout_ms".to_owned(),
        "queue" | "kind" | "priority" | "max_attempts" | "labels" | "payload" => format!("/task/{name}"),
        _ => format!("/{name}"),
    }
}

/// The result of the preview of runs.
enum Coming {
    Runs(Vec<UpcomingRun>),
    Fault(Fault),
}

async fn new(context: &Context) -> Result<View, Fault> {
    let form = Form::of(vec![
        ("enabled".to_owned(), "true".to_owned()),
        ("cron".to_owned(), "0 9 * * MON-FRI".to_owned()),
        ("time_zone".to_owned(), context.zone.name.clone()),
        ("queue".to_owned(), context.query("queue").unwrap_or_default().to_owned()),
    ]);
    let coming = preview(context, &form).await?;
    Ok(view(context, &form, None, None, &coming))
}

async fn change(context: &Context) -> Result<View, Fault> {
    let schedule: Schedule = context.api.get(&call(context, "")).await?;
    let form = standing(context, &schedule);
    let coming = preview(context, &form).await?;
    Ok(view(context, &form, Some(schedule.revision), None, &coming))
}

/// The form's fields of the stored schedule.
fn standing(context: &Context, schedule: &Schedule) -> Form {
    let number = |max_runs: Option<u64>| max_runs.map_or_else(String::new, |max_runs| max_runs.to_string());
    let span = |every_ms: Option<i64>| every_ms.map_or_else(String::new, texts::duration_for_input);
    let time =
        |at: Option<punctual_protocol::At>| at.map_or_else(String::new, |at| context.zone.for_input(at.ms()));
    let text = |description: &Option<String>| description.clone().unwrap_or_default();
    let instants: Vec<String> = schedule.at.iter().map(|at| texts::rfc3339(at.ms())).collect();
    let labels: Vec<String> =
        schedule.task.labels.iter().map(|label| format!("{}={}", label.0, label.1)).collect();
    let fields = [
        ("name", schedule.name.clone()),
        ("description", text(&schedule.description)),
        ("owner", text(&schedule.owner)),
        ("enabled", if schedule.enabled { "true".to_owned() } else { String::new() }),
        ("cron", schedule.cron.join("\n")),
        ("every", span(schedule.every_ms)),
        ("at", instants.join("\n")),
        ("time_zone", schedule.time_zone.clone()),
        ("exclude", schedule.exclude.join("\n")),
        ("start_at", time(schedule.start_at)),
        ("end_at", time(schedule.end_at)),
        ("max_runs", number(schedule.max_runs)),
        (
            "jitter",
            if schedule.jitter_ms == 0 {
                String::new()
            } else {
                texts::duration_for_input(schedule.jitter_ms)
            },
        ),
        ("overlap", overlap(schedule.overlap).1.to_owned()),
        ("missed", missed(schedule.missed).1.to_owned()),
        ("missed_window", texts::duration_for_input(schedule.missed_window_ms)),
        ("queue", schedule.task.queue.clone()),
        ("kind", text(&schedule.task.kind)),
        ("priority", number(schedule.task.priority.map(u64::from))),
        ("max_attempts", number(schedule.task.max_attempts.map(u64::from))),
        ("timeout", span(schedule.task.timeout_ms)),
        ("labels", labels.join("\n")),
        ("payload", schedule.task.payload.as_ref().map_or_else(String::new, |json| json.get().to_owned())),
    ];
    Form::of(fields.map(|field| (field.0.to_owned(), field.1)).into())
}

/// `revision`: of the one that is changed.
fn view(
    context: &Context,
    form: &Form,
    revision: Option<i64>,
    fault: Option<&Fault>,
    coming: &Coming,
) -> View {
    let lacks = context.lacks(MANAGE);
    let (title, back) = match revision {
        None => ("New schedule".to_owned(), context.href(LIST, &[])),
        Some(_) => {
            (format!("Change {}", context.param("schedule")), address(context, context.param("schedule")))
        }
    };
    // A fault of what is only looked at is at its field, too.
    let at_fields = match (fault, coming) {
        (None, Coming::Fault(fault)) => Some(fault),
        (fault, _) => fault,
    };
    let group = |title: &str, names: &[&str]| group(context, title, form, at_fields, names);
    let does = if revision.is_none() { "Make the schedule" } else { "Change the schedule" };
    View::new(title, "Cron expressions, an interval and instants combine. The next ten runs are computed while you type. Nothing is stored before you save.")
        .under("Schedules", context.href(LIST, &[]))
        .part(html! {
            form.settings #schedule-form method="post" action=(context.here()) {
                @if let Some(fault) = fault { (parts::faults(fault)) }
                input type="hidden" name=(form::TOKEN) value=(context.form_token);
                @if let Some(revision) = revision { input type="hidden" name="revision" value=(revision); }
                (group("When", &["cron", "every", "at", "time_zone", "exclude", "start_at", "end_at", "max_runs", "jitter"]))
                (next_runs(context, form, coming))
                (group("What each run makes", &["queue", "kind", "priority", "max_attempts", "timeout", "labels", "payload"]))
                (group("If something is in its way", &["overlap", "missed", "missed_window"]))
                fieldset { legend { "The schedule" }
                    div.fields {
                        @if revision.is_none() { (one_field(context, "name", form, at_fields)) }
                        (one_field(context, "description", form, at_fields))
                        (one_field(context, "owner", form, at_fields))
                    }
                    label.check { input #enabled type="checkbox" name="enabled" value="true" checked[form.has("enabled")]; "enabled" }
                }
                div.buttons {
                    @match &lacks { None => button #save.primary type="submit" { (does) }, Some(why) => (parts::dead_button(does, why)) }
                    a.button href=(back) { "Leave it" }
                }
                @if let Some(why) = &lacks { p.hint { (why) } }
            }
        })
}

fn group(context: &Context, title: &str, form: &Form, fault: Option<&Fault>, names: &[&str]) -> Markup {
    html! { fieldset { legend { (title) } div.fields { @for name in names { (one_field(context, name, form, fault)) } } } }
}

fn one_field(context: &Context, name: &str, form: &Form, fault: Option<&Fault>) -> Markup {
    let Some((name, label, help, empty)) = FIELDS.iter().find(|field| field.0 == name) else {
        return html! {};
    };
    let value = form.raw(name);
    let zone = format!("In {}.", context.zone.name);
    let input = match *name {
        "overlap" => parts::choice(name, &OVERLAPS.map(|overlap| (overlap.2, overlap.1)), value),
        "missed" => parts::choice(name, &MISSED.map(|row| (row.2, row.1)), value),
        "start_at" | "end_at" => {
            html! { input id=(name) name=(name) type="datetime-local" step="1" value=(value); }
        }
        "payload" => html! { textarea #payload name="payload" rows="5" spellcheck="false" { "\n" (value) } },
        _ if LINES.contains(name) => {
            html! { textarea.lines id=(name) name=(name) rows="2" spellcheck="false" placeholder=(empty) { "\n" (value) } }
        }
        "time_zone" => html! {
            input #time_zone name="time_zone" value=(value) placeholder=(empty) list="zones" autocomplete="off" spellcheck="false";
            datalist #zones { @for zone_name in texts::zone_names() { option value=(zone_name) {} } }
        },
        _ => parts::input(name, value, empty),
    };
    let help = if matches!(*name, "start_at" | "end_at") { &zone } else { *help };
    let pointer = pointer(name);
    let is_here = |text: &str| {
        text == pointer || text.strip_prefix(&pointer).is_some_and(|rest| rest.starts_with(['/', '_']))
    };
    let wrong = fault.and_then(|fault| fault.fields().iter().find(|error| is_here(&error.pointer)));
    parts::field(
        name,
        label,
        Some(help).filter(|help| !help.is_empty()),
        &input,
        wrong.map(|error| error.detail.as_str()),
    )
}

/// Scripts have only this part of the page made again, and nothing else of it is touched.
fn next_runs(context: &Context, form: &Form, coming: &Coming) -> Markup {
    let zone = Zone::named(form.get("time_zone").unwrap_or("UTC"));
    html! {
        fieldset { legend { "The next ten runs" }
            div #next-runs aria-live="polite" { @match coming {
                Coming::Runs(runs) if runs.is_empty() => p.dim { "None is to come." },
                Coming::Runs(runs) => ol.next-runs { @for run in runs { li {
                    time datetime=(texts::rfc3339(run.at_ms)) { (zone.day_and_second(run.at_ms)) } " "
                    @if zone.name != context.zone.name { span.dim { (context.zone.second(run.at_ms)) " " (context.zone.name) } " " }
                    (parts::relative(context, run.at_ms))
                } } },
                Coming::Fault(fault) => div.note.bad role="status" {
                    @if fault.fields().is_empty() { strong { (fault.title()) } " " (fault.detail()) }
                    @for error in fault.fields() { p { strong { (name_of(&error.pointer)) } ": " (error.detail) } }
                },
            } }
            // Beside what it fetches: one that is replaced with it would forget what is typed just then.
            button #show-next type="submit" name="preview" value="1" hx-post=(context.here()) hx-target="#next-runs" hx-select="#next-runs" hx-swap="outerHTML"
                hx-trigger="click, input from:closest form delay:400ms" hx-sync="closest form:replace" { "Show the next runs" }
        }
    }
}

/// The label of the field that it is about.
fn name_of(at: &str) -> &str {
    let is_about = |name: &str| {
        at.strip_prefix(&pointer(name)).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '_']))
    };
    FIELDS.iter().find(|field| is_about(field.0)).map_or(at, |field| field.1)
}

async fn preview(context: &Context, form: &Form) -> Result<Coming, Fault> {
    let asked = async {
        let mut body = wanted(context, form)?;
        body.retain(|_, entry| !entry.is_null());
        if let Some(task) = body.get_mut("task").and_then(Value::as_object_mut) {
            task.retain(|_, entry| !entry.is_null());
            task.remove("payload");
            task.entry("queue").or_insert_with(|| json!(ANY_QUEUE));
        }
        let answer = context.api.post("/v1/schedules/preview?n=10", &Value::Object(body)).await?;
        answer.read::<Items<UpcomingRun>>()
    };
    match asked.await {
        Ok(found) => Ok(Coming::Runs(found.items)),
        Err(fault) if fault.is_sign_in() => Err(fault),
        Err(fault) => Ok(Coming::Fault(fault)),
    }
}

/// Epoch milliseconds of a time in the caller's zone.
pub(super) fn rfc3339_of(
    context: &Context,
    form: &Form,
    name: &str,
    label: &str,
) -> Result<Option<i64>, Fault> {
    let Some(text) = form.get(name) else { return Ok(None) };
    let at = context.zone.read(text);
    at.map(Some).ok_or_else(|| Fault::Invalid(format!("{label}: {text:?} is not a time.")))
}

fn lines(form: &Form, name: &str) -> Value {
    let lines: Vec<&str> = form.raw(name).lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() { Value::Null } else { json!(lines) }
}

/// Every field of the form, by name: null where nothing is stored. Without the payload.
fn wanted(context: &Context, form: &Form) -> Result<Map<String, Value>, Fault> {
    let span = |name: &str| form.span(name, label(name));
    let time = |name: &str| rfc3339_of(context, form, name, label(name));
    let body = json!({
        "description": form.get("description"),
        "owner": form.get("owner"),
        "enabled": form.has("enabled"),
        "cron": lines(form, "cron"),
        "every_ms": span("every")?,
        "at": lines(form, "at"),
        "time_zone": form.get("time_zone"),
        "exclude": lines(form, "exclude"),
        "start_at": time("start_at")?,
        "end_at": time("end_at")?,
        "max_runs": form.number::<u64>("max_runs", label("max_runs"))?,
        "jitter_ms": span("jitter")?,
        "overlap": form.get("overlap"),
        "missed": form.get("missed"),
        "missed_window_ms": span("missed_window")?,
        "task": {
            "queue": form.get("queue"),
            "kind": form.get("kind"),
            "priority": form.number::<u8>("priority", label("priority"))?,
            "max_attempts": form.number::<u32>("max_attempts", label("max_attempts"))?,
            "timeout_ms": span("timeout")?,
            "labels": labels(form)?,
        },
    });
    match body {
        Value::Object(body) => Ok(body),
        _ => Ok(Map::new()),
    }
}

fn labels(form: &Form) -> Result<Value, Fault> {
    let mut labels = Map::new();
    for line in form.raw("labels").lines().map(str::trim).filter(|text| !text.is_empty()) {
        let pair = line
            .split_once('=')
            .ok_or_else(|| Fault::Invalid(format!("Labels: {line:?} is not key=value.")))?;
        labels.insert(pair.0.trim().to_owned(), json!(pair.1.trim()));
    }
    Ok(if labels.is_empty() { Value::Null } else { Value::Object(labels) })
}

/// The payload as it was typed, letter for letter. `None` if nothing is stored.
fn payload(form: &Form) -> Result<Option<String>, Fault> {
    let text = form.raw("payload").replace("\r\n", "\n");
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    match serde_json::from_str::<Value>(text) {
        Ok(_) => Ok(Some(text.to_owned())),
        Err(error) => Err(Fault::Invalid(format!("Payload: not JSON: {error}"))),
    }
}

/// The body as text, with the payload in its task.
fn with_payload(mut body: Map<String, Value>, payload: Option<&str>) -> String {
    let Some(payload) = payload else { return Value::Object(body).to_string() };
    let mut task = body.remove("task").unwrap_or_else(|| json!({})).to_string();
    task.pop();
    let comma = if task.len() > 1 { "," } else { "" };
    let mut text = Value::Object(body).to_string();
    text.pop();
    let before = if text.len() > 1 { "," } else { "" };
    format!("{text}{before}\"task\":{task}{comma}\"payload\":{payload}}}}}")
}

async fn create(context: &Context, form: &Form) -> Result<Done, Fault> {
    if form.has("preview") {
        let coming = preview(context, form).await?;
        return Ok(Done::Show(Box::new(view(context, form, None, None, &coming))));
    }
    let name = form.get("name").unwrap_or_default().to_owned();
    let sent = async {
        if name.is_empty() {
            return Err(Fault::Invalid("Give it a name.".to_owned()));
        }
        let mut body = wanted(context, form)?;
        body.retain(|_, entry| !entry.is_null());
        if let Some(task) = body.get_mut("task").and_then(Value::as_object_mut) {
            task.retain(|_, entry| !entry.is_null());
        }
        let text = with_payload(body, payload(form)?.as_deref());
        let path = format!("/v1/schedules/{}", crate::api::segment(&name));
        context.api.send(Method::PUT, &path, Some(text), Some("\"0\"")).await
    };
    match sent.await {
        Ok(_) => Ok(Done::to(address(context, &name), format!("{name} is made."))),
        Err(fault) if fault.code() == Some("precondition.failed") => {
            let fault =
                Fault::Invalid(format!("The schedule {name} exists. Choose another name, or edit that one."));
            again(context, form, None, fault).await
        }
        Err(fault) => again(context, form, None, fault).await,
    }
}

async fn store(context: &Context, form: &Form) -> Result<Done, Fault> {
    let revision = form.number::<i64>("revision", "Revision")?.unwrap_or(0);
    if form.has("preview") {
        let coming = preview(context, form).await?;
        return Ok(Done::Show(Box::new(view(context, form, Some(revision), None, &coming))));
    }
    let schedule: Schedule = context.api.get(&call(context, "")).await?;
    let sent = async {
        let body = changed(context, form, &schedule)?;
        context
            .api
            .send(Method::PATCH, &call(context, ""), Some(body), Some(&format!("\"{revision}\"")))
            .await
    };
    match sent.await {
        Ok(_) => Ok(Done::to(address(context, &schedule.name), format!("{} is changed.", schedule.name))),
        Err(fault) if fault.code() == Some("precondition.failed") => {
            let fault = Fault::Invalid(format!(
                "Another user has changed it since you opened this form (revision {revision}, now {}). Submit again to overwrite those changes.",
                schedule.revision
            ));
            again(context, form, Some(schedule.revision), fault).await
        }
        Err(fault) => again(context, form, Some(revision), fault).await,
    }
}

/// A payload that is as it was is not sent: so its letters stay.
fn changed(context: &Context, form: &Form, schedule: &Schedule) -> Result<String, Fault> {
    let mut body = wanted(context, form)?;
    // These have no null: their defaults are said.
    for (name, default) in
        [("jitter_ms", json!(0)), ("time_zone", json!("UTC")), ("missed_window_ms", json!(86_400_000))]
    {
        if body.get(name).is_some_and(Value::is_null) {
            body.insert(name.to_owned(), default);
        }
    }
    let current = schedule.task.payload.as_ref().map_or("", |payload| payload.get());
    let payload = payload(form)?;
    match payload {
        Some(text) if text.trim() == current.trim() => Ok(with_payload(body, None)),
        None if current.is_empty() => Ok(with_payload(body, None)),
        None => Ok(with_payload(body, Some("null"))),
        Some(text) => Ok(with_payload(body, Some(&text))),
    }
}

async fn again(context: &Context, form: &Form, revision: Option<i64>, fault: Fault) -> Result<Done, Fault> {
    if fault.is_sign_in() {
        return Err(fault);
    }
    let coming = preview(context, form).await?;
    Ok(Done::Again(Box::new(view(context, form, revision, Some(&fault), &coming))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_goes_into_the_task_letter_for_letter() {
        let body = || {
            Map::from_iter([("cron".to_owned(), json!("@daily")), ("task".to_owned(), json!({"queue": "q"}))])
        };
        assert_eq!(
            with_payload(body(), Some("1.0")),
            r#"{"cron":"@daily","task":{"queue":"q","payload":1.0}}"#
        );
        assert_eq!(with_payload(body(), None), r#"{"cron":"@daily","task":{"queue":"q"}}"#);
        assert_eq!(with_payload(Map::new(), Some("[]")), r#"{"task":{"payload":[]}}"#);
    }

    #[test]
    fn each_fault_is_told_with_the_label_of_its_field() {
        assert_eq!(name_of("/cron/0"), "Cron expressions");
        assert_eq!(name_of("/task/payload"), "Payload, JSON");
        assert_eq!(name_of("/every_ms"), "Every");
        assert_eq!(name_of("/start_at_ms"), "Not before");
        assert_eq!(name_of("/else"), "/else");
    }
}
