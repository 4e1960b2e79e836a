//! `punctual inbox`: the table in a user's own database whose rows become tasks. Moves no row: engines do.

use crate::{
    config,
    connect::{ConnectArgs, TRIES_OF_ONE_CALL},
    output::{self, Form},
    spans, times,
};
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use punctual_contract::InboxTable as _;
use punctual_protocol::{At, Inbox, InboxState};
use punctual_store::{InboxStatus, InboxTableName, MysqlInbox, ShownRefusal};
use std::{path::PathBuf, process::ExitCode};

#[derive(Subcommand, Debug)]
pub(crate) enum InboxCommand {
    /// Create the table of an inbox and a view of what its columns take; if they exist, the rows stay
    Install(InstallArgs),
    /// Show the inboxes of a running server: rows that wait, their age, refused rows, the last error
    Status(ConnectArgs),
    /// Show the rows of one table that were refused, with their reasons
    Refused(RefusedArgs),
    /// Drop both; refused while rows are in the table
    Uninstall(UninstallArgs),
}

#[derive(Args, Debug)]
struct InboxUrl {
    /// Your own database, mysql://user:password@host:port/database
    #[arg(long, value_name = "URL", value_parser = mysql_url)]
    url: Option<String>,
    /// File with the URL, so that no password is visible on the command line
    #[arg(long, value_name = "FILE", conflicts_with = "url")]
    url_file: Option<PathBuf>,
    /// Table of the inbox; a database may have several
    #[arg(long, value_name = "NAME", default_value_t)]
    table: InboxTableName,
}

#[derive(Args, Debug)]
pub(crate) struct InstallArgs {
    #[command(flatten)]
    at: InboxUrl,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct RefusedArgs {
    #[command(flatten)]
    at: InboxUrl,
    /// Rows to show, the last ones
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    limit: u32,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct UninstallArgs {
    #[command(flatten)]
    at: InboxUrl,
    /// Also if rows are in the table, which are lost
    #[arg(long)]
    force: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

fn mysql_url(text: &str) -> Result<String, String> {
    if text.starts_with("mysql://") {
        Ok(text.to_owned())
    } else {
        Err("must be mysql://user:password@host:port/database".to_owned())
    }
}

impl InboxUrl {
    fn given(&self) -> Result<Option<String>> {
        let Some(path) = &self.url_file else { return Ok(self.url.clone()) };
        let text = config::read_secret(path)?;
        let url = mysql_url(text.trim());
        url.map(Some).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
    }

    fn table(&self) -> Result<MysqlInbox> {
        match self.given()? {
            Some(url) => Ok(MysqlInbox::new(&url, self.table.clone())?),
            None => bail!(
                "--url or --url-file is missing: say which database, mysql://user:password@host:port/database"
            ),
        }
    }
}

pub(crate) async fn run(command: InboxCommand) -> Result<ExitCode> {
    match command {
        InboxCommand::Install(args) => install(args).await,
        InboxCommand::Status(connect) => status(&connect).await,
        InboxCommand::Refused(args) => refused(args).await,
        InboxCommand::Uninstall(args) => uninstall(args).await,
    }
}

async fn install(InstallArgs { at, json }: InstallArgs) -> Result<ExitCode> {
    let table = at.table()?;
    let created = table.install().await?;
    if json {
        output::json(
            &serde_json::json!({ "at": table.at(), "table": at.table.as_str(), "created": created }),
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    let (shown, name) = (table.shown(), &at.table);
    let what = if created { "created" } else { "there already, and unchanged" };
    output::line(&format!("{shown}: {what}; the view {name}_limits shows what its columns take"));
    output::line(
        "Insert rows in your own transactions: only queue is required; docs/inbox.md has an example.",
    );
    let is_default = *name == InboxTableName::default();
    let behind = if is_default { String::new() } else { format!("#table={name}") };
    output::line(&format!(
        "They become tasks while an engine runs with it: punctual serve --inbox 'URL{behind}'"
    ));
    Ok(ExitCode::SUCCESS)
}

async fn uninstall(UninstallArgs { at, force, json }: UninstallArgs) -> Result<ExitCode> {
    let table = at.table()?;
    let dropped = table.uninstall(force).await?;
    if json {
        output::json(
            &serde_json::json!({ "at": table.at(), "table": at.table.as_str(), "dropped": dropped }),
        )?;
    } else {
        let what = if dropped { "dropped" } else { "there was no such table" };
        output::line(&format!("{}: {what}", table.shown()));
    }
    Ok(ExitCode::SUCCESS)
}

async fn refused(RefusedArgs { at, limit, json }: RefusedArgs) -> Result<ExitCode> {
    let table = at.table()?;
    let status = table.status(limit).await?;
    match Form::json_if(json) {
        Form::Json => output::json(&as_json(&table.at(), &status))?,
        Form::Text => {
            let counts = status.counts;
            output::facts(&[
                ("Table", table.shown()),
                ("Rows waiting", output::count(counts.waiting)),
                ("Oldest", counts.oldest_ms.map_or_else(|| "-".to_owned(), spans::span)),
                ("Rows refused", output::count(counts.refused)),
            ]);
            if !status.refused.is_empty() {
                output::table(
                    ["ROW", "QUEUE", "KEY", "REFUSED", "WHY"],
                    status.refused.iter().map(refused_row),
                );
                output::line(
                    "Mend a row and set its refused_at_ms to NULL, and it is tried again; or delete it.",
                );
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn as_json(at: &str, status: &InboxStatus) -> serde_json::Value {
    let as_json = |row: &ShownRefusal| {
        serde_json::json!({
            "id": row.id, "queue": row.queue, "key": row.key, "refused_at_ms": row.refused_at_ms, "refused_why": row.why,
        })
    };
    serde_json::json!({
        "at": at,
        "waiting": status.counts.waiting,
        "lag_ms": status.counts.oldest_ms,
        "refused": status.counts.refused,
        "rows": status.refused.iter().map(as_json).collect::<Vec<_>>(),
    })
}

fn refused_row(row: &ShownRefusal) -> [String; 5] {
    let at = times::stamp(At::from_ms(row.refused_at_ms));
    [row.id.to_string(), row.queue.clone(), row.key.clone().unwrap_or_default(), at, row.why.clone()]
}

async fn status(connect: &ConnectArgs) -> Result<ExitCode> {
    let page = connect.client(TRIES_OF_ONE_CALL)?.inboxes().await?;
    match connect.form() {
        Form::Json => output::json(&page)?,
        Form::Text if page.items.is_empty() => {
            output::line(
                "no inboxes; start the server with --inbox mysql://user:password@host:port/database",
            );
        }
        Form::Text => {
            let header = ["INBOX", "STATE", "WAITING", "OLDEST", "REFUSED", "AT", "LAST ERROR"];
            output::table(header, page.items.iter().map(inbox));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn inbox(inbox: &Inbox) -> [String; 7] {
    let state = match inbox.state {
        InboxState::Moving => "moving",
        InboxState::Standby => "standby",
        InboxState::Away => "away",
    };
    let count = |rows: Option<u64>| rows.map_or_else(|| "-".to_owned(), output::count);
    [
        inbox.name.clone(),
        state.to_owned(),
        count(inbox.waiting),
        inbox.lag_ms.map_or_else(|| "-".to_owned(), spans::span),
        count(inbox.refused),
        inbox.at.clone(),
        inbox.last_error.clone().unwrap_or_default(),
    ]
}
