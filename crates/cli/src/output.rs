//! All that is printed. Results go to stdout, everything about them to stderr; a reader that has gone away ends
//! nothing but the printing.

use crate::logs;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};
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
const IN_ONE_PIECE: [&str; 4] = ["REF", "TASK", "WORKFLOW", "FIRST OF THEM"];

/// Columns without lines between them, cut to the terminal.
pub(crate) fn table<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) {
    line(&render(header, rows, None));
}

/// `width`: None: that of the terminal, if it is one.
fn render<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
    width: Option<u16>,
) -> String {
    let mut table = Table::new();
    if let Some(width) = width {
        table.set_width(width);
    }
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header);
    for row in rows {
        table.add_row(row);
    }
    for (nth, name) in header.iter().enumerate() {
        if IN_ONE_PIECE.contains(name)
            && let Some(column) = table.column_mut(nth)
        {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    trim(&table.to_string())
}

/// Pairs of a name and a value, one a line.
pub(crate) fn facts(rows: &[(&str, String)]) {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in rows {
        line(&format!("  {name:width$}  {value}"));
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
        let table = render(header, [row.map(str::to_owned)], Some(80));
        assert!(table.lines().all(|it| it.chars().count() <= 80), "{table}");
        assert!(table.lines().any(|it| it.contains(reference)), "{table}");
    }
}
