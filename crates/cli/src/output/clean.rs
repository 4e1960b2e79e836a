//! Cleans text for a terminal. Texts of tenants (kinds, labels, payloads, errors, names of executors) can come from
//! anybody who may insert a task; a terminal executes control sequences: it moves its cursor, reads a clipboard,
//! reorders lines. All printed text must pass here. The module is independent of colours: they are added afterwards.

use std::{borrow::Cow, fmt::Write as _};

/// The replacement of a character without a glyph.
const OTHER: char = '\u{fffd}';

/// One line: no control stays, and none that makes another line.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    replaced(text, |letter| match letter {
        '\t' => ' ',
        letter => pictured(letter),
    })
}

/// Text of our own that has lines and columns.
pub(crate) fn lines(text: &str) -> Cow<'_, str> {
    replaced(text, |letter| match letter {
        '\n' | '\t' => letter,
        letter => pictured(letter),
    })
}

/// A cell: lines stay in its column, so that a trace can be read, and nothing moves beyond it.
pub(super) fn cell(text: &str) -> Cow<'_, str> {
    replaced(text, |letter| match letter {
        '\n' => letter,
        '\t' => ' ',
        letter => pictured(letter),
    })
}

/// A line of the log, which has its colours already: `tracing` takes the escape out of what it is given, so one that is
/// before `[` is its own. Each further line of it is set in, so that none passes for another event.
pub(crate) fn logged(line: &str) -> String {
    let body = line.strip_suffix('\n').unwrap_or(line);
    let mut clean = String::with_capacity(line.len());
    let mut letters = body.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\n' => clean.push_str("\n    "),
            '\u{1b}' if letters.peek() == Some(&'[') => clean.push(letter),
            letter => clean.push(if letter == '\t' { letter } else { pictured(letter) }),
        }
    }
    clean.push('\n');
    clean
}

/// A document of JSON: its writer escapes C0 alone, and the others mean the same as escapes.
pub(crate) fn json(document: String) -> String {
    if !document.chars().any(is_hidden) {
        return document;
    }
    let mut clean = String::with_capacity(document.len() + 16);
    for letter in document.chars() {
        // All of them have one unit of UTF-16, and outside of strings JSON has none of them.
        if is_hidden(letter) && !letter.is_ascii_whitespace() {
            let _ = write!(clean, "\\u{:04x}", u32::from(letter));
        } else {
            clean.push(letter);
        }
    }
    clean
}

fn replaced(text: &str, with: impl Fn(char) -> char) -> Cow<'_, str> {
    if text.chars().any(is_hidden) {
        Cow::Owned(text.chars().map(with).collect())
    } else {
        Cow::Borrowed(text)
    }
}

/// A control, or what changes the direction of what follows or breaks its line.
fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// C0 and DEL have pictures.
fn pictured(letter: char) -> char {
    match u32::from(letter) {
        code @ 0..=0x1f => char::from_u32(0x2400 + code).unwrap_or(OTHER),
        0x7f => '\u{2421}',
        _ if is_hidden(letter) => OTHER,
        _ => letter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ESC, OSC 52 by BEL and by C1, CR, backspace, NEL, right-to-left override, isolates.
    const HOSTILE: &str = "a\u{1b}[2Jb\u{1b}]52;c;AAAA\u{7}c\rd\u{8}e\u{9d}52;c\u{9c}\u{85}f\u{202e}g\u{2066}h\u{7f}\t\n\u{2028}é日";

    #[test]
    fn no_control_is_left_in_a_line() {
        let shown = line(HOSTILE);
        assert!(!shown.chars().any(is_hidden), "{shown:?}");
        assert!(shown.starts_with("a␛[2Jb␛]52;c;AAAA␇c␍d␈e\u{fffd}52"), "{shown}");
        assert!(shown.ends_with("h␡ ␊\u{fffd}é日"), "{shown}");
        assert_eq!(shown.chars().count(), HOSTILE.chars().count(), "columns stay as wide");
        assert!(matches!(line("plain é 日本"), Cow::Borrowed(_)));
    }

    #[test]
    fn lines_and_columns_of_our_own_stay() {
        assert_eq!(lines("a\n\tb\u{1b}c\r\n"), "a\n\tb␛c␍\n");
        assert_eq!(cell("a\n\tb\u{1b}"), "a\n b␛");
    }

    #[test]
    fn a_line_of_the_log_keeps_its_colours_and_is_one_event() {
        assert_eq!(
            logged("\u{1b}[31mERROR\u{1b}[0m x\u{1b}]52\u{9b}\nforged\r\n"),
            "\u{1b}[31mERROR\u{1b}[0m x␛]52\u{fffd}\n    forged␍\n"
        );
    }

    #[test]
    fn json_means_the_same_and_has_no_control() {
        let value = serde_json::json!({ "a": HOSTILE, "b": [1.5, "\u{1b}"] });
        let document = serde_json::to_string(&value).unwrap();
        assert!(document.chars().any(is_hidden), "its writer leaves some");
        let clean = json(document);
        assert!(!clean.chars().any(is_hidden), "{clean:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&clean).unwrap(), value);
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json(pretty)).unwrap(), value);
    }
}
