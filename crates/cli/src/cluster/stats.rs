//! The statistics of the cluster.

use super::args::StatsArgs;
use crate::{
    connect::TRIES_OF_ONE_CALL,
    output::{self, Form, count},
    spans, times,
};
use anyhow::Result;
use punctual_protocol::{Due, Lateness, Rates, Stats, StatsStep};
use std::process::ExitCode;

/// Beyond the last bound of lateness.
const BEYOND_MS: i64 = 300_001;

pub(super) async fn run(args: StatsArgs) -> Result<ExitCode> {
    let client = args.connect.client(TRIES_OF_ONE_CALL)?;
    if let Some(queue) = &args.queue {
        let stats = client.queue_stats(queue).await?;
        if args.connect.form() == Form::Json {
            output::json(&stats)?;
            return Ok(ExitCode::SUCCESS);
        }
        output::facts(&flow(&stats.rates, &stats.lateness, &stats.lateness_hour));
        if args.steps {
            output::line("");
            steps(&stats.steps);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (stats, due) = (client.stats().await?, client.due().await?);
    if args.connect.form() == Form::Json {
        output::json(&serde_json::json!({ "stats": stats, "due": due }))?;
        return Ok(ExitCode::SUCCESS);
    }
    print(&stats);
    ahead(&due);
    if args.steps {
        output::line("");
        steps(&stats.steps);
        output::line("");
        due_steps(&due);
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn print(stats: &Stats) {
    let mut facts = vec![("engines", stats.engines.to_string())];
    facts.extend(flow(&stats.rates, &stats.lateness, &stats.lateness_hour));
    if let Some(backlog) = &stats.backlog {
        let states =
            backlog.states.iter().map(|(state, tasks)| format!("{} {state}", count(tasks.unsigned_abs())));
        let states = states.collect::<Vec<_>>().join(", ");
        facts.push(("tasks", if states.is_empty() { "none".to_owned() } else { states }));
        facts.push(("unaccounted", backlog.unaccounted.to_string()));
    }
    if let Some(hot) = &stats.hot_set {
        let of = |tasks, what| format!("{} {what}", count(tasks));
        let all = [
            of(hot.due, "due soon"),
            of(hot.firing, "firing"),
            of(hot.ready, "ready"),
            of(hot.parked, "parked"),
        ];
        facts.push(("hot set", format!("{}; {:.1} % full", all.join(", "), hot.fullness * 100.0)));
    }
    output::facts(&facts);
}

/// The flow of the cluster, or of a queue.
fn flow(rates: &Rates, lately: &Lateness, hour: &Lateness) -> Vec<(&'static str, String)> {
    let per_second = |rate: f64| format!("{rate:.1}/s");
    vec![
        ("inserted", per_second(rates.inserted)),
        ("fired", per_second(rates.fired)),
        ("handed over", per_second(rates.dispatched)),
        ("succeeded", per_second(rates.succeeded)),
        ("retried, dead", format!("{}, {}", per_second(rates.retried), per_second(rates.dead))),
        ("lateness", lateness(lately)),
        ("in an hour", lateness(hour)),
    ]
}

/// The lateness on one line.
pub(crate) fn lateness(lateness: &Lateness) -> String {
    let (Some(p50), Some(p99), Some(p999), Some(max)) =
        (lateness.p50_ms, lateness.p99_ms, lateness.p999_ms, lateness.max_ms)
    else {
        return "nothing fired".to_owned();
    };
    let bound = |ms: i64| if ms >= BEYOND_MS { "over 5 min".to_owned() } else { spans::span(ms) };
    let early = if lateness.early > 0 { format!(", {} EARLY", lateness.early) } else { String::new() };
    format!(
        "p50 {}, p99 {}, p99.9 {}, at most {}; {} over budget{early}",
        bound(p50),
        bound(p99),
        bound(p999),
        bound(max),
        count(lateness.over_budget),
    )
}

/// The number of tasks that become due, on one line.
pub(super) fn ahead(due: &Due) {
    let within =
        |minutes: usize| -> Option<u64> { due.steps.iter().take(minutes).map(|step| step.tasks).sum() };
    let said = |minutes| within(minutes).map_or_else(|| "too many to count".to_owned(), count);
    let about = if due.is_estimate { "about " } else { "" };
    output::facts(&[(
        "falls due",
        format!("{about}{} in a minute, {about}{} in ten, {about}{} in an hour", said(1), said(10), said(60)),
    )]);
}

fn steps(steps: &[StatsStep]) {
    let rows = steps.iter().map(|step| {
        [
            times::stamp(step.at),
            count(step.inserted),
            count(step.fired),
            count(step.succeeded),
            count(step.retried),
            count(step.dead),
            step.lateness.p99_ms.map(spans::span).unwrap_or_default(),
        ]
    });
    output::table(["MINUTE", "INSERTED", "FIRED", "SUCCEEDED", "RETRIED", "DEAD", "P99 LATE"], rows);
}

fn due_steps(due: &Due) {
    let rows = due
        .steps
        .iter()
        .map(|step| [times::stamp(step.at), step.tasks.map_or_else(|| "?".to_owned(), count)]);
    output::table(["MINUTE FROM", "FALL DUE"], rows);
}
