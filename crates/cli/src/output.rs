//! All that is printed. Results go to stdout, everything about them to stderr; a reader that has gone away ends
//! nothing but the printing.

use crate::{
    logs,
    look::{self, Tone},
};
use clap::builder::styling::AnsiColor;
use comfy_table::{Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Table, presets};
use serde::Serialize;
use std::io::{self, Write};

/// Whether a command answers for people or for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Json,
}

impl Form {
    pub(crate) const fn json_if(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }
}

pub(crate) fn line(text: &str) {
    let mut to = io::stdout().lock();
    let written = writeln!(to, "{text}").and_then(|()| to.flush());
    if let Err(error) = written {
        tracing::debug!(%error, "nobody reads what is printed");
    }
}

/// Behind what is logged, and never for longer than a reader that stands still may be waited for.
pub(crate) fn error_line(text: &str) {
    logs::line(text);
}

/// One JSON document on a line of its own.
pub(crate) fn json(value: &impl Serialize) -> Result<(), serde_json::Error> {
    line(&serde_json::to_string(value)?);
    Ok(())
}

/// Columns of what is copied from the screen: never broken over two lines, whatever that costs the others.
const IN_ONE_PIECE: [&str; 8] =
    ["REF", "TASK", "WORKFLOW", "FIRST OF THEM", "ID", "ENGINE", "NAME", "PROFILE"];
/// Of those that people have named, what is longer is broken all the same: it would leave nothing for the others.
const PIECE_MAX: usize = 34;
/// Columns that begin with the word of a state.
const STATES: [&str; 5] = ["STATE", "TO", "OUTCOME", "VERDICT", "SOUND"];

/// Columns without lines between them, cut to the terminal.
pub(crate) fn table<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) {
    line(&render(header, rows, look::width(), look::has_colours()));
}

/// Sentences, which go on below where the terminal is too narrow; whole for a program that reads lines.
pub(crate) fn prose(text: &str, first: &str, below: &str) {
    let width = look::width().or_else(|| Table::new().width()).map_or(usize::MAX, usize::from);
    wrapped(text, (first, below), width).iter().for_each(|it| line(it));
}

fn wrapped(text: &str, (first, below): (&str, &str), width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut current = first.to_owned();
    let mut is_empty = true;
    for word in text.split(' ') {
        if !is_empty && current.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::replace(&mut current, below.to_owned()));
            is_empty = true;
        }
        if !is_empty {
            current.push(' ');
        }
        current.push_str(word);
        is_empty = false;
    }
    lines.push(current);
    lines
}

/// `width`: None: that of the terminal, if it is one.
fn render<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
    width: Option<u16>,
    has_colours: bool,
) -> String {
    let mut table = Table::new();
    if let Some(width) = width.or_else(|| table.width()) {
        table.set_width(width);
    }
    if has_colours {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header.map(|it| Cell::new(it).add_attribute(Attribute::Bold)));
    for row in rows {
        table.add_row(cells(&header, row));
    }
    for (nth, name) in header.iter().enumerate() {
        let longest = table.column_cells_iter(nth).flatten().map(|it| it.content().chars().count()).max();
        let Some(column) = table.column_mut(nth) else { continue };
        column.set_padding((0, if nth + 1 == N { 0 } else { 2 }));
        if IN_ONE_PIECE.contains(name) && longest.is_some_and(|it| it <= PIECE_MAX) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    trim(&table.to_string())
}

fn cells<const N: usize>(header: &[&str; N], row: [String; N]) -> Vec<Cell> {
    let cell = |(name, text): (&&str, String)| {
        let tone = if STATES.contains(name) { Tone::of(&text) } else { None };
        let cell = Cell::new(text);
        match tone.map(Tone::colour) {
            Some(AnsiColor::Green) => cell.fg(Color::DarkGreen),
            Some(AnsiColor::Yellow) => cell.fg(Color::DarkYellow),
            Some(_) => cell.fg(Color::DarkRed),
            None => cell,
        }
    };
    header.iter().zip(row).map(cell).collect()
}

/// Pairs of a name and a value, one a line, which goes on below where the terminal is too narrow; that of `state` in its
/// colour.
pub(crate) fn facts(rows: &[(&str, String)]) {
    let names = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in rows {
        let first = format!("  {name:names$}  ");
        if *name == "state" {
            line(&format!("{first}{}", look::state(value)));
        } else {
            prose(value, &first, &" ".repeat(first.len()));
        }
    }
}

/// Facts, and below them what is set.
pub(crate) fn settings(rows: &[(&str, String)], set: &[(String, String)]) {
    facts(rows);
    for (name, value) in set {
        line(&format!("  {name}  {value}"));
    }
}

/// Without the blanks that fill the last column.
fn trim(text: &str) -> String {
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// `12345678` as `12,345,678`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345_678, "12,345,678")] {
            assert_eq!(count(number), text);
        }
    }

    #[test]
    fn sentences_go_on_below_and_a_word_is_never_broken() {
        let text = "one more task is dead-and-nobody-looks";
        assert_eq!(wrapped(text, ("", "  "), 13), ["one more task", "  is", "  dead-and-nobody-looks"]);
        assert_eq!(wrapped(text, ("    ", ""), usize::MAX), [format!("    {text}")]);
        let fact = ["  tasks  3 ready,", "         1 dead"];
        assert_eq!(wrapped("3 ready, 1 dead", ("  tasks  ", "         "), 17), fact);
    }

    #[test]
    fn a_table_fits_80_columns_and_keeps_references_in_one_piece() {
        let reference = "t000r0t42j0kjbg000000000001";
        let row = [
            reference,
            "a-queue-with-a-long-name",
            "kind-of-it",
            "dispatch_failed",
            "in 12 min 10 s",
            "7 ms",
            "1/25",
        ];
        let header = ["REF", "QUEUE", "KIND", "STATE", "DUE", "LATE", "ATTEMPTS"];
        let table = render(header, [row.map(str::to_owned)], Some(80), false);
        assert!(table.lines().all(|it| it.chars().count() <= 80), "{table}");
        assert!(table.lines().any(|it| it.contains(reference)), "{table}");
    }
}
