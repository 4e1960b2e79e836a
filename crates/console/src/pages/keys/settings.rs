//! The settings of everything, and the log filter of this engine. Settings that the server was started with are not
//! here: `punctual config` prints them, with where each came from.

use super::super::{
    queue::{rate_fields, wanted_rate},
    queues::rate,
};
use crate::{
    context::Context,
    fault::Fault,
    form::{self, Form},
    parts, texts,
    view::{Done, Page, View},
};
use axum::http::Method;
use maud::{Markup, html};
use punctual_protocol::{Limits, LogFilter};
use serde_json::{Value, json};

const MANAGE: &str = "manage_namespaces";
const HOME: &str = "/console/settings";

pub(super) fn pages() -> Vec<Page> {
    vec![
        Page {
            path: HOME,
            show: |context| Box::pin(show(context)),
            act: Some(|context, form| Box::pin(set(context, form))),
        },
        Page {
            path: "/console/settings/log",
            show: |context| Box::pin(log(context)),
            act: Some(|context, form| Box::pin(set_log(context, form))),
        },
    ]
}

async fn show(context: &Context) -> Result<View, Fault> {
    let limits: Limits = context.api.get("/v1/limits").await?;
    let form = Form::of(limit_fields(&limits, None));
    Ok(view(context, &form, limits.revision, None).part(log_panel(context).await))
}

fn view(context: &Context, form: &Form, revision: i64, fault: Option<&Fault>) -> View {
    View::new("Settings", "Limits over all namespaces and queues. An empty field means no limit.")
        .part(limits_form(context, form, revision, MANAGE, false, fault))
}

/// The form of the limits of a namespace, or of everything.
pub(super) fn limits_form(
    context: &Context,
    form: &Form,
    revision: i64,
    permission: &str,
    is_namespace: bool,
    fault: Option<&Fault>,
) -> Markup {
    let lacks = context.lacks(permission);
    let one = |name: &str, label: &str, help: Option<&str>, placeholder: &str, pointer: &str| {
        let wrong =
            fault.and_then(|fault| fault.fields().iter().find(|error| error.pointer.starts_with(pointer)));
        parts::field(
            name,
            label,
            help,
            &parts::input(name, form.raw(name), placeholder),
            wrong.map(|error| error.detail.as_str()),
        )
    };
    html! {
        form.settings.panel #limits method="post" action=(context.here()) {
            h2 { "Limits" }
            @if let Some(fault) = fault { (parts::faults(fault)) }
            input type="hidden" name=(form::TOKEN) value=(context.form_token);
            input type="hidden" name="revision" value=(revision);
            @if is_namespace { (one("description", "Description", Some("For people."), "", "/description")) }
            div.fields {
                (one("concurrency", "Attempts at a time", None, "no limit", "/concurrency"))
                (one("max_waiting", "Most that may wait", Some("Inserts beyond are refused with queue.full."), "no limit", "/max_waiting"))
                (one("max_payload_bytes", "Bytes of payloads that wait", Some("Inserts beyond are refused with quota.payload_bytes."), "no limit", "/max_payload_bytes"))
                @if is_namespace { (one("weight", "Weight", Some("Among all namespaces, when slots are short."), "1", "/weight")) }
                (one("rate_limit", "Starts", None, "no limit", "/rate/limit"))
                (one("rate_period", "in a time of", None, "1 s", "/rate/period_ms"))
                (one("rate_burst", "at once after a rest", None, "", "/rate/burst"))
                (one("insert_limit", "Inserts", Some("Faster inserts are refused with quota.insert_rate."), "no limit", "/insert_rate/limit"))
                (one("insert_period", "in a time of", None, "1 s", "/insert_rate/period_ms"))
                (one("insert_burst", "at once after a rest", None, "", "/insert_rate/burst"))
            }
            div.buttons {
                @match &lacks { None => button #save.primary type="submit" { "Set" }, Some(why) => (parts::dead_button("Set", why)) }
                span.dim { "Revision " (revision) }
            }
        }
    }
}

pub(super) fn limit_fields(limits: &Limits, description: Option<&str>) -> Vec<(String, String)> {
    let number = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
    let mut all = vec![
        ("description", description.unwrap_or_default().to_owned()),
        ("concurrency", number(limits.concurrency.map(u64::from))),
        ("max_waiting", number(limits.max_waiting)),
        ("max_payload_bytes", number(limits.max_payload_bytes)),
        ("weight", number(limits.weight.map(u64::from))),
    ];
    all.extend(rate_fields(["rate_limit", "rate_period", "rate_burst"], limits.rate.as_ref()));
    all.extend(rate_fields(["insert_limit", "insert_period", "insert_burst"], limits.insert_rate.as_ref()));
    all.into_iter().map(|pair| (pair.0.to_owned(), pair.1)).collect()
}

pub(super) fn wanted_limits(form: &Form, is_namespace: bool) -> Result<Value, Fault> {
    let number = |name: &str, label: &str| form.number::<u64>(name, label);
    let fields = [
        ("concurrency", json!(number("concurrency", "Attempts at a time")?)),
        ("max_waiting", json!(number("max_waiting", "Most that may wait")?)),
        ("max_payload_bytes", json!(number("max_payload_bytes", "Bytes of payloads")?)),
        ("rate", wanted_rate(form, ["rate_limit", "rate_period", "rate_burst"])?),
        ("insert_rate", wanted_rate(form, ["insert_limit", "insert_period", "insert_burst"])?),
        ("weight", if is_namespace { json!(number("weight", "Weight")?) } else { Value::Null }),
        ("description", if is_namespace { json!(form.get("description")) } else { Value::Null }),
    ];
    Ok(fields
        .into_iter()
        .filter(|field| !field.1.is_null())
        .map(|field| (field.0.to_owned(), field.1))
        .collect::<serde_json::Map<_, _>>()
        .into())
}

/// The limits in words.
pub(super) fn limits_of(limits: &Limits) -> Vec<String> {
    let mut said = Vec::new();
    said.extend(limits.concurrency.map(|concurrency| format!("{} at a time", texts::number(concurrency))));
    said.extend(limits.max_waiting.map(|max_waiting| format!("{} waiting", texts::number(max_waiting))));
    said.extend(limits.max_payload_bytes.map(|max_payload_bytes| {
        format!("{} of payloads", texts::bytes(i64::try_from(max_payload_bytes).unwrap_or(i64::MAX)))
    }));
    said.extend(limits.rate.as_ref().map(|this_rate| format!("starts {}", rate(this_rate))));
    said.extend(limits.insert_rate.as_ref().map(|insert_rate| format!("inserts {}", rate(insert_rate))));
    said
}

async fn set(context: &Context, form: &Form) -> Result<Done, Fault> {
    let revision = form.number::<i64>("revision", "Revision")?.unwrap_or(0);
    let sent = match wanted_limits(form, false) {
        Ok(body) => {
            context
                .api
                .send(Method::PUT, "/v1/limits", Some(body.to_string()), Some(&format!("\"{revision}\"")))
                .await
        }
        Err(fault) => Err(fault),
    };
    match sent {
        Ok(_) => Ok(Done::to(context.href(HOME, &[]), "The limits are saved.")),
        Err(fault) if fault.is_sign_in() => Err(fault),
        Err(fault) => Ok(Done::Again(Box::new(view(context, form, revision, Some(&fault))))),
    }
}

async fn log_panel(context: &Context) -> Markup {
    let found: Result<LogFilter, Fault> = context.api.get("/v1/log-filter").await;
    parts::panel(
        "What this engine logs",
        &match &found {
            Ok(filter) => html! {
                dl.facts {
                    (parts::fact("Now", html! { code { (filter.filter) } }))
                    (parts::fact("It was started with", html! { code { (filter.started_with) } }))
                    @if let Some(at) = filter.until_ms { (parts::fact("Goes back", parts::time(context, at))) }
                }
                p { (parts::button(context, "operate", &context.href("/console/settings/log", &[]), "Change", "")) }
            },
            Err(fault) => parts::missing(fault),
        },
    )
}

async fn log(context: &Context) -> Result<View, Fault> {
    let log_filter: LogFilter = context.api.get("/v1/log-filter").await?;
    let fields = html! {
        (parts::field("filter", "Levels", Some("Per module: info,punctual_engine=debug. Empty: the level at startup."), &parts::input("filter", &log_filter.filter, &log_filter.started_with), None))
        (parts::field("for", "For", Some("Then it reverts; at most a day. Empty: until it is changed or the engine restarts."), &parts::input("for", "10 min", "until it is set again"), None))
    };
    let says = html! { p { "Changes the log level of this engine. Debug logs of a busy engine are large and may contain payloads." } };
    let back = context.href(HOME, &[]);
    Ok(crate::confirm::Confirm {
        title: "Change what this engine logs?",
        says,
        fields,
        does: "Change it",
        permission: "operate",
        is_dangerous: false,
        back,
    }
    .view(context))
}

async fn set_log(context: &Context, form: &Form) -> Result<Done, Fault> {
    let mut body = serde_json::Map::new();
    body.extend(form.get("filter").map(|filter| ("filter".to_owned(), json!(filter))));
    body.extend(form.span("for", "For")?.map(|span| ("for_ms".to_owned(), json!(span))));
    context.api.send(Method::PUT, "/v1/log-filter", Some(Value::Object(body).to_string()), None).await?;
    Ok(Done::to(context.href(HOME, &[]), "It is changed."))
}
