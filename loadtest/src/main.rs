//! `loadtest`: drives a Punctual server with load that was planned beforehand and checks, from outside, that every
//! promise was kept. Exit 0 kept, 1 broken or failed, 2 usage. Uses the server's public interface only.
//!
//! In reading order: `command`, `options` → `plan` → `run` (`watch`, `insert`, `execute`) → `check` → `report`. The other programs are
//! a `scenario` each: `flood`, `idle`, `attack`, `limit` (`child`), `overload`, `search`, `bulk`, `bounds` and `console` (`fill`,
//! `beside`). `chaos` has its own installation.
//! The server under test: `server` (`backing`, `engine`), and what is done to it, `fault` and `outage`. Over all of them:
//! `bars`, measured against `parts`; `counts` of what a run asks of MariaDB and Redis (`count`).

mod ask;
mod attack;
mod backing;
mod bars;
mod beside;
mod bounds;
mod bulk;
mod chaos;
mod check;
mod child;
mod clock;
mod command;
mod console;
mod count;
mod counts;
mod duration;
mod engine;
mod execute;
#[cfg(test)]
mod fake;
mod fault;
mod fill;
mod flood;
mod http;
mod idle;
mod insert;
mod job;
mod limit;
mod measure;
mod options;
mod outage;
mod overload;
mod parts;
mod plan;
mod proc;
mod progress;
mod report;
mod run;
mod scenario;
mod search;
mod server;
mod subscribe;
mod watch;
mod wire;
mod wire_tls;

use clap::Parser as _;
use command::LoadCommand;
use flood::FloodScenario;
use run::options::LoadPattern;
use scenario::{Scenario, perform};
use std::{io::Write as _, process::ExitCode};

fn main() -> ExitCode {
    let options = command::Options::parse();
    match measure(&options.command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            progress::note(&format!("loadtest: {error:#}"));
            ExitCode::from(if error.is::<options::Usage>() { 2 } else { 1 })
        }
    }
}

/// True if every promise was kept.
fn measure(command: &LoadCommand) -> anyhow::Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match command {
        LoadCommand::Run(options) if options.scenario == LoadPattern::Flood => {
            runtime.block_on(performed(&FloodScenario(options), options.common.json))
        }
        LoadCommand::Run(options) => {
            let report = runtime.block_on(run::run(options))?;
            show(&report, options.common.json, || report.table())?;
            Ok(report.ok)
        }
        LoadCommand::Idle(options) => runtime.block_on(performed(options, options.common.json)),
        LoadCommand::Limit(options) => runtime.block_on(performed(options, options.common.json)),
        LoadCommand::Attack(options) => runtime.block_on(performed(options, options.common.json)),
        LoadCommand::Search(options) => runtime.block_on(performed(options, options.json)),
        LoadCommand::Bulk(options) => runtime.block_on(performed(options, options.json)),
        LoadCommand::Bounds(options) => runtime.block_on(performed(options, options.json)),
        LoadCommand::Overload(options) => runtime.block_on(performed(options, options.json)),
        LoadCommand::Console(options) => runtime.block_on(performed(options, options.json)),
        LoadCommand::Parts(options) => {
            let report = runtime.block_on(parts::parts(options))?;
            show(&report, options.json, || report.table())?;
            Ok(true)
        }
        LoadCommand::Bars(options) => {
            let report = runtime.block_on(bars::bars(options))?;
            print(report.table())?;
            Ok(report.ok())
        }
        LoadCommand::Counts(options) => {
            let table = runtime.block_on(counts::counts(options))?;
            show(&table, options.json, || table.text())?;
            Ok(table.ok)
        }
        LoadCommand::Chaos(options) => {
            let report = runtime.block_on(chaos::chaos(options))?;
            show(&report, options.json, || report.text())?;
            Ok(report.ok)
        }
        LoadCommand::Executor(options) => runtime.block_on(child::execute(options)).map(|()| true),
    }
}

async fn performed(scenario: &impl Scenario, is_json: bool) -> anyhow::Result<bool> {
    let verdict = perform(scenario).await?;
    show(&verdict, is_json, || verdict.table())?;
    Ok(verdict.ok)
}

/// One JSON object, or what is made for people.
fn show(
    report: &impl serde::Serialize,
    is_json: bool,
    for_people: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    print(if is_json { serde_json::to_string(report)? + "\n" } else { for_people() })?;
    Ok(())
}

fn print(text: String) -> std::io::Result<()> {
    std::io::stdout().lock().write_all(text.as_bytes())
}
