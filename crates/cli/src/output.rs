//! All printed output. Results are written to stdout, everything about them to stderr; a reader that disconnects ends
//! nothing but the printing. No output contains control sequences for a terminal, except those added here (`clean`).

pub(crate) mod clean;

use crate::{
    logs,
    look::{self, Tone},
};
use clap::builder::styling::AnsiColor;
use comfy_table::{Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Table, presets};
use punctual_protocol::SetAside;
use serde::Serialize;
use std::io::{self, IsTerminal as _, Write};

/// The form of a command's answers: for people or for programs.
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

/// One line. What would begin another is shown as what it is: the text may be a tenant's.
pub(crate) fn line(text: &str) {
    put(&clean::line(text));
}

/// Text of our own that has lines.
pub(crate) fn text(text: &str) {
    put(&clean::lines(text));
}

/// A line with the word of a state in its colour.
pub(crate) fn line_with_state(before: &str, word: &str, after: &str) {
    let word = look::state(&clean::line(word));
    put(&format!("{}{word}{}", clean::line(before), clean::line(after)));
}

/// Clears a terminal, and moves to its upper left corner.
pub(crate) fn clear_screen() {
    const CLEAR: &str = "\u{1b}[2J\u{1b}[H";
    if io::stdout().is_terminal() {
        put(CLEAR);
    }
}

/// Prints clean text, with the colours that were added.
fn put(text: &str) {
    let mut to = io::stdout().lock();
    let written = writeln!(to, "{text}").and_then(|()| to.flush());
    if let Err(error) = written {
        tracing::debug!(%error, "no process reads the output");
    }
}

/// Prints a line in the order of the log. It never blocks for longer than the limit for a reader that does not read.
pub(crate) fn error_line(text: &str) {
    logs::line(&clean::line(text));
}

/// Prints a failure. Its further lines are indented, so that none can be mistaken for another message.
pub(crate) fn failure(text: &str) {
    let mut lines = text.split('\n');
    let first = lines.next().unwrap_or_default();
    logs::line(&format!("{} {}", look::failure("punctual:"), clean::line(first)));
    lines.for_each(|more| error_line(&format!("  {more}")));
}

/// One JSON document on a line of its own.
pub(crate) fn json(value: &impl Serialize) -> Result<(), serde_json::Error> {
    put(&clean::json(serde_json::to_string(value)?));
    Ok(())
}

/// Columns of what is copied from the screen: never broken over two lines, whatever that costs the others.
const IN_ONE_PIECE: [&str; 8] =
    ["REF", "TASK", "WORKFLOW", "FIRST OF THEM", "ID", "ENGINE", "NAME", "PROFILE"];
/// The maximum length of an unbroken piece of a user's name: a longer one would leave no space for the other columns.
const PIECE_MAX: usize = 34;
/// Columns that begin with the word of a state.
const STATES: [&str; 5] = ["STATE", "TO", "OUTCOME", "VERDICT", "SOUND"];

/// Columns without lines between them, cut to the terminal.
pub(crate) fn table<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) {
    put(&render(header, rows, look::width(), look::has_colours()));
}

/// Prints sentences, which are wrapped if the terminal is too narrow. A program that reads lines gets them unwrapped.
pub(crate) fn prose(text: &str, first: &str, below: &str) {
    let width = look::width().or_else(|| Table::new().width()).map_or(usize::MAX, usize::from);
    let mut begins = first;
    for part in text.split('\n') {
        wrapped(&clean::line(part), (begins, below), width).iter().for_each(|line| put(line));
        begins = below;
    }
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

/// `width`: `None` is that of the terminal, if it is one.
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
        .set_header(header.map(|text| Cell::new(text).add_attribute(Attribute::Bold)));
    for row in rows {
        table.add_row(cells(&header, row));
    }
    for (nth, name) in header.iter().enumerate() {
        let longest = table.column_cells_iter(nth).flatten().map(|cell| cell.content().chars().count()).max();
        let Some(column) = table.column_mut(nth) else { continue };
        column.set_padding((0, if nth + 1 == N { 0 } else { 2 }));
        if IN_ONE_PIECE.contains(name) && longest.is_some_and(|longest| longest <= PIECE_MAX) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    trim(&table.to_string())
}

fn cells<const N: usize>(header: &[&str; N], row: [String; N]) -> Vec<Cell> {
    let cell = |(name, text): (&&str, String)| {
        let tone = if STATES.contains(name) { Tone::of(&text) } else { None };
        let cell = Cell::new(clean::cell(&text));
        match tone.map(Tone::colour) {
            Some(AnsiColor::Green) => cell.fg(Color::DarkGreen),
            Some(AnsiColor::Yellow) => cell.fg(Color::DarkYellow),
            Some(_) => cell.fg(Color::DarkRed),
            None => cell,
        }
    };
    header.iter().zip(row).map(cell).collect()
}

/// A fact: the expressions of which engines have died.
pub(crate) fn set_aside(set_aside: SetAside) -> (&'static str, String) {
    ("set aside", format!("at {}: {}", crate::times::full(set_aside.since), set_aside.reason))
}

/// Pairs of a name and a value, one a line, which is wrapped if the terminal is too narrow; that of `state` in its
/// colour.
pub(crate) fn facts(rows: &[(&str, String)]) {
    let names = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in rows {
        let first = format!("  {name:names$}  ");
        if *name == "state" {
            line_with_state(&first, value, "");
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

/// Removes the blanks that fill the last column.
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
    fn what_a_cell_says_stays_in_it() {
        let row = ["t1\u{1b}]52;c;AAAA\u{7}", "one\r\ntwo\u{202e}", "dead\u{9b}31m"].map(str::to_owned);
        let table = render(["REF", "WHY", "STATE"], [row], Some(80), true);
        let ours = table.replace("\u{1b}[", "");
        assert!(!ours.contains(|letter: char| letter != '\n' && letter.is_control()), "{ours:?}");
        assert!(
            !ours.contains('\u{202e}') && table.lines().nth(2).is_some_and(|line| line.starts_with(' ')),
            "{table}"
        );
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
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
        assert!(table.lines().any(|line| line.contains(reference)), "{table}");
    }
}
