//! Events, engines, partitions and alerts as tables, or in the form of the API.

use super::args::{AskArgs, EventsArgs, PartitionsArgs};
use crate::{
    connect::TRIES_OF_ONE_CALL,
    output::{self, Form},
    spans, times,
};
use anyhow::Result;
use punctual_protocol::{Alert, Engine, EngineState, Event, ListPartitions, Severity};
use std::process::ExitCode;

pub(super) async fn events(args: EventsArgs) -> Result<ExitCode> {
    let (client, form) = (args.connect.client(TRIES_OF_ONE_CALL)?, args.connect.form());
    let page = client.events(&args.into_search()).await?;
    match form {
        Form::Json => output::json(&page)?,
        Form::Text => {
            output::table(["AT", "EVENT", "WHAT"], page.items.iter().map(event));
            more(page.next_cursor.as_deref());
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn more(cursor: Option<&str>) {
    if let Some(cursor) = cursor {
        output::error_line(&format!("more with --cursor {cursor}"));
    }
}

fn event(event: &Event) -> [String; 3] {
    [times::stamp(event.at), event.event.clone(), event.text.clone()]
}

pub(super) async fn engines(args: AskArgs) -> Result<ExitCode> {
    let page = args.connect.client(TRIES_OF_ONE_CALL)?.engines().await?;
    match args.connect.form() {
        Form::Json => output::json(&page)?,
        Form::Text => print_engines(&page.items),
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn print_engines(engines: &[Engine]) {
    let rows = engines.iter().map(|engine| {
        let rate = |of: fn(&punctual_protocol::Rates) -> f64| {
            engine.rates.as_ref().map_or_else(|| "-".to_owned(), |rates| format!("{:.1}", of(rates)))
        };
        [
            engine.name.clone(),
            state(engine),
            engine.partitions.to_string(),
            if engine.has_hot_set { "yes" } else { "no" }.to_owned(),
            rate(|rates| rates.inserted),
            rate(|rates| rates.fired),
            engine.version.clone().unwrap_or_default(),
        ]
    });
    output::table(["ENGINE", "STATE", "PARTITIONS", "HOT SET", "INSERTS/S", "FIRES/S", "VERSION"], rows);
}

fn state(engine: &Engine) -> String {
    let away = engine.databases_away.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    match (engine.state, engine.silent_ms) {
        (EngineState::Silent, silent_ms) => {
            format!("silent for {}", spans::span(silent_ms.unwrap_or_default()))
        }
        (EngineState::Alive, _) if !away.is_empty() => format!("without database {away}"),
        (EngineState::Alive, _) if engine.leads => "alive, leads".to_owned(),
        (EngineState::Alive, _) => "alive".to_owned(),
    }
}

pub(super) async fn partitions(args: PartitionsArgs) -> Result<ExitCode> {
    let asked = ListPartitions { limit: Some(args.limit), cursor: args.cursor };
    let page = args.connect.client(TRIES_OF_ONE_CALL)?.partitions(&asked).await?;
    if args.connect.form() == Form::Json {
        output::json(&page)?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows = page.items.iter().map(|partition| {
        [
            partition.partition.to_string(),
            match partition.moving_to {
                Some(to) => format!("{}, moving to {to}", partition.database),
                None => partition.database.to_string(),
            },
            partition.engine.clone().unwrap_or_else(|| "(nobody)".to_owned()),
            partition.term.to_string(),
            partition.lease_left_ms.map(spans::span).unwrap_or_default(),
            partition.overdue_since.map(times::away).unwrap_or_default(),
        ]
    });
    output::table(["PARTITION", "DATABASE", "ENGINE", "TERM", "LEASE LEFT", "OVERDUE"], rows);
    more(page.next_cursor.as_deref());
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn alerts(args: AskArgs) -> Result<ExitCode> {
    let client = args.connect.client(TRIES_OF_ONE_CALL)?;
    let page = match args.connect.named_namespace() {
        Some(namespace) => client.alerts_of(namespace).await?,
        None => client.alerts().await?,
    };
    match args.connect.form() {
        Form::Json => output::json(&page)?,
        Form::Text if page.items.is_empty() => output::line("no alerts"),
        Form::Text => print_alerts(&page.items),
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn print_alerts(alerts: &[Alert]) {
    for alert in alerts {
        output::prose(&said(alert), "", "  ");
        for consequence in &alert.consequences {
            let about = about(consequence.namespace.as_deref(), consequence.queue.as_deref());
            output::prose(&format!("- {}{about}: {}", consequence.name, consequence.text), "    ", "      ");
        }
        output::prose(&alert.what_to_do, "    ", "    ");
    }
}

/// One line.
pub(super) fn said(alert: &Alert) -> String {
    let severity = match alert.severity {
        Severity::Critical => "critical",
        Severity::Warning => "warning",
    };
    let about = about(alert.namespace.as_deref(), alert.queue.as_deref());
    format!("{severity} {}{about} since {}: {}", alert.name, times::full(alert.since), alert.text)
}

/// The queue that it is about, with its namespace.
fn about(namespace: Option<&str>, queue: Option<&str>) -> String {
    match (namespace, queue) {
        (Some(namespace), Some(queue)) => format!(" ({namespace}/{queue})"),
        (None, Some(one)) | (Some(one), None) => format!(" ({one})"),
        (None, None) => String::new(),
    }
}
