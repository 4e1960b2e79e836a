//! All that is printed. Results go to stdout, everything about them to stderr; a reader that has gone away ends
//! nothing but the printing.

use crate::logs;
use comfy_table::{ContentArrangement, Table, presets};
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

/// Columns without lines between them, cut to the terminal.
pub(crate) fn table<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header);
    for row in rows {
        table.add_row(row);
    }
    line(&trim(&table.to_string()));
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
}
