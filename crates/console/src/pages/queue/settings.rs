//! The settings of a queue, as a form. The API checks it, and stores it only if the settings were not changed since
//! they were read.

use super::{OPERATE, call};
use crate::{
    context::Context,
    fault::Fault,
    form::{self, Form},
    layout::under,
    pages::queues::address,
    parts, texts,
    view::{Done, View},
};
use axum::http::Method;
use maud::{Markup, html};
use punctual_protocol::{Choice, Mode, Queue, Rate, Source, WhileStoreIsAway};
use serde_json::{Map, Value, json};

/// Names of the form's fields, with the stored values.
pub(super) fn fields(queue: &Queue) -> Vec<(&'static str, String)> {
    let number = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
    let span = |timeout_ms: Option<i64>| timeout_ms.map_or_else(String::new, texts::duration_for_input);
    let keep = queue.keep.unwrap_or_default();
    let retries = queue.retries;
    let (by, percent, weights) = match queue.choice {
        None => ("", String::new(), String::new()),
        Some(Choice::HighestFirst { percent }) => ("highest_first", percent.to_string(), String::new()),
        Some(Choice::Weights { weights }) => {
            ("weights", String::new(), weights.map(|weight| weight.to_string()).join(" "))
        }
    };
    let mut all = vec![
        ("concurrency", number(queue.concurrency.map(u64::from))),
        ("key_concurrency", number(queue.key_concurrency.map(u64::from))),
        ("max_waiting", number(queue.max_waiting)),
        ("weight", number(queue.weight.map(u64::from))),
    ];
    all.extend(rate_fields(["rate_limit", "rate_period", "rate_burst"], queue.rate.as_ref()));
    all.extend(rate_fields(["key_rate_limit", "key_rate_period", "key_rate_burst"], queue.key_rate.as_ref()));
    all.extend([
        ("max_attempts", number(queue.max_attempts.map(u64::from))),
        ("retry", queue.retry.as_ref().and_then(|plan| serde_json::to_string(plan).ok()).unwrap_or_default()),
        ("timeout", span(queue.timeout_ms)),
        ("pending_timeout", span(queue.pending_timeout_ms)),
        ("retries_lower_by", retries.map_or_else(String::new, |retries| retries.lower_by.to_string())),
        ("retries_share", number(retries.and_then(|retries| retries.share_percent).map(u64::from))),
        ("retries_concurrency", number(retries.and_then(|retries| retries.concurrency).map(u64::from))),
        ("lateness_budget", span(queue.lateness_budget_ms)),
        ("keep_succeeded", span(keep.succeeded_ms)),
        ("keep_dead", span(keep.dead_ms)),
        ("keep_cancelled", span(keep.cancelled_ms)),
        (
            "mode",
            queue
                .mode
                .map_or("", |mode| match mode {
                    Mode::Pull => "pull",
                    Mode::Push => "push",
                    Mode::Webhook => "webhook",
                })
                .to_owned(),
        ),
        ("choice", by.to_owned()),
        ("choice_percent", percent),
        ("choice_weights", weights),
        ("indexed_labels", queue.indexed_labels.clone().unwrap_or_default().join(", ")),
        (
            "source",
            queue
                .source
                .map_or("", |source| match source {
                    Source::Hot => "hot",
                    Source::Store => "store",
                })
                .to_owned(),
        ),
        ("scan_interval", span(queue.scan_interval_ms)),
        ("scan_concurrency", number(queue.scan_concurrency.map(u64::from))),
        ("scan_batch", number(queue.scan_batch.map(u64::from))),
        (
            "while_store_is_away",
            queue
                .while_store_is_away
                .map_or("", |away| match away {
                    WhileStoreIsAway::Wait => "wait",
                    WhileStoreIsAway::HandOver => "hand_over",
                })
                .to_owned(),
        ),
    ]);
    all
}

pub(crate) fn rate_fields(names: [&'static str; 3], rate: Option<&Rate>) -> [(&'static str, String); 3] {
    let [limit, period, burst] = names;
    let of = |getter: fn(&Rate) -> String| rate.map_or_else(String::new, getter);
    [
        (limit, of(|rate| rate.limit.to_string())),
        (period, of(|rate| texts::duration_for_input(rate.period_ms))),
        (burst, of(|rate| rate.burst.to_string())),
    ]
}

pub(super) fn label(name: &str) -> &str {
    LABELS.iter().find(|label| label.0 == name).map_or(name, |label| label.1)
}

/// Name, label, what to know of it, what is where nothing is set.
const LABELS: [(&str, &str, &str, &str); 31] = [
    ("concurrency", "Attempts at a time", "", "no limit"),
    (
        "key_concurrency",
        "Attempts at a time for each key",
        "Tasks with the same concurrency_key.",
        "no limit",
    ),
    ("max_waiting", "Most that may wait", "Inserts beyond are refused with queue.full.", "no limit"),
    ("weight", "Weight", "Among the queues of its namespace, when slots are short.", "1"),
    ("rate_limit", "Starts", "", "no limit"),
    ("rate_period", "in a time of", "", "1 s"),
    ("rate_burst", "at once after a rest", "", "10"),
    ("key_rate_limit", "Starts for each key", "", "no limit"),
    ("key_rate_period", "each key: in a time of", "", "1 s"),
    ("key_rate_burst", "each key: at once after a rest", "", "10"),
    ("max_attempts", "Attempts", "For tasks that do not say.", "5"),
    (
        "retry",
        "When it is tried again",
        "JSON. The default of tasks without their own.",
        "{\"strategy\":\"fixed\",\"delay_ms\":300}",
    ),
    ("timeout", "Longest time of an attempt", "For tasks that do not say.", "no limit"),
    ("pending_timeout", "Dead if it cannot start within", "", "never"),
    ("retries_lower_by", "Retries: priorities lower", "", "0"),
    ("retries_share", "Retries: share of starts, percent", "", "as they come"),
    ("retries_concurrency", "Retries: attempts at a time", "", "no limit"),
    (
        "lateness_budget",
        "Lateness budget",
        "What fires later is counted and raises an alert; 0 for never.",
        "1 s",
    ),
    ("keep_succeeded", "Keep succeeded tasks", "", "as the engines were started"),
    ("keep_dead", "Keep dead tasks", "", "as the engines were started"),
    ("keep_cancelled", "Keep cancelled tasks", "", "as the engines were started"),
    ("mode", "Who has tasks brought", "", ""),
    ("choice", "Which goes next", "", ""),
    ("choice_percent", "Highest first, percent", "", "80"),
    ("choice_weights", "Shares of the priorities 1 to 5", "", "5 4 3 2 1"),
    ("indexed_labels", "Labels that are found fast", "Keys, with commas.", "none"),
    ("source", "Where due tasks are found", "", ""),
    ("scan_interval", "Scan every", "Of a queue whose source is the database.", "1 s"),
    ("scan_concurrency", "Scanned: attempts at a time", "Over all engines.", "2"),
    ("scan_batch", "Scan: tasks per partition at a time", "", "200"),
    (
        "while_store_is_away",
        "While the database does not answer",
        "Tasks dispatched meanwhile run at least once, and a cancel may be too late.",
        "",
    ),
];

pub(super) async fn settings(context: &Context) -> Result<View, Fault> {
    let queue = current(context).await?;
    let form = Form::of(fields(&queue).into_iter().map(|field| (field.0.to_owned(), field.1)).collect());
    Ok(form_view(context, &form, queue.revision, None))
}

/// A queue that is not there yet can be set, too.
async fn current(context: &Context) -> Result<Queue, Fault> {
    match context.api.get(&call(context, "")).await {
        Err(fault) if fault.code() == Some("queue.not_found") => Ok(Queue::default()),
        other => other,
    }
}

fn form_view(context: &Context, form: &Form, revision: i64, fault: Option<&Fault>) -> View {
    let name = context.param("queue");
    let reset = context.href(&format!("{}/reset", under("/console/queues", name)), &[]);
    let lacks = context.lacks(OPERATE);
    View::new(format!("Settings of {name}"), "An empty field means the default. Changes apply at every engine within a second. A concurrent change by another user is never overwritten.")
        .under("Queues", context.href("/console/queues", &[]))
        .under(name, address(context, name))
        .part(html! {
            form.settings #settings method="post" action=(context.here()) {
                @if let Some(fault) = fault { (parts::faults(fault)) }
                input type="hidden" name=(form::TOKEN) value=(context.form_token);
                input type="hidden" name="revision" value=(revision);
                (group("Limits", form, fault, &["concurrency", "key_concurrency", "max_waiting", "weight"]))
                (group("Rate of starts", form, fault, &["rate_limit", "rate_period", "rate_burst", "key_rate_limit", "key_rate_period", "key_rate_burst"]))
                (group("Attempts", form, fault, &["max_attempts", "retry", "timeout", "pending_timeout", "retries_lower_by", "retries_share", "retries_concurrency"]))
                (group("Order", form, fault, &["choice", "choice_percent", "choice_weights", "mode"]))
                (group("Source", form, fault, &["source", "scan_interval", "scan_concurrency", "scan_batch", "while_store_is_away"]))
                (group("Watching and keeping", form, fault, &["lateness_budget", "keep_succeeded", "keep_dead", "keep_cancelled", "indexed_labels"]))
                div.buttons {
                    @match &lacks { None => button #save.primary type="submit" { "Set" }, Some(why) => (parts::dead_button("Set", why)) }
                    a.button href=(address(context, name)) { "Leave it" }
                    (parts::button(context, OPERATE, &reset, "Forget all settings", "danger"))
                }
                @if let Some(why) = &lacks { p.hint { (why) } }
            }
        })
}

fn group(title: &str, form: &Form, fault: Option<&Fault>, names: &[&str]) -> Markup {
    html! {
        fieldset {
            legend { (title) }
            div.fields { @for name in names { (one_field(name, form, fault)) } }
        }
    }
}

fn one_field(name: &str, form: &Form, fault: Option<&Fault>) -> Markup {
    let Some((name, label, help, default)) = LABELS.iter().find(|label| label.0 == name) else {
        return html! {};
    };
    let value = form.raw(name);
    let input = match *name {
        "mode" => parts::choice(
            name,
            &[
                ("", "as the engines were started"),
                ("pull", "executors ask for them"),
                ("push", "published to the bus"),
                ("webhook", "sent to a receiver (webhook)"),
            ],
            value,
        ),
        "source" => parts::choice(
            name,
            &[
                ("", "hot: loaded ahead of their time"),
                ("hot", "hot, set as such"),
                ("store", "store: scanned for in the database"),
            ],
            value,
        ),
        "while_store_is_away" => parts::choice(
            name,
            &[
                ("", "wait: fired tasks wait for it"),
                ("wait", "wait, set as such"),
                ("hand_over", "hand over: executors get what is preloaded"),
            ],
            value,
        ),
        "choice" => parts::choice(
            name,
            &[
                ("", "80 % the highest priority first"),
                ("highest_first", "highest first, in percent"),
                ("weights", "shares of priorities"),
            ],
            value,
        ),
        _ => parts::input(name, value, default),
    };
    let pointer = pointer(name);
    let wrong =
        fault.and_then(|fault| fault.fields().iter().find(|error| error.pointer.starts_with(&pointer)));
    parts::field(
        name,
        label,
        Some(*help).filter(|help| !help.is_empty()),
        &input,
        wrong.map(|error| error.detail.as_str()),
    )
}

/// The field's pointer in the API's faults.
fn pointer(name: &str) -> String {
    let (first, rest) = match name {
        "rate_limit" | "rate_burst" => ("rate", name.strip_prefix("rate_").unwrap_or_default()),
        "rate_period" => ("rate", "period_ms"),
        "key_rate_limit" | "key_rate_burst" => {
            ("key_rate", name.strip_prefix("key_rate_").unwrap_or_default())
        }
        "key_rate_period" => ("key_rate", "period_ms"),
        "retries_lower_by" => ("retries", "lower_by"),
        "retries_share" => ("retries", "share_percent"),
        "retries_concurrency" => ("retries", "concurrency"),
        "keep_succeeded" => ("keep", "succeeded_ms"),
        "keep_dead" => ("keep", "dead_ms"),
        "keep_cancelled" => ("keep", "cancelled_ms"),
        "choice_percent" => ("choice", "percent"),
        "choice_weights" => ("choice", "weights"),
        "timeout" => ("timeout_ms", ""),
        "pending_timeout" => ("pending_timeout_ms", ""),
        "lateness_budget" => ("lateness_budget_ms", ""),
        "scan_interval" => ("scan_interval_ms", ""),
        other => (other, ""),
    };
    if rest.is_empty() { format!("/{first}") } else { format!("/{first}/{rest}") }
}

pub(super) async fn set(context: &Context, form: &Form) -> Result<Done, Fault> {
    let name = context.param("queue");
    let revision = form.number::<i64>("revision", "Revision")?.unwrap_or(0);
    let sent = match wanted(form) {
        Ok(wanted) => {
            let if_match = format!("\"{revision}\"");
            context
                .api
                .send(Method::PATCH, &call(context, ""), Some(wanted.to_string()), Some(&if_match))
                .await
        }
        Err(fault) => Err(fault),
    };
    match sent {
        Ok(_) => Ok(Done::to(address(context, name), format!("The settings of {name} are saved."))),
        Err(fault) if fault.is_sign_in() => Err(fault),
        Err(fault) if fault.code() == Some("precondition.failed") => {
            let now = current(context).await?.revision;
            let detail = format!(
                "Another user has changed it since you opened this form (revision {revision}, now {now}). Look at the queue's history; \
                 send it once more to put your values over theirs."
            );
            Ok(Done::Again(Box::new(form_view(context, form, now, Some(&Fault::Invalid(detail))))))
        }
        Err(fault) => Ok(Done::Again(Box::new(form_view(context, form, revision, Some(&fault))))),
    }
}

/// Every setting, by name: null where nothing is to be set.
fn wanted(form: &Form) -> Result<Value, Fault> {
    let number = |name: &'static str| form.number::<u64>(name, label(name));
    let span = |name: &'static str| form.span(name, label(name));
    let keep: Map<String, Value> =
        [("succeeded_ms", "keep_succeeded"), ("dead_ms", "keep_dead"), ("cancelled_ms", "keep_cancelled")]
            .into_iter()
            .filter_map(|(field, name)| {
                span(name).map(|span| span.map(|span| (field.to_owned(), json!(span)))).transpose()
            })
            .collect::<Result<_, _>>()?;
    let labels: Vec<&str> = form
        .get("indexed_labels")
        .unwrap_or_default()
        .split(',')
        .map(str::trim)
        .filter(|label| !label.is_empty())
        .collect();
    Ok(json!({
        "concurrency": number("concurrency")?,
        "key_concurrency": number("key_concurrency")?,
        "max_waiting": number("max_waiting")?,
        "weight": number("weight")?,
        "rate": wanted_rate(form, ["rate_limit", "rate_period", "rate_burst"])?,
        "key_rate": wanted_rate(form, ["key_rate_limit", "key_rate_period", "key_rate_burst"])?,
        "max_attempts": number("max_attempts")?,
        "retry": wanted_json(form, "retry")?,
        "timeout_ms": span("timeout")?,
        "pending_timeout_ms": span("pending_timeout")?,
        "retries": wanted_retries(form)?,
        "lateness_budget_ms": span("lateness_budget")?,
        "keep": if keep.is_empty() { Value::Null } else { Value::Object(keep) },
        "mode": form.get("mode"),
        "choice": wanted_choice(form)?,
        "source": form.get("source"),
        "scan_interval_ms": span("scan_interval")?,
        "scan_concurrency": number("scan_concurrency")?,
        "scan_batch": number("scan_batch")?,
        "while_store_is_away": form.get("while_store_is_away"),
        "indexed_labels": if labels.is_empty() { Value::Null } else { json!(labels) },
    }))
}

pub(crate) fn wanted_rate(form: &Form, [limit, period, burst]: [&'static str; 3]) -> Result<Value, Fault> {
    let Some(starts) = form.number::<u64>(limit, label(limit))? else {
        let is_half = form.has(period) || form.has(burst);
        return if is_half {
            Err(Fault::Invalid("A rate needs a number of starts.".to_owned()))
        } else {
            Ok(Value::Null)
        };
    };
    let period_ms = form.span(period, label(period))?.unwrap_or(1_000);
    let burst = form.number::<u64>(burst, label(burst))?.unwrap_or(starts);
    Ok(json!({"limit": starts, "period_ms": period_ms, "burst": burst}))
}

fn wanted_json(form: &Form, name: &'static str) -> Result<Value, Fault> {
    let Some(text) = form.get(name) else { return Ok(Value::Null) };
    serde_json::from_str(text).map_err(|error| Fault::Invalid(format!("{}: not JSON: {error}", label(name))))
}

fn wanted_retries(form: &Form) -> Result<Value, Fault> {
    let number = |name: &'static str| form.number::<u64>(name, label(name));
    let (lower_by, share, concurrency) =
        (number("retries_lower_by")?, number("retries_share")?, number("retries_concurrency")?);
    if (lower_by, share, concurrency) == (None, None, None) {
        return Ok(Value::Null);
    }
    let mut retries = Map::from_iter([("lower_by".to_owned(), json!(lower_by.unwrap_or(0)))]);
    retries.extend(share.map(|share| ("share_percent".to_owned(), json!(share))));
    retries.extend(concurrency.map(|concurrency| ("concurrency".to_owned(), json!(concurrency))));
    Ok(Value::Object(retries))
}

fn wanted_choice(form: &Form) -> Result<Value, Fault> {
    Ok(match form.get("choice") {
        Some("highest_first") => {
            json!({"by": "highest_first", "percent": form.number::<u64>("choice_percent", label("choice_percent"))?.unwrap_or(80)})
        }
        Some("weights") => {
            let weights: Vec<u64> = form
                .get("choice_weights")
                .unwrap_or_default()
                .split(|letter: char| letter == ',' || letter.is_whitespace())
                .filter(|part| !part.is_empty())
                .map(|part| {
                    part.parse().map_err(|_| {
                        Fault::Invalid(format!("Shares of the priorities: {part:?} is not a number."))
                    })
                })
                .collect::<Result<_, _>>()?;
            json!({"by": "weights", "weights": weights})
        }
        _ => Value::Null,
    })
}
