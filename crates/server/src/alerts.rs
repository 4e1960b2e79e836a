//! What a human should look at: as the engine that is asked sees it, and as the others have told it.

use crate::{
    answer,
    app::{App, Shared},
    cluster, cursor,
    extract::{Caller, MaxAge, Query},
    listener::ENDS_SOON_MS,
    refusal::Refusal,
};
use axum::{extract::State, http::StatusCode, response::Response};
use punctual_engine::Alert as EngineAlert;
use punctual_protocol::{Alert, At, ListAlerts, Page, Severity};

/// Active alerts.
///
/// Of the namespace's queues, and of the engines themselves: as the one that is asked sees them, and as the others told theirs
/// within the last ten seconds.
#[utoipa::path(
    get, path = "/v1/alerts", operation_id = "list_alerts", tag = "operation", params(ListAlerts),
    responses((status = 200, description = "The gravest first: all of them, or a page.", body = Page<Alert>)),
)]
pub(crate) async fn list_alerts(
    State(app): State<Shared>,
    caller: Caller,
    max_age: MaxAge,
    Query(asked): Query<ListAlerts>,
) -> Result<Response, Refusal> {
    asked.check()?;
    let passed = cursor::before_id(asked.cursor.as_deref())?.map_or(0, |it| usize::try_from(it).unwrap_or(0));
    let mine = |it: &EngineAlert| match &it.queue {
        Some(queue) => queue.namespace == caller.namespace && caller.who.reaches(queue),
        // Of the engine itself, and what it does for all.
        None => caller.who.reaches_everything(),
    };
    let own = app.engine.alerts_within(max_age.0).await?.into_iter().filter(mine);
    let mut items: Vec<Alert> = own.map(|it| alert(&app, it)).collect();
    for it in cluster::alerts_elsewhere(&app, &caller, max_age).await {
        // What several see alike is told once.
        let is_told =
            |known: &Alert| (&known.name, &known.queue, &known.text) == (&it.name, &it.queue, &it.text);
        if !items.iter().any(is_told) {
            items.push(it);
        }
    }
    if caller.who.reaches_everything() {
        items.extend(cluster::alerts(&app));
        items.extend(of_certificates(&app));
    }
    items.sort_by_key(|it| it.severity != Severity::Critical);
    items.retain(|it| asked.severity.is_none_or(|severity| severity == it.severity));
    items.retain(|it| asked.queue.is_none() || asked.queue == it.queue);
    let limit = asked.limit.map_or(usize::MAX, |it| usize::try_from(it).unwrap_or(usize::MAX));
    let end = passed.saturating_add(limit);
    let next_cursor = (items.len() > end).then(|| cursor::write(i64::try_from(end).unwrap_or(i64::MAX)));
    let items: Vec<Alert> = items.into_iter().skip(passed).take(limit).collect();
    Ok(answer::json(StatusCode::OK, &Page { items, next_cursor }))
}

fn alert(app: &App, it: EngineAlert) -> Alert {
    Alert {
        name: it.kind.name().to_owned(),
        severity: if it.kind.is_critical() { Severity::Critical } else { Severity::Warning },
        since: At::from_ms(it.since.0),
        since_ms: it.since.0,
        queue: it.queue.map(|it| it.queue.as_str().to_owned()),
        engine: Some(app.engine.name().to_owned()),
        text: it.text,
        what_to_do: it.kind.what_to_do().to_owned(),
    }
}

/// Of the server's own certificate.
fn of_certificates(app: &App) -> Vec<Alert> {
    let Some(certificates) = &app.certificates else { return Vec::new() };
    let (now, expires_at) = (app.engine.now(), certificates.expires_at());
    let is_over = expires_at <= now;
    let ends = (expires_at.since(now) < ENDS_SOON_MS).then(|| Alert {
        name: "certificate_ends".to_owned(),
        severity: if is_over { Severity::Critical } else { Severity::Warning },
        since: At::from_ms(expires_at.plus(-ENDS_SOON_MS).0),
        since_ms: expires_at.plus(-ENDS_SOON_MS).0,
        queue: None,
        engine: Some(app.engine.name().to_owned()),
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
        queue: None,
        engine: Some(app.engine.name().to_owned()),
        text: format!("the files of the server's certificate have changed and cannot be used: {what}"),
        what_to_do: "Mend the files; until then the certificate that was there before is in use.".to_owned(),
    });
    unused.into_iter().chain(ends).collect()
}
