//! Alerts for operators: of the engine that answers, and as other engines reported them. Must never show an alert of a queue
//! that the token may not see.

mod folded;

pub(crate) use folded::AlertReport;

use crate::{
    access::Who,
    answer,
    app::{App, Shared},
    cluster, cursor,
    extract::{Caller, MaxAge, Query},
    ledger,
    listener::ENDS_SOON_MS,
    refusal::Refusal,
};
use axum::{extract::State, http::StatusCode, response::Response};
use futures_util::FutureExt as _;
use punctual_domain::name::QueueKey;
use punctual_engine::Alert as EngineAlert;
use punctual_protocol::{Alert, At, ListAlerts, Page, Severity};
use std::time::Duration;

/// List active alerts.
///
/// Alerts of all queues that the token reaches, in all namespaces, and of the engines themselves. The answering engine adds
/// what the others reported within the last ten seconds. An alert that several engines report is listed once. Alerts that
/// another one explains are its `consequences`.
#[utoipa::path(
    get, path = "/v1/alerts", operation_id = "list_alerts", tag = "operation", params(ListAlerts),
    responses((status = 200, description = "The most severe first: all alerts, or a page.", body = Page<Alert>)),
)]
pub(crate) async fn list_alerts(
    State(app): State<Shared>,
    caller: Caller,
    max_age: MaxAge,
    Query(asked): Query<ListAlerts>,
) -> Result<Response, Refusal> {
    asked.check()?;
    let passed = cursor::before_id(asked.cursor.as_deref())?
        .map_or(0, |before_id| usize::try_from(before_id).unwrap_or(0));
    let is_reached = |queue: &Option<QueueKey>| match queue {
        Some(queue) => caller.who.reaches(queue),
        // Of an engine itself, and what it does for all.
        None => caller.who.reaches_everything(),
    };
    let own = app.engine.alerts_within(max_age.0).await?;
    let own = own.into_iter().filter(|alert| is_reached(&alert.queue)).map(|alert| report(&app, alert));
    let elsewhere = cluster::alerts_elsewhere(&app, max_age).await;
    let elsewhere = elsewhere.into_iter().filter(|report| is_reached(&report.queue));
    let mut items = folded::fold(folded::merge(own.chain(elsewhere).collect()));
    if caller.who.reaches_everything() {
        items.extend(cluster::alerts(&app));
        items.extend(ledger::alerts(&app));
        items.extend(of_certificates(&app));
    }
    items.sort_by_key(|alert| alert.severity != Severity::Critical);
    items.retain(|alert| asked.severity.is_none_or(|severity| severity == alert.severity));
    // A queue is one of a namespace: where none is given, of that of the call.
    let namespace = asked.namespace.as_deref();
    let namespace = namespace.or_else(|| asked.queue.is_some().then(|| caller.namespace.as_str()));
    items.retain(|alert| namespace.is_none() || namespace == alert.namespace.as_deref());
    items.retain(|alert| asked.queue.is_none() || asked.queue == alert.queue);
    let limit = asked.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let end = passed.saturating_add(limit);
    let next_cursor = (items.len() > end).then(|| cursor::write(i64::try_from(end).unwrap_or(i64::MAX)));
    let items: Vec<Alert> = items.into_iter().skip(passed).take(limit).collect();
    Ok(answer::json(StatusCode::OK, &Page { items, next_cursor }))
}

/// The alerts of this engine's last check, the gravest first. Waits for nothing.
pub(crate) fn remembered(app: &App, who: &Who) -> Vec<Alert> {
    let own = app.engine.alerts_within(Duration::MAX).now_or_never();
    let own = own.and_then(Result::ok).unwrap_or_default().into_iter();
    let is_reached = |alert: &EngineAlert| match &alert.queue {
        Some(queue) => who.reaches(queue),
        None => who.reaches_everything(),
    };
    let mut items = folded::fold(folded::merge(own.filter(is_reached).map(|one| report(app, one)).collect()));
    items.sort_by_key(|one| one.severity != Severity::Critical);
    items
}

fn report(app: &App, alert: EngineAlert) -> AlertReport {
    AlertReport {
        name: alert.kind.name().to_owned(),
        is_critical: alert.kind.is_critical(),
        since: alert.since,
        queue: alert.queue,
        engine: app.engine.name().to_owned(),
        text: alert.text,
        what_to_do: alert.kind.what_to_do().to_owned(),
        count: alert.count,
    }
}

/// The alerts about the server's own certificate.
fn of_certificates(app: &App) -> Vec<Alert> {
    let Some(certificates) = &app.certificates else { return Vec::new() };
    let (now, expires_at) = (app.engine.now(), certificates.expires_at());
    let is_over = expires_at <= now;
    let ends = (expires_at.since(now) < ENDS_SOON_MS).then(|| Alert {
        name: "certificate_ends".to_owned(),
        severity: if is_over { Severity::Critical } else { Severity::Warning },
        since: At::from_ms(expires_at.plus(-ENDS_SOON_MS).0),
        since_ms: expires_at.plus(-ENDS_SOON_MS).0,
        namespace: None,
        queue: None,
        engine: Some(app.engine.name().to_owned()),
        engines: Vec::new(),
        consequences: Vec::new(),
        text: match is_over {
            true => "the server's certificate has ended".to_owned(),
            false => format!("the server's certificate ends in {} h", expires_at.since(now) / 3_600_000),
        },
        what_to_do: "Write a new certificate and its key over the files tls.cert and tls.key; they are taken into use within seconds.".to_owned(),
    });
    let unused = certificates.fault().map(|(what, since)| Alert {
        name: "certificate_not_usable".to_owned(),
        severity: Severity::Critical,
        since: At::from_ms(since.0),
        since_ms: since.0,
        namespace: None,
        queue: None,
        engine: Some(app.engine.name().to_owned()),
        engines: Vec::new(),
        consequences: Vec::new(),
        text: format!("the files of the server's certificate have changed and cannot be used: {what}"),
        what_to_do: "Mend the files; until then the certificate that was there before is in use.".to_owned(),
    });
    unused.into_iter().chain(ends).collect()
}
