//! `punctual audit …`: who changed what, as a server shows it. Changes nothing.

use crate::{
    connect::{ConnectArgs, TRIES_OF_ONE_CALL},
    output::{self, Form},
    times,
};
use anyhow::Result;
use clap::{Args, Subcommand};
use punctual_protocol::{AuditEntry, SearchAudit, TimeBound, limits::PAGE_MAX};
use std::process::ExitCode;

#[derive(Subcommand, Debug)]
pub(crate) enum AuditCommand {
    List(ListArgs),
    Export(ExportArgs),
}

/// Filters of entries; all given filters must match
#[derive(Args, Debug)]
struct WhichArgs {
    /// Only entries of this token id
    #[arg(long, value_name = "ID")]
    token: Option<String>,
    /// Only entries of this operation, such as pause_queue
    #[arg(long, value_name = "NAME")]
    action: Option<String>,
    /// Only entries of this namespace [default: all]
    #[arg(long = "of-namespace", value_name = "NAME")]
    of_namespace: Option<String>,
    /// At or after this time: RFC 3339, local time, or a duration ago, such as 1h30m
    #[arg(long, value_name = "INSTANT", value_parser = times::since)]
    since: Option<TimeBound>,
    /// Before this time
    #[arg(long, value_name = "INSTANT", value_parser = times::since)]
    until: Option<TimeBound>,
}

/// List entries of the audit log, newest first
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    which: WhichArgs,
    /// Entries per page
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Continue after the page that printed this cursor
    #[arg(long)]
    cursor: Option<String>,
    /// Show all pages
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Write all matching entries as NDJSON, newest first: one JSON document per line
#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    which: WhichArgs,
    #[command(flatten)]
    connect: ConnectArgs,
}

impl WhichArgs {
    fn into_search(self, limit: u32, cursor: Option<String>) -> SearchAudit {
        SearchAudit {
            token: self.token,
            action: self.action,
            namespace: self.of_namespace,
            since: self.since,
            until: self.until,
            limit: Some(limit),
            cursor,
        }
    }
}

pub(crate) async fn run(command: AuditCommand) -> Result<ExitCode> {
    match command {
        AuditCommand::List(args) => list(args).await,
        AuditCommand::Export(args) => export(args).await,
    }
}

async fn list(args: ListArgs) -> Result<ExitCode> {
    let client = args.connect.client(TRIES_OF_ONE_CALL)?;
    let form = args.connect.form();
    let mut search = args.which.into_search(args.limit, args.cursor);
    loop {
        let page = client.audit(&search).await?;
        match form {
            Form::Json => output::json(&page)?,
            Form::Text => print(&page.items),
        }
        search.cursor = page.next_cursor;
        match &search.cursor {
            Some(_) if args.all => {}
            Some(cursor) => {
                if form == Form::Text {
                    output::error_line(&format!("more with --cursor {cursor}, or all with --all"));
                }
                return Ok(ExitCode::SUCCESS);
            }
            None => return Ok(ExitCode::SUCCESS),
        }
    }
}

/// A page at a time, so that an audit of any length needs the memory of one.
async fn export(args: ExportArgs) -> Result<ExitCode> {
    let client = args.connect.client(TRIES_OF_ONE_CALL)?;
    let mut search = args.which.into_search(PAGE_MAX, None);
    loop {
        let page = client.audit(&search).await?;
        page.items.iter().try_for_each(output::json)?;
        search.cursor = page.next_cursor;
        if search.cursor.is_none() {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

fn print(entries: &[AuditEntry]) {
    let rows = entries.iter().map(|entry| {
        let times = if entry.times > 1 { format!(" ({} times)", entry.times) } else { String::new() };
        [
            times::stamp(entry.at),
            caller(entry),
            entry.address.clone().unwrap_or_default(),
            format!("{}{times}", entry.action),
            entry.status.map_or_else(|| "?".to_owned(), |status| status.to_string()),
            entry.request.clone(),
        ]
    });
    output::table(["AT", "WHO", "FROM", "ACTION", "STATUS", "REQUEST"], rows);
}

/// Name and id of the token, or what else is known.
fn caller(entry: &AuditEntry) -> String {
    match &entry.token_id {
        Some(id) => format!("{} ({id})", entry.caller),
        None => entry.caller.clone(),
    }
}
