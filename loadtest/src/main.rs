//! `loadtest`: drives a Punctual server with load that was planned beforehand and checks, from outside, that every
//! promise was kept. Exit 0 kept, 1 broken or failed, 2 usage. Knows nothing of the server but its public interface.
//!
//! In reading order: `options` → `plan` → `run` (`watch`, `insert`, `execute`) → `check` → `report`; `flood`, `idle`, `attack`, `limit` (`child`), `overload`, `search`, `bulk`, `bounds` and `console` (`fill`) and `chaos` beside it.
//! The server under test: `server` (`backing`, `engine`), and what is done to it, `fault` and `outage`. Over all of them:
//! `bars`, measured against `parts`; `counts` of what a run asks of MariaDB and Redis (`count`).

mod ask;
mod attack;
mod backing;
mod bars;
mod bounds;
mod bulk;
mod chaos;
mod check;
mod child;
mod clock;
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
mod search;
mod server;
mod subscribe;
mod watch;
mod wire;
mod wire_tls;

use clap::Parser as _;
use std::{io::Write as _, process::ExitCode};

fn main() -> ExitCode {
    let options = options::Options::parse();
    match measure(&options.command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            progress::note(&format!("loadtest: {error:#}"));
            ExitCode::from(if error.is::<options::Usage>() { 2 } else { 1 })
        }
    }
}

/// Whether everything promised was kept.
fn measure(command: &options::LoadCommand) -> anyhow::Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    macro_rules! reported {
        ($program:expr, $is_json:expr) => {{
            let report = runtime.block_on($program)?;
            tell(&report, $is_json, || report.table())?;
            Ok(report.ok)
        }};
    }
    match command {
        options::LoadCommand::Run(options) if options.scenario == options::Scenario::Flood => {
            reported!(flood::flood(options), options.common.json)
        }
        options::LoadCommand::Run(options) => reported!(run::run(options), options.common.json),
        options::LoadCommand::Idle(options) => reported!(idle::idle(options), options.common.json),
        options::LoadCommand::Limit(options) => reported!(limit::limit(options), options.common.json),
        options::LoadCommand::Attack(options) => reported!(attack::attack(options), options.common.json),
        options::LoadCommand::Search(options) => reported!(search::search(options), options.json),
        options::LoadCommand::Bulk(options) => reported!(bulk::bulk(options), options.json),
        options::LoadCommand::Bounds(options) => reported!(bounds::bounds(options), options.json),
        options::LoadCommand::Overload(options) => reported!(overload::overload(options), options.json),
        options::LoadCommand::Console(options) => reported!(console::console(options), options.json),
        options::LoadCommand::Parts(options) => {
            let report = runtime.block_on(parts::parts(options))?;
            tell(&report, options.json, || report.table())?;
            Ok(true)
        }
        options::LoadCommand::Bars(options) => {
            let report = runtime.block_on(bars::bars(options))?;
            print(report.table())?;
            Ok(report.ok())
        }
        options::LoadCommand::Counts(options) => {
            let table = runtime.block_on(counts::counts(options))?;
            tell(&table, options.json, || table.text())?;
            Ok(table.ok)
        }
        options::LoadCommand::Chaos(options) => {
            let report = runtime.block_on(chaos::chaos(options))?;
            tell(&report, options.json, || report.text())?;
            Ok(report.ok)
        }
        options::LoadCommand::Executor(options) => runtime.block_on(child::execute(options)).map(|()| true),
    }
}

/// One JSON object, or what is made for people.
fn tell(
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
