//! The table of what one engine and two ask of MariaDB and Redis, for tasks that are inserted soon before they are due and long
//! before, executed where they were inserted and elsewhere. Counts depend on the machine only in how many tasks come together;
//! they are compared with the counts of the build before. Must not judge by them.

use crate::{
    command::{CountsOptions, LoadCommand, Options},
    progress::note,
    report::CountReport,
    run::run,
};
use anyhow::Context as _;
use clap::Parser as _;
use serde::Serialize;
use std::fmt::Write as _;

/// The load of each row: 4,000 tasks.
const LOAD: &str =
    "--scenario sustained --rate 500 --duration 8s --batch 50 --spawn --store mysql --hot redis --count";
const ROWS: [(&str, &str); 5] = [
    ("one engine, inserted 2 s ahead", "--ahead 2s"),
    ("one engine, 12 s ahead", "--ahead 12s"),
    ("two engines, insert and execute at A", "--ahead 2s --engines 2 --insert-at 1 --execute-at 1"),
    ("two engines, execute at B", "--ahead 2s --engines 2 --insert-at 1 --execute-at 2"),
    ("the same, 12 s ahead", "--ahead 12s --engines 2 --insert-at 1 --execute-at 2"),
];

#[derive(Debug, Serialize)]
pub(crate) struct CountTable {
    pub(crate) ok: bool,
    rows: Vec<CountRow>,
}

#[derive(Debug, Serialize)]
struct CountRow {
    what: &'static str,
    /// The promises that the run broke.
    broken: Vec<String>,
    counted: CountReport,
}

pub(crate) async fn counts(options: &CountsOptions) -> anyhow::Result<CountTable> {
    let mut rows = Vec::new();
    for (what, words) in ROWS {
        note(&format!("{what}: loadtest run {LOAD} {words}"));
        let words = format!("loadtest run {LOAD} {words}");
        let LoadCommand::Run(mut run_options) = Options::try_parse_from(words.split_whitespace())?.command
        else {
            anyhow::bail!("the words say run")
        };
        run_options.server.server_bin.clone_from(&options.server_bin);
        let report = Box::pin(run(&run_options)).await?;
        rows.push(CountRow {
            what,
            broken: report.broken,
            counted: report.counted.context("it was counted")?,
        });
    }
    Ok(CountTable { ok: rows.iter().all(|row| row.broken.is_empty()), rows })
}

impl CountTable {
    /// The table in Markdown: each column per task, except the hand-overs.
    pub(crate) fn text(&self) -> String {
        let mut out = String::from(
            "| 4,000 tasks, 500/s, batches of 50 | Redis calls | scripts | MySQL statements | transactions | undone | hand-overs undone | looks | \
             rows read before a hand-over | rows locked | for nothing |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
        );
        for CountRow { what, counted, .. } in &self.rows {
            let row = format_args!(
                "| {what} | {:.2} | {:.2} | {:.2} | {:.3} | {:.3} | {} of {} | {:.3} | {:.2} | {:.2} | {:.2} |",
                counted.redis_calls,
                counted.scripts,
                counted.statements,
                counted.transactions,
                counted.transactions_undone,
                counted.hand_overs_undone,
                counted.hand_overs,
                counted.looks,
                counted.rows_read_before,
                counted.rows_locked,
                counted.rows_locked_for_nothing
            );
            writeln!(out, "{row}").expect("a string takes every write");
        }
        for CountRow { what, broken, .. } in &self.rows {
            for breach in broken {
                writeln!(out, "BROKEN: {what}: {breach}").expect("a string takes every write");
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_each_row_are_a_run() {
        for (what, words) in ROWS {
            let words = format!("loadtest run {LOAD} {words}");
            let options = Options::try_parse_from(words.split_whitespace()).unwrap();
            let LoadCommand::Run(options) = options.command else { panic!("{what}") };
            assert!(options.count && options.check().is_ok(), "{what}");
        }
    }
}
