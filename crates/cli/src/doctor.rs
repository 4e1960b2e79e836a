//! `punctual doctor`: checks every server that the settings name, and reports what is good, doubtful or wrong, and how to fix
//! it. Servers are checked concurrently, and each question has a time limit, so that a server that hangs delays no other. Must
//! never change anything but the row by which commits are measured, and never print a secret.
//!
//! In reading order: `list` (the checks), `findings` (answers of a server), `verdicts` (what a fact means), `mysql`, `redis`, `file`,
//! `machine` (what is checked).

mod certificate;
mod file;
mod findings;
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
use findings::Findings;
use futures_util::future::{LocalBoxFuture, join_all};
use list::{CheckVerdict, Finding};
use std::process::ExitCode;

/// Check every server that the settings name; report what is good, doubtful or wrong, and how to fix it
#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    settings: SettingArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

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
    use findings::finding;
    use list::Judged;

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
