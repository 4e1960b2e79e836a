//! `punctual schedule`: tasks that are made again and again.

mod crontab;

use crate::{
    connect::{ConnectArgs, TRIES_OF_ONE_CALL},
    duration,
    output::{self, Form},
    spans,
    task::word,
    times,
};
use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use punctual_protocol::{
    BackfillSchedule, Exclude, Instant, Json, OneOrMany, Overlap, PauseSchedule, PutSchedule, Schedule,
    ScheduleRun, ScheduledTask, UpcomingRun,
};
use serde::Serialize;
use std::{io::Read as _, process::ExitCode, time::Duration};

#[derive(Subcommand, Debug)]
pub(crate) enum ScheduleCommand {
    /// Create or change a schedule, from flags or from a file with a JSON document
    Create(Box<CreateArgs>),
    /// Show the schedules of the namespace
    List(ConnectArgs),
    /// Show one schedule
    Get(ScheduleOneArgs),
    /// Show the next runs of a schedule
    Next(NextArgs),
    /// Show the past runs of a schedule and their outcomes, latest first
    Runs(RunsArgs),
    /// Pause a schedule: after this command none of its runs fires
    Pause(PauseArgs),
    /// Resume a schedule: missed runs are handled as its `missed` setting says
    Resume(ScheduleOneArgs),
    /// Run the task of a schedule now, in addition to its regular runs
    Run(ScheduleOneArgs),
    /// Create the runs of a past time range
    Backfill(BackfillArgs),
    /// Delete a schedule, and the runs that were created ahead
    Delete(ScheduleOneArgs),
    /// Import schedules from another program
    #[command(subcommand)]
    Import(ImportCommand),
}

#[derive(Subcommand, Debug)]
pub(crate) enum ImportCommand {
    Crontab(crontab::CrontabArgs),
}

#[derive(Args, Debug)]
pub(crate) struct ScheduleOneArgs {
    /// Name of the schedule
    name: String,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Create or change a schedule
///
/// Examples:
///   punctual schedule create digest --cron '0 9 * * MON-FRI' --time-zone Europe/Berlin --queue mail
///   punctual schedule create poll --every 30s --queue poll --overlap skip
///   punctual schedule create report --file report.json
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct CreateArgs {
    /// Name of the schedule
    name: String,
    /// File with the JSON document that the API accepts; `-` reads stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cron", "every", "at", "queue"])]
    file: Option<String>,
    /// Cron expression: five fields, six with seconds, or a name such as @daily; may be repeated
    #[arg(long)]
    cron: Vec<String>,
    /// Interval, such as 30s or 1h
    #[arg(long, value_parser = duration::parse, allow_hyphen_values = true)]
    every: Option<Duration>,
    /// Time of a run, RFC 3339; may be repeated
    #[arg(long, value_name = "RFC3339")]
    at: Vec<String>,
    /// Time zone of --cron and --exclude [default: UTC]
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// No runs before this time, RFC 3339
    #[arg(long, value_name = "RFC3339")]
    start: Option<String>,
    /// No runs after this time, RFC 3339
    #[arg(long, value_name = "RFC3339")]
    end: Option<String>,
    /// Maximum number of runs; the schedule ends after them
    #[arg(long, value_name = "NUMBER")]
    max_runs: Option<u64>,
    /// Delay each run by up to this duration; the delay of a given run is always the same
    #[arg(long, value_parser = duration::parse, allow_hyphen_values = true)]
    jitter: Option<Duration>,
    /// Exclude a date, a range `a/b`, or the times of a cron expression; may be repeated
    #[arg(long, value_name = "RULE")]
    exclude: Vec<String>,
    /// If the previous run has not ended: skip, buffer_one, buffer_all, allow, cancel_other
    #[arg(long, value_parser = word::<Overlap>)]
    overlap: Option<Overlap>,
    /// What to do with runs that were missed while no engine ran: skip, latest, all
    #[arg(long, value_parser = word::<punctual_protocol::Missed>)]
    missed: Option<punctual_protocol::Missed>,
    /// Queue of the tasks
    #[arg(long, short, required_unless_present = "file")]
    queue: Option<String>,
    /// Kind of the task; selects the handler
    #[arg(long, short)]
    kind: Option<String>,
    /// Priority, 1 (first) to 5 (last)
    #[arg(long)]
    priority: Option<u8>,
    /// JSON payload; {"$expr": "..."} in it is evaluated for each run
    #[arg(long, short, value_name = "JSON")]
    payload: Option<String>,
    /// Description of the schedule, for people
    #[arg(long)]
    description: Option<String>,
    /// Team or person who is responsible for the schedule
    #[arg(long)]
    owner: Option<String>,
    /// Only if the schedule has this revision; 0: only if there is no such schedule
    #[arg(long, value_name = "NUMBER")]
    if_revision: Option<i64>,
    /// Change nothing; show which runs there would be
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct NextArgs {
    /// Name of the schedule
    name: String,
    /// Number of runs to show
    #[arg(short, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    n: u32,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct RunsArgs {
    /// Name of the schedule
    name: String,
    /// Maximum number of runs to show
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct PauseArgs {
    /// Name of the schedule
    name: String,
    /// Reason, shown with the pause
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// End the pause at this time: RFC 3339, local time, or a duration from now, such as 1h30m
    #[arg(long, value_name = "INSTANT", value_parser = times::instant)]
    until: Option<String>,
    /// Name of the person who pauses
    #[arg(long, env = "USER", value_name = "NAME")]
    by: Option<String>,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct BackfillArgs {
    /// Name of the schedule
    name: String,
    /// Start of the range (inclusive): RFC 3339, local time, or a duration ago
    #[arg(long, value_name = "INSTANT", value_parser = times::past)]
    from: String,
    /// End of the range (exclusive)
    #[arg(long, value_name = "INSTANT", value_parser = times::past)]
    to: String,
    /// Runs that fire per second
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rate: Option<u32>,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn run(command: ScheduleCommand) -> Result<ExitCode> {
    match command {
        ScheduleCommand::Create(args) => create(*args).await,
        ScheduleCommand::List(connect) => {
            let page = connect.client(TRIES_OF_ONE_CALL)?.schedules(1_000, None).await?;
            shown(connect.form(), &page, || print(&page.items))
        }
        ScheduleCommand::Get(ScheduleOneArgs { name, connect }) => {
            let schedule = connect.client(TRIES_OF_ONE_CALL)?.schedule(&name).await?;
            shown(connect.form(), &schedule, || print_one(&schedule))
        }
        ScheduleCommand::Next(NextArgs { name, n, connect }) => {
            let page = connect.client(TRIES_OF_ONE_CALL)?.next_runs(&name, n).await?;
            shown(connect.form(), &page, || print_next(&page.items))
        }
        ScheduleCommand::Runs(RunsArgs { name, limit, connect }) => {
            let page = connect.client(TRIES_OF_ONE_CALL)?.schedule_runs(&name, limit, None).await?;
            shown(connect.form(), &page, || print_runs(&page.items))
        }
        ScheduleCommand::Pause(PauseArgs { name, reason, until, by, connect }) => {
            let by = by.filter(|by| !by.is_empty());
            let request = PauseSchedule { reason, by, until: until.map(Instant::Text), until_ms: None };
            let schedule = connect.client(TRIES_OF_ONE_CALL)?.pause_schedule(&name, &request).await?;
            shown(connect.form(), &schedule, || print_one(&schedule))
        }
        ScheduleCommand::Resume(ScheduleOneArgs { name, connect }) => {
            let schedule = connect.client(TRIES_OF_ONE_CALL)?.resume_schedule(&name).await?;
            shown(connect.form(), &schedule, || print_one(&schedule))
        }
        ScheduleCommand::Run(ScheduleOneArgs { name, connect }) => {
            let run = connect.client(TRIES_OF_ONE_CALL)?.run_schedule(&name).await?;
            shown(connect.form(), &run, || print_runs(std::slice::from_ref(&run)))
        }
        ScheduleCommand::Backfill(BackfillArgs { name, from, to, rate, connect }) => {
            let request = BackfillSchedule { from: Instant::Text(from), to: Instant::Text(to), rate };
            let backfill_answer =
                connect.client(TRIES_OF_ONE_CALL)?.backfill_schedule(&name, &request).await?;
            shown(connect.form(), &backfill_answer, || {
                output::line(&format!("{} runs", backfill_answer.runs))
            })
        }
        ScheduleCommand::Delete(ScheduleOneArgs { name, connect }) => {
            let schedule = connect.client(TRIES_OF_ONE_CALL)?.delete_schedule(&name).await?;
            shown(connect.form(), &schedule, || output::line(&format!("{} is deleted", schedule.name)))
        }
        ScheduleCommand::Import(ImportCommand::Crontab(args)) => crontab::import(args).await,
    }
}

async fn create(mut args: CreateArgs) -> Result<ExitCode> {
    let schedule = match args.file.take() {
        Some(file) => {
            let text = if file == "-" {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text).context("stdin cannot be read")?;
                text
            } else {
                std::fs::read_to_string(&file).with_context(|| format!("{file} cannot be read"))?
            };
            PutSchedule::from_json(text.as_bytes())?
        }
        None => of_flags(&mut args)?,
    };
    let client = args.connect.client(TRIES_OF_ONE_CALL)?;
    if args.dry_run {
        let page = client.preview_schedule(&schedule, 10).await?;
        return shown(args.connect.form(), &page, || print_next(&page.items));
    }
    let schedule = client.put_schedule(&args.name, &schedule, args.if_revision).await?;
    shown(args.connect.form(), &schedule, || print_one(&schedule))
}

fn of_flags(args: &mut CreateArgs) -> Result<PutSchedule> {
    let Some(queue) = args.queue.take() else { bail!("--queue is missing: the queue of its tasks") };
    let payload = args.payload.take().map(Json::from_text).transpose().context("--payload is not JSON")?;
    let task = ScheduledTask {
        kind: args.kind.take(),
        priority: args.priority,
        payload,
        ..ScheduledTask::new(queue)
    };
    let many = |all: Vec<String>| (!all.is_empty()).then_some(all);
    let schedule = PutSchedule {
        cron: many(std::mem::take(&mut args.cron)).map(OneOrMany::Many),
        every_ms: args.every.map(duration::ms),
        at: many(std::mem::take(&mut args.at)).map(|all| all.into_iter().map(Instant::Text).collect()),
        time_zone: args.time_zone.take(),
        start_at: args.start.take().map(Instant::Text),
        end_at: args.end.take().map(Instant::Text),
        max_runs: args.max_runs,
        jitter_ms: args.jitter.map(duration::ms),
        exclude: many(std::mem::take(&mut args.exclude))
            .map(|all| all.into_iter().map(Exclude::Text).collect()),
        overlap: args.overlap,
        missed: args.missed,
        description: args.description.take(),
        owner: args.owner.take(),
        ..PutSchedule::new(task)
    };
    schedule.check()?;
    Ok(schedule)
}

fn shown(form: Form, answer: &impl Serialize, print: impl FnOnce()) -> Result<ExitCode> {
    match form {
        Form::Json => output::json(answer)?,
        Form::Text => print(),
    }
    Ok(ExitCode::SUCCESS)
}

/// The instants of the schedule, described for people.
fn when(schedule: &Schedule) -> String {
    let mut all = schedule.cron.clone();
    all.extend(schedule.every_ms.map(|ms| format!("every {}", spans::whole_span(ms))));
    if !schedule.at.is_empty() {
        all.push(format!("at {} instants", schedule.at.len()));
    }
    format!("{} ({})", all.join(", "), schedule.time_zone)
}

fn print(schedules: &[Schedule]) {
    let rows = schedules.iter().map(|schedule| {
        let state = match (schedule.enabled, &schedule.pause) {
            _ if schedule.set_aside.is_some() => "set aside",
            (false, _) => "disabled",
            (true, Some(_)) => "paused",
            (true, None) => "",
        };
        let next = schedule.next_run_at.map(times::away).unwrap_or_default();
        [
            schedule.name.clone(),
            state.to_owned(),
            when(schedule),
            schedule.task.queue.clone(),
            next,
            schedule.runs.to_string(),
        ]
    });
    output::table(["SCHEDULE", "STATE", "WHEN", "QUEUE", "NEXT RUN", "RUNS"], rows);
}

fn print_one(schedule: &Schedule) {
    output::line(&format!("{} ({})", schedule.name, schedule.namespace));
    let mut facts = vec![
        ("when", when(schedule)),
        ("queue", schedule.task.queue.clone()),
        ("revision", schedule.revision.to_string()),
        ("runs", schedule.runs.to_string()),
    ];
    facts.extend(schedule.next_run_at.map(|next_run_at| ("next run", times::full(next_run_at))));
    facts.extend(schedule.last_run_at.map(|last_run_at| ("last run", times::full(last_run_at))));
    if !schedule.enabled {
        facts.push(("enabled", "no".to_owned()));
    }
    facts.extend(schedule.set_aside.clone().map(output::set_aside));
    if let Some(pause) = &schedule.pause {
        let because = pause.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        facts.push(("paused", format!("by {} at {}{because}", pause.by, times::full(pause.at))));
    }
    if let Some(taken) = schedule.taken_back.filter(|taken_back| taken_back.cancelled + taken_back.fired > 0)
    {
        let reported = format!("{} cancelled, {} had fired", taken.cancelled, taken.fired);
        facts.push(("taken back", reported));
    }
    output::facts(&facts);
}

fn print_next(runs: &[UpcomingRun]) {
    for run in runs {
        output::line(&times::full(run.at));
    }
}

fn print_runs(runs: &[ScheduleRun]) {
    let rows = runs.iter().map(|run| {
        let outcome =
            serde_json::to_value(run.outcome).ok().and_then(|outcome| outcome.as_str().map(str::to_owned));
        let (reason, task) =
            (run.reason.clone().unwrap_or_default(), run.task_ref.clone().unwrap_or_default());
        [times::stamp(run.at), outcome.unwrap_or_default(), reason, task]
    });
    output::table(["AT", "OUTCOME", "REASON", "TASK"], rows);
}
