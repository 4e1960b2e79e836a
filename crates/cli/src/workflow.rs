//! `punctual workflow`: tasks that follow from each other.

use crate::{
    connect::{ConnectArgs, TRIES_OF_ONE_CALL},
    output::{self, Form},
    task::word,
    times,
};
use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use punctual_protocol::{CreateWorkflow, GraphFormat, Json, NodeStatus, Workflow, WorkflowState};
use serde::Serialize;
use std::{io::Read as _, process::ExitCode};

#[derive(Subcommand, Debug)]
pub(crate) enum WorkflowCommand {
    /// Start a workflow from a file with its JSON document
    Run(RunArgs),
    /// Show the workflows of the namespace, newest first
    List(WorkflowListArgs),
    /// Show one workflow with its nodes
    Get(WorkflowOneArgs),
    /// Cancel a workflow: no further node starts, and completed nodes are compensated
    Cancel(CancelArgs),
    /// Rerun the failed nodes of a workflow
    Retry(WorkflowOneArgs),
    /// Mark a node of a workflow as done
    Skip(SkipArgs),
    /// Start a copy of a workflow
    Rerun(RerunArgs),
    /// Print the graph of a workflow
    Graph(GraphArgs),
}

#[derive(Args, Debug)]
pub(crate) struct WorkflowOneArgs {
    /// Reference of the workflow
    r#ref: String,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Start a workflow
///
/// Examples:
///   punctual workflow run order.json --input '{"items": [1, 2, 3]}' --wait
///   echo '{"nodes": {"a": {"task": {"queue": "demo"}}, "b": {"task": {"queue": "demo"}, "after": ["a"]}}}' | punctual workflow run -
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct RunArgs {
    /// File with the JSON document that the API accepts; `-` reads stdin
    file: String,
    /// JSON input, instead of the input in the document
    #[arg(long, short, value_name = "JSON")]
    input: Option<String>,
    /// Wait until the workflow has ended; exit code 0 only if it succeeded
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct WorkflowListArgs {
    /// Only workflows with this name
    #[arg(long)]
    name: Option<String>,
    /// Only workflows in this state: running, compensating, succeeded, failed, compensated, cancelled
    #[arg(long, value_parser = word::<WorkflowState>)]
    state: Option<WorkflowState>,
    /// Maximum number of workflows to show
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Continue after the page that printed this cursor
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct CancelArgs {
    /// Reference of the workflow
    r#ref: String,
    /// Reason, shown with the workflow
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct SkipArgs {
    /// Reference of the workflow
    r#ref: String,
    /// Name of the node
    node: String,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct RerunArgs {
    /// Reference of the workflow
    r#ref: String,
    /// JSON input, instead of the original input
    #[arg(long, short, value_name = "JSON")]
    input: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct GraphArgs {
    /// Reference of the workflow
    r#ref: String,
    /// Format of the graph: mermaid, dot or json
    #[arg(long, value_parser = word::<GraphFormat>, default_value = "mermaid")]
    format: GraphFormat,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn run(command: WorkflowCommand) -> Result<ExitCode> {
    match command {
        WorkflowCommand::Run(args) => begin(args).await,
        WorkflowCommand::List(WorkflowListArgs { name, state, limit, cursor, connect }) => {
            let client = connect.client(TRIES_OF_ONE_CALL)?;
            let page = client.workflows(name.as_deref(), state, limit, cursor.as_deref()).await?;
            shown(connect.form(), &page, || print(&page.items))
        }
        WorkflowCommand::Get(WorkflowOneArgs { r#ref, connect }) => {
            let workflow = connect.client(TRIES_OF_ONE_CALL)?.workflow(&r#ref).await?;
            shown(connect.form(), &workflow, || print_one(&workflow))
        }
        WorkflowCommand::Cancel(CancelArgs { r#ref, reason, connect }) => {
            let workflow =
                connect.client(TRIES_OF_ONE_CALL)?.cancel_workflow(&r#ref, reason.as_deref()).await?;
            shown(connect.form(), &workflow, || print_one(&workflow))
        }
        WorkflowCommand::Retry(WorkflowOneArgs { r#ref, connect }) => {
            let workflow = connect.client(TRIES_OF_ONE_CALL)?.retry_workflow(&r#ref).await?;
            shown(connect.form(), &workflow, || print_one(&workflow))
        }
        WorkflowCommand::Skip(SkipArgs { r#ref, node, connect }) => {
            let workflow = connect.client(TRIES_OF_ONE_CALL)?.skip_node(&r#ref, &node).await?;
            shown(connect.form(), &workflow, || print_one(&workflow))
        }
        WorkflowCommand::Rerun(RerunArgs { r#ref, input, connect }) => {
            let input = json(input)?;
            let workflow = connect.client(TRIES_OF_ONE_CALL)?.rerun_workflow(&r#ref, input).await?;
            shown(connect.form(), &workflow, || print_one(&workflow))
        }
        WorkflowCommand::Graph(GraphArgs { r#ref, format, connect }) => {
            let client = connect.client(TRIES_OF_ONE_CALL)?;
            if format == GraphFormat::Json {
                let graph = client.workflow_graph(&r#ref).await?;
                output::json(&graph)?;
            } else {
                output::text(client.workflow_drawing(&r#ref, format).await?.trim_end());
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn json(text: Option<String>) -> Result<Option<Json>> {
    text.map(Json::from_text).transpose().context("--input is not JSON")
}

async fn begin(args: RunArgs) -> Result<ExitCode> {
    let text = if args.file == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("stdin cannot be read")?;
        text
    } else {
        std::fs::read_to_string(&args.file).with_context(|| format!("{} cannot be read", args.file))?
    };
    let mut workflow = CreateWorkflow::from_json(text.as_bytes())?;
    if let Some(input) = json(args.input)? {
        workflow.input = Some(input);
    }
    let client = args.connect.client(TRIES_OF_ONE_CALL)?;
    let mut workflow = client.create_workflow(&workflow).await?;
    if args.wait {
        workflow = client.workflow_ended(&workflow.r#ref).await?;
    }
    let code = shown(args.connect.form(), &workflow, || print_one(&workflow))?;
    let is_good = !args.wait || workflow.state == WorkflowState::Succeeded;
    Ok(if is_good { code } else { ExitCode::FAILURE })
}

fn shown(form: Form, answer: &impl Serialize, print: impl FnOnce()) -> Result<ExitCode> {
    match form {
        Form::Json => output::json(answer)?,
        Form::Text => print(),
    }
    Ok(ExitCode::SUCCESS)
}

/// The text of a value in the API.
fn reported(body: &impl Serialize) -> String {
    serde_json::to_value(body).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn print(workflows: &[Workflow]) {
    let rows = workflows.iter().map(|workflow| {
        let name =
            workflow.name.as_ref().map(|name| format!("{name} v{}", workflow.version)).unwrap_or_default();
        let reason = workflow.reason.clone().unwrap_or_default();
        [workflow.r#ref.clone(), name, reported(&workflow.state), times::away(workflow.created_at), reason]
    });
    output::table(["WORKFLOW", "NAME", "STATE", "BEGUN", "REASON"], rows);
}

fn print_one(workflow: &Workflow) {
    output::line(&format!("{} ({})", workflow.r#ref, workflow.namespace));
    let mut facts = vec![("state", reported(&workflow.state))];
    facts
        .extend(workflow.name.as_ref().map(|name| ("name", format!("{name}, version {}", workflow.version))));
    facts.extend(workflow.ending.map(|state| ("about to be", reported(&state))));
    facts.extend(workflow.reason.clone().map(|reason| ("reason", reason)));
    facts.extend(workflow.set_aside.clone().map(output::set_aside));
    facts.push(("begun", times::full(workflow.created_at)));
    facts.extend(workflow.finished_at.map(|finished_at| ("over", times::full(finished_at))));
    output::facts(&facts);
    let Some(nodes) = &workflow.nodes else { return };
    let rows = nodes.iter().map(|(name, node)| {
        let after = node.after.join(", ");
        let place = node.task_ref.clone().or_else(|| node.workflow_ref.clone()).unwrap_or_default();
        [name.clone(), state(node), after, place, what(node)]
    });
    output::table(["NODE", "STATE", "AFTER", "TASK", "RESULT"], rows);
}

fn state(node: &NodeStatus) -> String {
    let state = reported(&node.state);
    let state = match &node.items {
        None => state,
        Some(items) => {
            let ended = items.iter().filter(|node| node.ended_at_ms.is_some()).count();
            format!("{state} ({ended} of {})", items.len())
        }
    };
    match &node.compensation {
        None => state,
        Some(compensation) => format!("{state}, undoing {}", reported(&compensation.state)),
    }
}

/// The beginning of its result, or what is wrong.
fn what(node: &NodeStatus) -> String {
    const CHARS: usize = 60;
    let text = node.error.clone().or_else(|| node.result.as_ref().map(|json| json.get().to_owned()));
    let text = text.unwrap_or_default();
    if text.chars().nth(CHARS).is_none() { text } else { text.chars().take(CHARS).chain(['…']).collect() }
}
