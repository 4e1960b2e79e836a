//! Creates a schedule from each line of a crontab, whose tasks carry the command. Nothing is created before every
//! line was checked, and lines that cannot be a schedule are reported by number.

mod lines;

use crate::{
    connect::{ConnectArgs, TRIES_OF_ONE_CALL},
    output::{self, Form},
};
use anyhow::{Context as _, Result, bail};
use clap::Args;
use lines::{Job, Remark};
use punctual_protocol::{Json, OneOrMany, PutSchedule, ScheduledTask};
use punctual_sdk::Client;
use serde_json::json;
use std::{collections::BTreeMap, io::Read as _, process::ExitCode};

/// Characters of a description.
const DESCRIPTION_MAX_CHARS: usize = 1_024;

/// Create a schedule for each line of a crontab, with the rules of Debian's cron
///
/// The tasks have the kind `command` and the payload {"command": "...", "env": {...}}, with "input" where the line has an
/// unescaped %, and "user" of a system's crontab; run them with
///   punctual work --queue cron --exec '
///     task=$(cat)
///     eval "$(printf %s "$task" | jq -r ".env | to_entries[] | \"export \(.key)=\(.value | @sh)\"")"
///     printf %s "$task" | jq -j ".input // empty" | sh -c "$(printf %s "$task" | jq -r .command)"'
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct CrontabArgs {
    /// Crontab file; `-` reads stdin, such as the output of `crontab -l`
    file: String,
    /// Queue of the tasks
    #[arg(long, short)]
    queue: String,
    /// Prefix of the names of the schedules; the line number follows
    #[arg(long, default_value = "crontab-")]
    prefix: String,
    /// Time zone of the machine that the crontab is from; for lines below a `CRON_TZ=...` or `TZ=...` that zone applies
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// Lines have a user after the time fields, as in /etc/crontab
    #[arg(long)]
    system: bool,
    /// Change nothing; show what would be created
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn import(args: CrontabArgs) -> Result<ExitCode> {
    let text = text_of(&args.file)?;
    let lines::Crontab { jobs, warnings, mut faults } = lines::read(&text, args.system);
    let found = jobs.into_iter().map(|job| Ok((schedule(&job, &args)?, job))).collect::<Result<Vec<_>>>()?;
    for Remark { number, text, what } in &warnings {
        output::error_line(&format!("line {number} {what}: {text}"));
    }
    let client = args.connect.client(TRIES_OF_ONE_CALL)?;
    // All of them are looked at before the first is made.
    for (schedule, job) in &found {
        faults.extend(refused(&client, schedule, job).await?);
    }
    if !faults.is_empty() {
        faults.sort_by_key(|fault| fault.number);
        let reported =
            faults.iter().map(|Remark { number, text, what }| format!("\n  line {number} {what}: {text}"));
        bail!("nothing was imported, for what these lines say:{}", reported.collect::<String>());
    }
    let mut made = 0;
    if !args.dry_run {
        for (schedule, job) in &found {
            let name = name(job, &args);
            let put = client.put_schedule(&name, schedule, None).await;
            put.with_context(|| format!("line {}, schedule {name}; {made} were made before it", job.number))?;
            made += 1;
        }
    }
    let found: BTreeMap<String, PutSchedule> =
        found.into_iter().map(|(schedule, job)| (name(&job, &args), schedule)).collect();
    match args.connect.form() {
        Form::Json => {
            let left_out = |Remark { number, text, what }: &Remark| json!({ "line": number, "text": text, "what": what });
            let warnings: Vec<_> = warnings.iter().map(left_out).collect();
            output::json(&json!({ "found": found, "made": made, "warnings": warnings }))?;
        }
        Form::Text => {
            for (name, schedule) in &found {
                let cron = schedule.cron.clone().map(OneOrMany::into_vec).unwrap_or_default().join(", ");
                output::line(&format!("{name}  {cron}"));
            }
            let done = if args.dry_run { "would be made" } else { "are made" };
            output::line(&format!("{} schedules {done}", found.len()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn text_of(file: &str) -> Result<String> {
    let mut text = String::new();
    if file == "-" {
        std::io::stdin().read_to_string(&mut text).context("stdin cannot be read")?;
    } else {
        text = std::fs::read_to_string(file).with_context(|| format!("{file} cannot be read"))?;
    }
    Ok(text)
}

/// The number of the line, so that a schedule is found in the file, and a file that is imported again meets its own.
fn name(job: &Job, args: &CrontabArgs) -> String {
    format!("{}{:03}", args.prefix, job.number)
}

fn schedule(job: &Job, args: &CrontabArgs) -> Result<PutSchedule> {
    let mut payload = json!({ "command": job.command, "env": job.env });
    for (field, text) in [("input", &job.input), ("user", &job.user)] {
        if let (Some(text), Some(fields)) = (text, payload.as_object_mut()) {
            fields.insert(field.to_owned(), text.as_str().into());
        }
    }
    let task = ScheduledTask {
        kind: Some("command".to_owned()),
        payload: Some(Json::of(&payload)?),
        ..ScheduledTask::new(args.queue.as_str())
    };
    Ok(PutSchedule {
        cron: Some(OneOrMany::One(job.cron.clone())),
        time_zone: job.time_zone.clone().or_else(|| args.time_zone.clone()),
        description: Some(job.command.chars().take(DESCRIPTION_MAX_CHARS).collect()),
        ..PutSchedule::new(task)
    })
}

/// Why the server would not take it. An error: it was not asked.
async fn refused(client: &Client, schedule: &PutSchedule, job: &Job) -> Result<Option<Remark>> {
    let Err(error) = client.preview_schedule(schedule, 1).await else { return Ok(None) };
    match error.problem().filter(|problem| problem.status == 400) {
        Some(problem) => {
            let what = format!("is refused ({})", crate::say::reason(problem));
            Ok(Some(Remark { number: job.number, text: job.text.clone(), what }))
        }
        None => Err(error).with_context(|| format!("line {}: {}", job.number, job.text)),
    }
}
