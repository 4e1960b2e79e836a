//! `punctual namespace`: the tenants, their limits, what they hold, and their deletion.

use crate::{
    connect::{ConnectArgs, TRIES_OF_ONE_CALL},
    fields::{self, Written},
    output::{self, Form},
    task, times,
};
use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use punctual_protocol::{ListNamespaces, Namespace, NamespaceState, Page, PutNamespace};
use punctual_sdk::Client;
use serde::Serialize;
use std::{io::IsTerminal as _, process::ExitCode, time::Duration};

/// The pause between two reads of a deletion's progress.
const LOOK_AFTER: Duration = Duration::from_millis(500);
/// Namespaces of one page.
const PAGE: u32 = 1_000;

#[derive(Subcommand, Debug)]
pub(crate) enum NamespaceCommand {
    /// List the namespaces that the token may access, with the number of their tasks
    List(NamespaceListArgs),
    /// Show one namespace: limits, number of tasks, progress of its deletion
    Get(OneArgs),
    /// Create a namespace, or set its limits
    Set(SetArgs),
    /// Delete a namespace and all its tasks; this cannot be undone
    ///
    /// Shows the progress until the namespace is deleted. The deletion continues if this command is interrupted.
    Delete(DeleteArgs),
}

#[derive(Args, Debug)]
pub(crate) struct NamespaceListArgs {
    /// Only namespaces whose names begin with this prefix
    #[arg(long)]
    prefix: Option<String>,
    /// Only namespaces in this state: active or deleting
    #[arg(long, value_parser = task::word::<NamespaceState>)]
    state: Option<NamespaceState>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct OneArgs {
    /// Name of the namespace
    name: String,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct SetArgs {
    /// Name of the namespace
    name: String,
    /// Limits such as `max_waiting=1000000`, `concurrency=50` or `rate={"limit":100,"period_ms":"1s","burst":50}`, and
    /// `description=...`. Other limits are unchanged; a limit without a value (`concurrency=`) is removed. Or one JSON object,
    /// or `-` to read one from stdin, which replaces all limits
    #[arg(default_value = "{}", value_name = "SETTINGS")]
    settings: Vec<String>,
    /// Set the limits only if the namespace has this revision
    #[arg(long, value_name = "NUMBER")]
    if_revision: Option<i64>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct DeleteArgs {
    /// Name of the namespace
    name: String,
    /// The name once more, as confirmation; without it, the command asks at the terminal
    #[arg(long, value_name = "NAME")]
    confirm: Option<String>,
    /// Do not wait for the end of the deletion
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn run(command: NamespaceCommand) -> Result<ExitCode> {
    match command {
        NamespaceCommand::List(args) => list(args).await,
        NamespaceCommand::Get(OneArgs { name, connect }) => {
            let namespace = connect.client(TRIES_OF_ONE_CALL)?.get_namespace(&name).await?;
            shown(connect.form(), &namespace, || print_one(&namespace))
        }
        NamespaceCommand::Set(args) => set(args).await,
        NamespaceCommand::Delete(args) => delete(args).await,
    }
}

async fn list(NamespaceListArgs { prefix, state, connect }: NamespaceListArgs) -> Result<ExitCode> {
    let client = connect.client(TRIES_OF_ONE_CALL)?;
    let mut asked = ListNamespaces { prefix, state, limit: Some(PAGE), cursor: None };
    let mut all = Page { items: Vec::new(), next_cursor: None };
    loop {
        let page = client.list_namespaces(&asked).await?;
        all.items.extend(page.items);
        asked.cursor = page.next_cursor;
        if asked.cursor.is_none() {
            break;
        }
    }
    shown(connect.form(), &all, || print(&all.items))
}

async fn set(SetArgs { name, settings, if_revision, connect }: SetArgs) -> Result<ExitCode> {
    let client = connect.client(TRIES_OF_ONE_CALL)?;
    let (document, revision) = match fields::read(&settings)? {
        Written::Whole(document) => (document, if_revision),
        Written::Named(named) => {
            let current = client.get_namespace(&name).await?;
            // What another sets meanwhile must not be lost.
            let revision = if_revision.unwrap_or(current.limits.revision);
            (fields::changed(&current, named)?, Some(revision))
        }
    };
    let namespace =
        client.put_namespace(&name, &PutNamespace::from_json(document.as_bytes())?, revision).await?;
    shown(connect.form(), &namespace, || print_one(&namespace))
}

async fn delete(DeleteArgs { name, confirm, no_wait, connect }: DeleteArgs) -> Result<ExitCode> {
    let confirmed = match confirm {
        Some(confirm) => confirm,
        None => typed(&name)?,
    };
    if confirmed != name {
        bail!("nothing was deleted: {confirmed:?} is not {name:?}");
    }
    let (client, form) = (connect.client(TRIES_OF_ONE_CALL)?, connect.form());
    let mut current = client.delete_namespace(&name).await?;
    if form == Form::Json {
        output::json(&current)?;
    }
    if no_wait {
        if form == Form::Text {
            output::line(&format!(
                "{name} is being deleted; `punctual namespace get {name}` says how far it has come"
            ));
        }
        return Ok(ExitCode::SUCCESS);
    }
    current = until_gone(&client, &name, current).await?;
    match form {
        Form::Json => output::json(&current)?,
        Form::Text => output::line(&format!("{name} is deleted")),
    }
    Ok(ExitCode::SUCCESS)
}

/// The name, as it is typed at the terminal.
fn typed(name: &str) -> Result<String> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        bail!("to delete {name:?} with all that it holds, say its name once more: --confirm {name}");
    }
    output::error_line(&format!(
        "All tasks of {name:?} will be deleted, in every state. Type its name to go on:"
    ));
    let mut line = String::new();
    stdin.read_line(&mut line).context("the name cannot be read")?;
    Ok(line.trim().to_owned())
}

/// Prints the progress.
async fn until_gone(client: &Client, name: &str, mut current: Namespace) -> Result<Namespace> {
    let mut said = None;
    while current.state == NamespaceState::Deleting {
        let progress = progress(&current);
        if said.as_ref() != Some(&progress) {
            output::error_line(&progress);
            said = Some(progress);
        }
        tokio::time::sleep(LOOK_AFTER).await;
        current = client.get_namespace(name).await?;
    }
    Ok(current)
}

fn progress(namespace: &Namespace) -> String {
    let deletion = namespace.deletion.as_ref();
    match deletion.map(|deletion| (deletion.deleted, deletion.left)) {
        Some((_, Some(0))) => "all tasks are deleted; the rest follows within seconds".to_owned(),
        Some((Some(deleted), Some(left))) => {
            format!("{} tasks deleted, {} left", output::count(deleted), output::count(left))
        }
        Some((None, Some(left))) => format!("{} tasks left", output::count(left)),
        _ => "tasks are being deleted; how many are left is not known".to_owned(),
    }
}

fn shown(form: Form, answer: &impl Serialize, print: impl FnOnce()) -> Result<ExitCode> {
    match form {
        Form::Json => output::json(answer)?,
        Form::Text => print(),
    }
    Ok(ExitCode::SUCCESS)
}

const fn word(state: NamespaceState) -> &'static str {
    match state {
        NamespaceState::Active => "active",
        NamespaceState::Deleting => "deleting",
        NamespaceState::Absent => "absent",
    }
}

fn print(namespaces: &[Namespace]) {
    let rows = namespaces.iter().map(|namespace| {
        let number = |of: fn(&punctual_protocol::Usage) -> i64| {
            namespace.usage.as_ref().map_or_else(|| "?".to_owned(), |usage| of(usage).to_string())
        };
        [
            namespace.limits.namespace.clone().unwrap_or_default(),
            word(namespace.state).to_owned(),
            number(|usage| usage.tasks),
            number(|usage| usage.waiting),
            number(|usage| usage.in_flight),
            namespace.description.clone().unwrap_or_default(),
        ]
    });
    output::table(["NAMESPACE", "STATE", "TASKS", "WAITING", "IN FLIGHT", ""], rows);
}

fn print_one(namespace: &Namespace) {
    output::line(namespace.limits.namespace.as_deref().unwrap_or_default());
    let mut facts = vec![
        ("state", word(namespace.state).to_owned()),
        ("revision", namespace.limits.revision.to_string()),
    ];
    facts.extend(namespace.description.clone().map(|text| ("description", text)));
    if let Some(usage) = &namespace.usage {
        facts.push(("tasks", usage.tasks.to_string()));
        facts.push(("waiting", usage.waiting.to_string()));
        facts.push(("in flight", usage.in_flight.to_string()));
    }
    if let Some(deletion) = &namespace.deletion {
        facts.push((
            "deletion",
            format!("by {} since {}: {}", deletion.by, times::full(deletion.since), progress(namespace)),
        ));
    }
    output::settings(&facts, &fields::lines(&namespace.limits, &["namespace", "revision"]));
}
