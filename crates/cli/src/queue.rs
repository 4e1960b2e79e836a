//! `punctual queue`: the queues, what is set for them, pause and resume.

use crate::{
    cluster::stats,
    connect::{ConnectArgs, TRIES_OF_ONE_CALL},
    fields::{self, Written},
    output::{self, Form},
    spans, times,
};
use anyhow::Result;
use clap::{Args, Subcommand};
use punctual_protocol::{
    Code, Mode, Parked, ParkedFor, PauseRequest, PutQueue, Queue, QueueCounts, ScanReport, SettingChange,
    Slots, Source, nearest,
};
use punctual_sdk::Client;
use serde::Serialize;
use std::process::ExitCode;

#[derive(Subcommand, Debug)]
pub(crate) enum QueueCommand {
    /// List the queues that have tasks or settings, with the number of tasks in each state
    List(ConnectArgs),
    /// Show one queue: its settings, its tasks by state, who paused it
    Get(OneArgs),
    /// Change some settings (concurrency=10), or replace all with a JSON object
    Set(QueueSetArgs),
    /// Pause a queue: after this command none of its tasks starts
    Pause(PauseArgs),
    /// Resume a queue: its waiting tasks start in their order
    Resume(OneArgs),
    /// Scan the store now for due tasks of a queue whose source is the store, and report what was found
    Scan(OneArgs),
    /// Show the history of a queue's settings, newest first
    History(HistoryArgs),
}

#[derive(Args, Debug)]
pub(crate) struct OneArgs {
    /// Name of the queue
    queue: String,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct QueueSetArgs {
    /// Name of the queue
    queue: String,
    /// Settings such as `concurrency=10`, `timeout_ms=5m`, `rate={"limit":100,"period_ms":1000,"burst":20}` or
    /// `mode=webhook webhook.url=https://example.org/tasks`. Other settings
    /// are unchanged; a setting without a value (`concurrency=`) gets its default. Or one JSON object, or `-` to read one from
    /// stdin, which replaces all settings: those that it does not name get their defaults, but a pause remains
    #[arg(required = true, value_name = "SETTINGS")]
    settings: Vec<String>,
    /// Change the settings only if the queue has this revision
    #[arg(long, value_name = "NUMBER")]
    if_revision: Option<i64>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct PauseArgs {
    /// Name of the queue
    queue: String,
    /// Reason, shown with the pause
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Name of the person who pauses
    #[arg(long, env = "USER", value_name = "NAME")]
    by: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct HistoryArgs {
    /// Name of the queue
    queue: String,
    /// Maximum number of changes to show
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Prints a hint beside an empty list, whose name may be misspelt. It is omitted if the server cannot be asked now.
pub(crate) async fn say_if_unknown(client: &Client, queue: Option<&str>) {
    let Some(name) = queue else { return };
    match client.queue(name).await {
        Err(error) if error.is(Code::QueueNotFound) => {}
        _ => return,
    }
    let known = client.queues().await.map(|page| page.items).unwrap_or_default();
    let meant = nearest(name, known.iter().map(|queue| queue.queue.as_str()));
    let meant = meant.map(|name| format!("; did you mean --queue {name}?")).unwrap_or_default();
    output::error_line(&format!("there is no queue {name:?} in this namespace{meant}"));
}

pub(crate) async fn run(command: QueueCommand) -> Result<ExitCode> {
    match command {
        QueueCommand::List(connect) => {
            let page = connect.client(TRIES_OF_ONE_CALL)?.queues().await?;
            shown(connect.form(), &page, || print(&page.items))
        }
        QueueCommand::Get(OneArgs { queue, connect }) => {
            let queue = connect.client(TRIES_OF_ONE_CALL)?.queue(&queue).await?;
            shown(connect.form(), &queue, || print_one(&queue))
        }
        QueueCommand::Set(args) => set(args).await,
        QueueCommand::Pause(PauseArgs { queue, reason, by, connect }) => {
            let by = by.filter(|by| !by.is_empty());
            let request = PauseRequest { reason, by };
            let queue = connect.client(TRIES_OF_ONE_CALL)?.pause(&queue, &request).await?;
            shown(connect.form(), &queue, || print_one(&queue))
        }
        QueueCommand::Resume(OneArgs { queue, connect }) => {
            let queue = connect.client(TRIES_OF_ONE_CALL)?.resume(&queue).await?;
            shown(connect.form(), &queue, || print_one(&queue))
        }
        QueueCommand::Scan(OneArgs { queue, connect }) => {
            let report = connect.client(TRIES_OF_ONE_CALL)?.scan(&queue).await?;
            shown(connect.form(), &report, || print_scan(&report))?;
            // What could not be written is tried again by the next scan; a script is to know of it.
            Ok(if report.failed == 0 && report.is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        QueueCommand::History(HistoryArgs { queue, limit, connect }) => {
            let page = connect.client(TRIES_OF_ONE_CALL)?.queue_changes(&queue, limit, None).await?;
            shown(connect.form(), &page, || print_changes(&page.items))
        }
    }
}

async fn set(QueueSetArgs { queue, settings, if_revision, connect }: QueueSetArgs) -> Result<ExitCode> {
    let client = connect.client(TRIES_OF_ONE_CALL)?;
    let queue = match fields::read(&settings)? {
        Written::Named(patch) if fields::are_nested(&patch) => {
            let current = match client.queue(&queue).await {
                Err(error) if error.is(Code::QueueNotFound) => Queue::default(),
                other => other?,
            };
            let patch = fields::nested(&current, patch)?;
            client.patch_queue(&queue, &patch, if_revision.or(Some(current.revision))).await?
        }
        Written::Named(patch) => client.patch_queue(&queue, &patch, if_revision).await?,
        Written::Whole(document) => {
            let settings = PutQueue::from_json(document.as_bytes())?;
            client.put_queue(&queue, &settings, if_revision).await?
        }
    };
    shown(connect.form(), &queue, || print_one(&queue))
}

fn shown(form: Form, answer: &impl Serialize, print: impl FnOnce()) -> Result<ExitCode> {
    match form {
        Form::Json => output::json(answer)?,
        Form::Text => print(),
    }
    Ok(ExitCode::SUCCESS)
}

fn print_scan(report: &ScanReport) {
    let ScanReport { found, handed_over, failed, took_ms, is_complete } = report;
    output::facts(&[
        ("found", output::count(*found)),
        ("handed over", output::count(*handed_over)),
        ("failed", output::count(*failed)),
        ("took", spans::span(i64::try_from(*took_ms).unwrap_or(i64::MAX))),
    ]);
    if !is_complete {
        output::error_line("the scan is incomplete: the next scan continues, or start another");
    }
}

fn print(queues: &[Queue]) {
    let rows = queues.iter().map(|queue| {
        let paused = match (&queue.pause, queue.source, queue.mode) {
            (Some(_), _, _) => "paused",
            (None, Some(Source::Store), _) => "scanned",
            (None, _, Some(Mode::Webhook)) => "webhook",
            _ => "",
        };
        [
            queue.queue.clone(),
            paused.to_owned(),
            output::count(queue.waiting.unsigned_abs()),
            output::count(queue.ready),
            tasks(queue),
        ]
    });
    output::table(["QUEUE", "STATE", "WAITING", "READY", "TASKS BY STATE"], rows);
}

fn tasks(queue: &Queue) -> String {
    queue.tasks.iter().map(|(state, count)| format!("{state} {count}")).collect::<Vec<_>>().join(", ")
}

fn print_one(queue: &Queue) {
    output::line(&format!("{} ({})", queue.queue, queue.namespace));
    let mut facts = vec![
        ("revision", queue.revision.to_string()),
        ("waiting", queue.waiting.to_string()),
        ("ready", queue.ready.to_string()),
        ("tasks", tasks(queue)),
    ];
    if let Some(pause) = &queue.pause {
        let because = pause.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        facts.push(("paused", format!("by {} at {}{because}", pause.by, times::full(pause.at))));
    }
    facts.extend(queue.slots.iter().map(|slots| ("slots", reported_slots(slots))));
    facts.extend(queue.parked.iter().map(|parked| ("set aside", reported_parked(parked))));
    facts.extend(
        queue
            .indexing
            .iter()
            .map(|indexing| ("indexing", format!("{}: {} %", indexing.label, indexing.percent))),
    );
    if let Some(rates) = &queue.rates {
        let per_second = |what, rate: f64| format!("{what} {rate:.1}/s");
        let [inserted, fired, done] = [
            per_second("inserted", rates.inserted),
            per_second("fired", rates.fired),
            per_second("succeeded", rates.succeeded),
        ];
        facts.push(("rates", format!("{inserted}, {fired}, {done}")));
    }
    if let Some(counted) = &queue.counted {
        let QueueCounts { inserted, fired, retried, dead, cancelled, lateness } = counted;
        let since = [(inserted, "inserted"), (fired, "fired"), (retried, "retried"), (dead, "dead")];
        let since = since.into_iter().chain([(cancelled, "cancelled")]);
        let since = since.map(|(many, what)| format!("{} {what}", output::count(*many))).collect::<Vec<_>>();
        facts.push(("here", format!("{} since this engine began", since.join(", "))));
        facts.push(("lateness", stats::lateness(lateness)));
    }
    output::settings(&facts, &fields::lines(queue, &REPORTED_ELSEWHERE));
}

/// `3 of 10 held: t1 (began 3 s ago), …`: the first of them.
fn reported_slots(slots: &Slots) -> String {
    const HOLDERS_SHOWN: usize = 3;
    let of = slots.limit.map_or_else(String::new, |limit| format!(" of {limit}"));
    let holders = slots.holders.iter().take(HOLDERS_SHOWN);
    let mut shown: Vec<String> =
        holders.map(|holder| format!("{} (began {})", holder.r#ref, times::away(holder.since))).collect();
    if slots.holders.len() > shown.len() {
        shown.push("…".to_owned());
    }
    let shown = if shown.is_empty() { String::new() } else { format!(": {}", shown.join(", ")) };
    format!("{}{of} held{shown}", slots.held)
}

/// `12, for the concurrency key "customer-7"`.
fn reported_parked(parked: &Parked) -> String {
    let tasks = output::count(parked.tasks);
    let name = parked.name.as_deref().unwrap_or_default();
    match parked.waits_for {
        ParkedFor::Key => format!("{tasks}, for the concurrency key {name:?}"),
        ParkedFor::Retries => format!("{tasks}, for a slot of what is tried again"),
        ParkedFor::HandlerVersions => format!("{tasks}, for an executor of version {name}"),
        ParkedFor::Kind => format!("{tasks}, for an executor that takes the kind {name:?}"),
    }
}

/// The fields of an answer that are not settings.
const REPORTED_ELSEWHERE: [&str; 15] = [
    "queue",
    "namespace",
    "revision",
    "updated_at",
    "updated_at_ms",
    "updated_by",
    "pause",
    "tasks",
    "waiting",
    "ready",
    "slots",
    "parked",
    "indexing",
    "counted",
    "rates",
];

fn print_changes(changes: &[SettingChange]) {
    let rows = changes.iter().map(|change| {
        let settings = change.settings.as_ref().map_or_else(|| "(removed)".to_owned(), ToString::to_string);
        [change.revision.to_string(), times::stamp(change.changed_at), change.changed_by.clone(), settings]
    });
    output::table(["REVISION", "AT", "BY", "SETTINGS"], rows);
}
