//! `punctual doctor`: reaches every server that the settings name, and says what is good, doubtful or wrong, with the way
//! out. Servers are asked side by side, and each question has a time limit, so that one which hangs stops no other. Changes
//! nothing but the row by which commits are measured, and shows no secret.
//!
//! In reading order: `list` (the checks), `verdicts` (what a fact means), `mysql`, `redis`, `file`, `machine` (who is asked).

mod certificate;
mod file;
mod list;
mod machine;
mod mysql;
mod redis;
mod verdicts;

use crate::{
    clock::SystemClock,
    config::{Layers, SettingArgs, Settings, SharedPlace, StoreLocation},
    logs,
    output::{self, Form},
};
use anyhow::Result;
use clap::Args;
use futures_util::future::{LocalBoxFuture, join_all};
use list::{Check, CheckVerdict, Finding, Judged};
use std::{fmt::Display, future::Future, process::ExitCode, time::Duration};
use tokio::time::timeout;

/// For one question. The whole takes a few of them, since servers are asked side by side. Long enough for a server whose
/// machine is busy: that it is slow is a finding of its own, and not that it is away.
const LIMIT: Duration = Duration::from_secs(10);

/// Check every server that the settings name; report what is good, doubtful or wrong, and how to fix it
#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    settings: SettingArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What one place was found to be.
type Findings = Vec<Finding>;

pub(crate) async fn run(args: DoctorArgs) -> Result<ExitCode> {
    let layers = args.settings.layers()?;
    let settings = Settings::from_layers(&layers)?;
    logs::start(&settings);
    let found = examine(&layers, &settings).await;
    match Form::json_if(args.json) {
        Form::Json => output::json(&document(&found))?,
        Form::Text => print(&found),
    }
    let is_well = found.iter().all(|finding| finding.verdict != CheckVerdict::Wrong);
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Checks all servers concurrently.
async fn examine(layers: &Layers, settings: &Settings) -> Findings {
    let clock = SystemClock;
    let mut places: Vec<LocalBoxFuture<'_, Findings>> =
        vec![Box::pin(machine::examine(layers, settings, &clock))];
    match &settings.place {
        StoreLocation::Embedded { sqlite_path } => places.push(Box::pin(file::examine(sqlite_path))),
        StoreLocation::Shared(place) => {
            for url in &place.mysql_urls {
                places.push(Box::pin(mysql::examine(url, place.allows_weak_durability, &clock)));
            }
            if let Some(redis_url) = &place.redis_url {
                places.push(Box::pin(of_redis(place, redis_url, &clock)));
            }
        }
    }
    join_all(places).await.into_iter().flatten().collect()
}

async fn of_redis(place: &SharedPlace, redis_url: &str, clock: &SystemClock) -> Findings {
    let catalog = place.mysql_urls.first().map(String::as_str).unwrap_or_default();
    let cluster = mysql::cluster(catalog).await;
    redis::examine(place, redis_url, cluster, clock).await
}

/// The answer to one question, or why there is none.
async fn limited<T, E: Display>(asking: impl Future<Output = Result<T, E>>) -> Result<T, String> {
    match timeout(LIMIT, Box::pin(asking)).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} s", LIMIT.as_secs())),
    }
}

/// A question that was not answered by a place that answers others.
fn unanswered(why: &str) -> Judged {
    Judged::doubtful(format!("not known: {why}"), "ask again; if it stays so, see the log of that server")
}

fn finding(check: &Check, place: &str, judged: Judged) -> Finding {
    let Judged { verdict, finding, way_out } = judged;
    Finding { check: check.name, place: place.to_owned(), verdict, finding, way_out }
}

fn count(found: &[Finding], verdict: CheckVerdict) -> usize {
    found.iter().filter(|finding| finding.verdict == verdict).count()
}

fn document(found: &[Finding]) -> serde_json::Value {
    serde_json::json!({
        "is_well": count(found, CheckVerdict::Wrong) == 0,
        "good": count(found, CheckVerdict::Good),
        "doubtful": count(found, CheckVerdict::Doubtful),
        "wrong": count(found, CheckVerdict::Wrong),
        "checks": found,
    })
}

fn print(found: &[Finding]) {
    let rows = found.iter().map(|finding| {
        [
            finding.verdict.word().to_owned(),
            finding.check.to_owned(),
            finding.place.clone(),
            finding.finding.clone(),
        ]
    });
    output::table(["VERDICT", "CHECK", "WHERE", "FOUND"], rows);
    for finding in found.iter().filter(|finding| finding.verdict != CheckVerdict::Good) {
        output::line("");
        let said = format!(" {} ({}): {}", finding.check, finding.place, finding.finding);
        output::line_with_state("", finding.verdict.word(), &said);
        output::line(&format!("  way out: {}", finding.way_out));
    }
    output::line("");
    output::line(&format!(
        "{} good, {} doubtful, {} wrong",
        count(found, CheckVerdict::Good),
        count(found, CheckVerdict::Doubtful),
        count(found, CheckVerdict::Wrong)
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_question_that_hangs_is_given_up_and_a_refusal_is_told() {
        let hangs = limited(std::future::pending::<Result<(), String>>()).await;
        assert!(hangs.unwrap_err().contains("within 10 s"));
        assert_eq!(limited(async { Err::<(), _>("no") }).await.unwrap_err(), "no");
        assert_eq!(limited(async { Ok::<_, String>(7) }).await.unwrap(), 7);
    }

    #[test]
    fn the_document_counts_what_was_found() {
        let found = [
            finding(&list::MYSQL_CLOCK, "a", Judged::good("x")),
            finding(&list::MYSQL_CLOCK, "b", Judged::wrong("y", "z")),
        ];
        let document = document(&found);
        assert_eq!((document["good"].as_u64(), document["wrong"].as_u64()), (Some(1), Some(1)));
        assert_eq!(document["is_well"], false);
        assert_eq!(document["checks"][1]["way_out"], "z");
    }
}
