//! Follows the cluster: events in their order, and alerts that begin and end. It waits for a server that is
//! unavailable for a while.

use super::{args::TailArgs, lists};
use crate::{
    connect::TRIES_OF_ONE_CALL,
    output::{self, Form},
    signals::Signals,
    times,
};
use anyhow::Result;
use punctual_protocol::{Alert, Event, SearchEvents, limits::PAGE_MAX};
use punctual_sdk::{Client, Error};
use std::{collections::BTreeMap, process::ExitCode};

/// The maximum number of pages that one read goes back.
const PAGES_MAX: usize = 10;

/// Name, namespace, queue.
type AlertKey = (String, Option<String>, Option<String>);

fn key(alert: &Alert) -> AlertKey {
    (alert.name.clone(), alert.namespace.clone(), alert.queue.clone())
}

#[derive(Debug, Default)]
struct TailState {
    /// The newest event. `None` if none was read yet.
    newest: Option<i64>,
    alerts: BTreeMap<AlertKey, Alert>,
}

pub(super) async fn run(args: TailArgs) -> Result<ExitCode> {
    let (client, form) = (args.connect.client(TRIES_OF_ONE_CALL)?, args.connect.form());
    let signals = Signals::watch()?;
    let stop = signals.stop();
    let mut ticks = tokio::time::interval(args.every);
    let ended = async {
        match args.lasts {
            Some(lasts) => tokio::time::sleep(lasts).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(ended);
    let mut seen = TailState::default();
    // A wrong address is said at once.
    look(&client, &mut seen, args.lines, form).await?;
    let mut is_away = false;
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(ExitCode::SUCCESS),
            () = &mut ended => return Ok(ExitCode::SUCCESS),
            _ = ticks.tick() => {}
        }
        match look(&client, &mut seen, args.lines, form).await {
            Ok(()) => is_away = false,
            Err(error) if is_away => tracing::debug!(%error, "the server is still away"),
            Err(error) => {
                output::error_line(&format!("the server does not answer: {error:#}; it is asked again"));
                is_away = true;
            }
        }
    }
}

async fn look(client: &Client, seen: &mut TailState, lines: u32, form: Form) -> Result<()> {
    let mut events = new_events(client, seen.newest, lines).await?;
    events.reverse();
    let shown = if seen.newest.is_none() && lines == 0 { &[] } else { events.as_slice() };
    for event in shown {
        match form {
            Form::Json => output::json(&serde_json::json!({ "event": event }))?,
            Form::Text => {
                output::line(&format!("{}  {}: {}", times::stamp_ms(event.at), event.event, event.text))
            }
        }
    }
    let newest = events.last().map(|event| event.id).or(seen.newest);
    seen.newest = Some(newest.unwrap_or(0));
    alerts(seen, client.alerts().await?.items, form)
}

/// The newest first.
async fn new_events(client: &Client, newest: Option<i64>, lines: u32) -> Result<Vec<Event>, Error> {
    let Some(newest) = newest else {
        let search = SearchEvents { limit: Some(lines.max(1)), ..SearchEvents::default() };
        return Ok(client.events(&search).await?.items);
    };
    let (mut found, mut cursor) = (Vec::new(), None);
    for _ in 0..PAGES_MAX {
        let search = SearchEvents { limit: Some(PAGE_MAX / 10), cursor, ..SearchEvents::default() };
        let page = client.events(&search).await?;
        let is_through = page.items.iter().any(|event| event.id <= newest);
        found.extend(page.items.into_iter().filter(|event| event.id > newest));
        cursor = page.next_cursor;
        if is_through || cursor.is_none() {
            break;
        }
    }
    Ok(found)
}

fn alerts(seen: &mut TailState, active: Vec<Alert>, form: Form) -> Result<()> {
    let active: BTreeMap<_, _> = active.into_iter().map(|alert| (key(&alert), alert)).collect();
    let began = active.iter().filter(|entry| !seen.alerts.contains_key(entry.0)).map(|entry| (true, entry.1));
    let ended =
        seen.alerts.iter().filter(|alert| !active.contains_key(alert.0)).map(|alert| (false, alert.1));
    for (begins, alert) in began.chain(ended) {
        let what = if begins { "alert_began" } else { "alert_ended" };
        match form {
            Form::Json => output::json(&serde_json::json!({ what: alert }))?,
            Form::Text => output::line(&format!("{what}: {}", lists::said(alert))),
        }
    }
    seen.alerts = active;
    Ok(())
}
