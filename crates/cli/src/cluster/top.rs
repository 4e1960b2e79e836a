//! The cluster live: one page, drawn again and again. Where the output is no terminal, page after page.

use super::{args::TopArgs, lists, stats};
use crate::{
    connect::TRIES_OF_ONE_CALL,
    output::{self, Form},
    signals::Signals,
    times,
};
use anyhow::Result;
use punctual_protocol::SearchEvents;
use punctual_sdk::Client;
use std::process::ExitCode;

/// Events of the page.
const EVENTS: u32 = 5;

pub(super) async fn run(args: TopArgs) -> Result<ExitCode> {
    let (client, form) = (args.connect.client(TRIES_OF_ONE_CALL)?, args.connect.form());
    let signals = Signals::watch()?;
    let stop = signals.stop();
    let mut ticks = tokio::time::interval(args.every);
    let mut left = args.times;
    while left != Some(0) {
        tokio::select! {
            () = stop.cancelled() => break,
            _ = ticks.tick() => {}
        }
        look(&client, form).await?;
        left = left.map(|left| left - 1);
    }
    Ok(ExitCode::SUCCESS)
}

async fn look(client: &Client, form: Form) -> Result<()> {
    let search = SearchEvents { limit: Some(EVENTS), ..SearchEvents::default() };
    let (stats, due) = (client.stats().await?, client.due().await?);
    let (engines, alerts) = (client.engines().await?, client.alerts().await?);
    let events = client.events(&search).await?;
    if form == Form::Json {
        return Ok(output::json(&serde_json::json!({
            "stats": stats, "due": due, "engines": engines.items, "alerts": alerts.items, "events": events.items,
        }))?);
    }
    output::clear_screen();
    output::line(&format!("punctual at {}", times::stamp(stats.at)));
    stats::print(&stats);
    stats::ahead(&due);
    output::line("");
    lists::print_engines(&engines.items);
    if !alerts.items.is_empty() {
        output::line("");
        alerts.items.iter().for_each(|alert| output::prose(&lists::said(alert), "", "  "));
    }
    if !events.items.is_empty() {
        output::line("");
        events
            .items
            .iter()
            .for_each(|event| output::line(&format!("{}  {}", times::stamp(event.at), event.text)));
    }
    Ok(())
}
