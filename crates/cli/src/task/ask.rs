//! `punctual task get` and `why`.

use super::show;
use crate::{
    connect::{ConnectArgs, TRIES_OF_ONE_CALL},
    output::{self, Form},
    times,
};
use anyhow::{Context as _, Result, bail};
use clap::Args;
use punctual_domain::place::TaskRef;
use std::{process::ExitCode, time::Duration};

/// The prefix of a key, in the place of a reference.
const KEY: &str = "key:";

/// Show a task with its history, by reference or by your own id
#[derive(Args, Debug)]
pub(crate) struct GetArgs {
    /// Reference of the task (`ref` in the answer of the insert), or your own key as key:KEY
    #[arg(required_unless_present = "task_id", conflicts_with = "task_id")]
    reference: Option<String>,
    /// Your own id; shows all its versions, highest first
    #[arg(long, allow_negative_numbers = true)]
    task_id: Option<i64>,
    /// Only this version
    #[arg(long, requires = "task_id")]
    task_version: Option<i64>,
    /// Wait until the task has ended, at most this long; exit code 1 if it has not
    #[arg(long, requires = "reference", value_parser = crate::duration::parse, allow_hyphen_values = true)]
    wait: Option<Duration>,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn get(args: GetArgs) -> Result<ExitCode> {
    let client = args.connect.client(TRIES_OF_ONE_CALL)?;
    let tasks = match (&args.reference, args.task_id) {
        (Some(given), _) => {
            let reference = reference(given);
            let found = match args.wait {
                Some(limit) => client.wait(&reference, limit).await,
                None => client.get(&reference).await,
            };
            vec![found.with_context(|| meaning(given))?]
        }
        (None, Some(task_id)) => client.find(task_id, args.task_version).await?,
        (None, None) => Vec::new(),
    };
    if tasks.is_empty() {
        bail!("no such task");
    }
    for task in &tasks {
        show::task(task, args.connect.form())?;
    }
    let still_runs = args.wait.is_some() && tasks.iter().any(|task| task.ended_as.is_none());
    Ok(if still_runs { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The form of the API. Text that cannot be a reference is a key: nothing else names a task in words.
fn reference(given: &str) -> String {
    let is_plain = given.starts_with(KEY) || given.parse::<TaskRef>().is_ok();
    if is_plain { given.to_owned() } else { format!("{KEY}{given}") }
}

/// The name of what was searched, if it was not found.
fn meaning(given: &str) -> String {
    if given.parse::<TaskRef>().is_ok() {
        return format!("task {given}");
    }
    let key = given.strip_prefix(KEY).unwrap_or(given);
    let id = key
        .parse::<i64>()
        .map_or_else(|_| String::new(), |id| format!("; a number of your own is --task-id {id}"));
    format!("{key:?} is no reference (t and 26 more letters and digits), and was looked for as a key{id}")
}

/// Explain why a task has not run, and what happens next
#[derive(Args, Debug)]
pub(crate) struct WhyArgs {
    /// Reference of the task (`ref` in the answer of the insert)
    reference: String,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn why(args: WhyArgs) -> Result<ExitCode> {
    let client = args.connect.client(TRIES_OF_ONE_CALL)?;
    let asked = client.why(&reference(&args.reference)).await;
    let why = asked.with_context(|| meaning(&args.reference))?;
    if args.connect.form() == Form::Json {
        output::json(&why)?;
        return Ok(ExitCode::SUCCESS);
    }
    output::line(&why.reason);
    let mut facts = vec![("state", show::word(&why.state)), ("next", why.next_step.clone())];
    facts.extend(why.blocking.clone().map(|blocking| ("blocked by", blocking)));
    facts.extend(why.owner.clone().map(|owner| ("with", owner)));
    facts.extend(why.expected_at.map(|expected_at| ("expected", times::full(expected_at))));
    output::facts(&facts);
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_a_reference_is_looked_for_as_a_key() {
        let task = "t00000000000000000000000001";
        for (given, asked) in [
            (task, task),
            ("key:order-77", "key:order-77"),
            ("order-77", "key:order-77"),
            ("77", "key:77"),
            ("t1", "key:t1"),
        ] {
            assert_eq!(reference(given), asked, "{given}");
        }
        assert_eq!(meaning(task), format!("task {task}"));
        assert!(
            meaning("order-77").contains("\"order-77\" is no reference")
                && !meaning("order-77").contains("--task-id")
        );
        assert!(meaning("77").contains("--task-id 77"));
    }
}
