//! The bars of docs/figures.md, measured one after the other and printed as ratios to the bare parts of the same run. A row is
//! a few runs of the other commands, each with a line of its own on stderr. Must never judge by a bar of its own making:
//! where a row is scaled down, its text says so.
//!
//! In reading order: `rows` (what is measured) → `measure` (how) → `figure` (judge and table).

mod elsewhere;
mod figure;
mod measure;
mod rows;
mod site;
mod sustained;

use crate::{
    clock::{now_us, seconds},
    command::BarsOptions,
    options::Usage,
    progress::note,
};
use anyhow::Context as _;
use figure::{Figure, Table};
use rows::{BarRow, ROWS};
use site::BarsSite;
use tokio::signal::unix::{SignalKind, signal};

/// Measures the bars. No process is left behind at any end: the measuring future owns what was started.
pub(crate) async fn bars(options: &BarsOptions) -> anyhow::Result<Table> {
    let chosen = chosen(&options.rows)?;
    if options.list {
        return Ok(Table::list(&chosen));
    }
    let mut terminated = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupted = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
    let (server_bin, pending) = (options.server_bin.clone(), options.pending);
    let mut site = BarsSite { server_bin, pending, parts: Vec::new() };
    tokio::select! {
        figures = measure_all(&mut site, &chosen) => {
            let figures = figures?;
            Ok(Table::measured(site.parts.iter().map(|(_, parts)| *parts).collect(), figures))
        }
        _ = terminated.recv() => anyhow::bail!("terminated"),
        _ = interrupted.recv() => anyhow::bail!("interrupted"),
    }
}

/// The rows of these names, in the order of the table; a bar's name is that of all its rows.
fn chosen(names: &[String]) -> Result<Vec<&'static BarRow>, Usage> {
    if names.iter().any(|name| !ROWS.iter().any(|row| row.is_named(name))) {
        return Err(Usage("there is no such row: --list names them"));
    }
    Ok(ROWS.iter().filter(|row| names.is_empty() || names.iter().any(|name| row.is_named(name))).collect())
}

/// A row that cannot be measured falls short, with its reason, and the others continue.
async fn measure_all(site: &mut BarsSite, rows: &[&'static BarRow]) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (nth, row) in rows.iter().enumerate() {
        note(&format!("[{} of {}] {}: {}", nth + 1, rows.len(), row.name, row.what));
        let from_us = now_us();
        let measured =
            Box::pin(site.measure(row)).await.unwrap_or_else(|error| vec![Figure::failed(row.what, &error)]);
        for mut figure in measured {
            figure.row = row.name;
            note(&format!("    {}", figure.line()));
            figures.push(figure);
        }
        note(&format!("    took {:.0} s", seconds(now_us() - from_us)));
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_names_all_its_rows_and_an_unknown_name_is_refused() {
        let names = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            chosen(&words).map(|rows| rows.iter().map(|row| row.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["P11", "P2"]).unwrap(), ["P2-one", "P2-two", "P11"]);
        assert_eq!(names(&["P3-two"]).unwrap(), ["P3-two"]);
        assert_eq!(names(&[]).unwrap().len(), ROWS.len());
        assert!(names(&["P3-two", "P30"]).is_err() && names(&["P"]).is_err());
    }
}
