//! Reads a crontab: each line becomes a schedule whose tasks carry the command. What cannot be one is said by its line.

use crate::{
    connect::{ConnectArgs, TRIES_OF_ONE_CALL},
    output::{self, Form},
};
use anyhow::{Context as _, Result, bail};
use clap::Args;
use punctual_protocol::{Json, OneOrMany, PutSchedule, ScheduledTask};
use serde_json::json;
use std::{collections::BTreeMap, io::Read as _, process::ExitCode};

/// Make a schedule of each line of a crontab
///
/// The tasks have the kind `command` and the payload {"command": "...", "env": {...}}; run them with
///   punctual work --queue cron --exec 'sh -c "$(jq -r .command)"'
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct CrontabArgs {
    /// The file; `-`: from stdin, as of `crontab -l`
    file: String,
    /// The queue of the tasks
    #[arg(long, short)]
    queue: String,
    /// What the names of the schedules begin with; the number of the line follows
    #[arg(long, default_value = "crontab-")]
    prefix: String,
    /// Of the machine that the crontab is of; a line `CRON_TZ=...` in the file comes first
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// Lines have a user after the fields, as in /etc/crontab
    #[arg(long)]
    system: bool,
    /// Change nothing: show what would be made
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn import(args: CrontabArgs) -> Result<ExitCode> {
    let mut text = String::new();
    if args.file == "-" {
        std::io::stdin().read_to_string(&mut text).context("stdin cannot be read")?;
    } else {
        text =
            std::fs::read_to_string(&args.file).with_context(|| format!("{} cannot be read", args.file))?;
    }
    let found = read(&text, &args)?;
    let client = args.connect.client(TRIES_OF_ONE_CALL)?;
    for (name, schedule) in &found {
        // All of them are looked at before the first is made.
        client.preview_schedule(schedule, 1).await.with_context(|| name.clone())?;
    }
    let mut made = Vec::new();
    if !args.dry_run {
        for (name, schedule) in &found {
            let it = client.put_schedule(name, schedule, None).await;
            made.push(it.with_context(|| format!("{name}; {} were made before it", made.len()))?);
        }
    }
    match args.connect.form() {
        Form::Json => output::json(&json!({ "found": found, "made": made.len() }))?,
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

fn read(text: &str, args: &CrontabArgs) -> Result<BTreeMap<String, PutSchedule>> {
    let (mut env, mut zone) = (BTreeMap::new(), args.time_zone.clone());
    let mut found = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some((name, value)) = assignment(line) {
            match name {
                "CRON_TZ" | "TZ" => zone = Some(value.to_owned()),
                _ => drop(env.insert(name.to_owned(), value.to_owned())),
            }
            continue;
        }
        let (cron, command) = entry(line, args.system).with_context(|| format!("line {number}: {line}"))?;
        let payload = Json::of(&json!({ "command": command, "env": env }))?;
        let task = ScheduledTask {
            kind: Some("command".to_owned()),
            payload: Some(payload),
            ..ScheduledTask::new(args.queue.as_str())
        };
        let schedule = PutSchedule {
            cron: Some(OneOrMany::One(cron)),
            time_zone: zone.clone(),
            description: Some(command),
            ..PutSchedule::new(task)
        };
        schedule.check().with_context(|| format!("line {number}: {line}"))?;
        found.insert(format!("{}{number:03}", args.prefix), schedule);
    }
    Ok(found)
}

/// `NAME = value`, with quotes around the value or without.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim();
    let is_name = name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_')
        && name.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_');
    is_name.then(|| (name, value.trim().trim_matches(['"', '\''])))
}

/// The expression and the command of a line.
fn entry(line: &str, has_user: bool) -> Result<(String, String)> {
    let fields = if line.starts_with('@') { 1 } else { 5 };
    let before = fields + usize::from(has_user);
    let mut rest = line;
    let mut words = Vec::new();
    for _ in 0..before {
        let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        words.push(word);
        rest = after.trim_start();
    }
    if rest.is_empty() {
        bail!("it has no command after its {fields} fields");
    }
    if words.first().is_some_and(|it| it.eq_ignore_ascii_case("@reboot")) {
        bail!("@reboot has no instant; leave the line out");
    }
    words.truncate(fields);
    // An unescaped % ends the command; what follows would be its input.
    let command = rest.split_once('%').filter(|it| !it.0.ends_with('\\')).map_or(rest, |it| it.0);
    Ok((words.join(" "), command.replace("\\%", "%").trim_end().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_fields_and_a_command() {
        let of = |line: &str| entry(line, false).unwrap();
        assert_eq!(of("*/5  0-6 * * 1-5\t/bin/a  b"), ("*/5 0-6 * * 1-5".to_owned(), "/bin/a  b".to_owned()));
        assert_eq!(of("@daily run"), ("@daily".to_owned(), "run".to_owned()));
        assert_eq!(of("0 0 * * * date +\\%F"), ("0 0 * * *".to_owned(), "date +%F".to_owned()));
        assert_eq!(entry("0 0 * * * root run", true).unwrap().1, "run");
        assert!(entry("0 0 * * *", false).is_err());
        assert!(entry("@reboot run", false).is_err());
    }

    #[test]
    fn an_assignment_is_no_line_with_a_command() {
        assert_eq!(assignment("MAILTO = \"ada\""), Some(("MAILTO", "ada")));
        assert_eq!(assignment("CRON_TZ=Europe/Berlin"), Some(("CRON_TZ", "Europe/Berlin")));
        assert_eq!(assignment("0 0 * * * A=1 run"), None);
    }
}
