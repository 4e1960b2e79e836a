//! Translates the messages of the JSON and query parsers into the terms of the request's author: the value,
//! the allowed values, and the probable intention. The only place that knows the parsers' sentences; no type
//! name is ever shown.

use crate::limits::{PRIORITY_MAX, PRIORITY_MIN};

/// The maximum number of words in a list, in addition to the nearest one.
const LISTED_MAX: usize = 40;

/// Describes one fault, without its place.
#[must_use]
pub fn fault_in_words(said: &str) -> String {
    match said {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "must be a whole number".into()
        }
        "number too large to fit in target type" => "is too large a number".into(),
        "number too small to fit in target type" => "is too small a number".into(),
        "invalid float literal" | "cannot parse float from empty string" => "must be a number".into(),
        "provided string was not `true` or `false`" => "must be true or false".into(),
        _ if said.starts_with("missing field `") => "is missing, and must be given".into(),
        _ if said.starts_with("duplicate field `") => "is there twice".into(),
        _ => unknown(said).or_else(|| mistyped(said)).unwrap_or_else(|| said.to_owned()),
    }
}

/// Describes one fault of this field. For an integer with a general range, the message contains the range.
#[must_use]
pub(crate) fn fault_of_field(field: &str, said: &str) -> String {
    let words = fault_in_words(said);
    let range = match field {
        "priority" => PRIORITY_MIN..=PRIORITY_MAX,
        _ => return words,
    };
    let whole = expected("u8");
    words.replace(&whole, &format!("a whole number from {} to {}", range.start(), range.end()))
}

/// Why a text is no JSON.
#[must_use]
pub(crate) fn malformed(said: &str) -> String {
    let Some((what, place)) =
        said.strip_prefix("EOF while parsing ").and_then(|rest| rest.split_once(" at "))
    else {
        return format!("not valid JSON: {said}");
    };
    let open = match what {
        "a value" => "a value is missing",
        "an object" => "an object is not closed",
        "a list" => "a list is not closed",
        "a string" => "a text is not closed",
        _ => "it is not whole",
    };
    format!("not valid JSON: the body ends too early, at {place}: {open}")
}

/// Describes a value of another kind in the place of a word: the parser's message about an unknown word, and the
/// value.
#[must_use]
pub(crate) fn no_word(said: &str, value: &str) -> Option<String> {
    let known = said.strip_prefix("unknown variant ``, expected ")?;
    let known: Vec<String> = known.split('`').skip(1).step_by(2).map(|word| format!("`{word}`")).collect();
    let one = if known.len() == 1 { "" } else { "one of " };
    let found = match value.as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "a list",
        Some(b'"') => "a text",
        _ => value,
    };
    Some(format!("must be {one}{}, not {found}", known.join(", ")))
}

/// True if the message is about an unknown name.
#[must_use]
pub(crate) fn is_unknown_field(said: &str) -> bool {
    said.starts_with("unknown field")
}

/// A name or a word that is not known, with those that are.
fn unknown(said: &str) -> Option<String> {
    let rest = said.strip_prefix("unknown field `").map(|rest| ("there is no", rest));
    let (what, rest) =
        rest.or_else(|| said.strip_prefix("unknown variant `").map(|rest| ("not known:", rest)))?;
    let (given, rest) = rest.split_once('`')?;
    let known: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
    let meant = same(given, &known).or_else(|| nearest(given, known.iter().copied()));
    let meant = meant.map(|word| format!("; did you mean `{word}`?")).unwrap_or_default();
    let more = if known.len() > LISTED_MAX { ", …" } else { "" };
    let listed = known.iter().take(LISTED_MAX).map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    let listed =
        if known.is_empty() { "none is taken here".to_owned() } else { format!("expected {listed}{more}") };
    let end = if meant.is_empty() { "; " } else { " " };
    Some(format!("{what} `{given}`{meant}{end}{listed}"))
}

/// Other queues' names for known fields.
fn same<'w>(given: &str, known: &[&'w str]) -> Option<&'w str> {
    const NAMES: [(&str, &str); 8] = [
        ("body", "payload"),
        ("data", "payload"),
        ("args", "payload"),
        ("message", "payload"),
        ("run_at", "execute_at"),
        ("id", "task_id"),
        ("type", "kind"),
        ("topic", "queue"),
    ];
    let (_, name) = NAMES.into_iter().find(|(other, _)| *other == given)?;
    known.iter().copied().find(|word| *word == name)
}

/// A value of another kind than required.
fn mistyped(said: &str) -> Option<String> {
    if let Some(kind) = said.strip_prefix("data did not match any variant of untagged enum ") {
        return Some(format!("must be {}", form(kind)));
    }
    let rest = said.strip_prefix("invalid type: ").or_else(|| said.strip_prefix("invalid value: "))?;
    let (found, wanted) = rest.rsplit_once(", expected ")?;
    Some(format!("must be {}, not {}", expected(wanted), unexpected(found)))
}

/// The description of a type with several forms.
fn form(kind: &str) -> &'static str {
    match kind {
        "Instant" => "an instant: RFC 3339 (\"2026-12-24T08:00:00Z\"), or milliseconds since 1970",
        "OneOrMany" => "one text, or a list of texts",
        "Exclude" => "a date, a range of two instants, or a cron expression",
        "PauseWish" => "true or false, or an object with a reason",
        _ => "of another form: see the document of the interface",
    }
}

/// The expected kind.
fn expected(wanted: &str) -> String {
    const NAMES: [(&str, &str); 17] = [
        ("u8", "a whole number from 0 to 255"),
        ("u16", "a whole number from 0 to 65535"),
        ("u32", "a whole number from 0 to 4294967295"),
        ("u64", "a whole number from 0 on"),
        ("usize", "a whole number from 0 on"),
        ("i32", "a whole number"),
        ("i64", "a whole number of up to 64 bits"),
        ("f64", "a number"),
        ("bool", "true or false"),
        ("a boolean", "true or false"),
        ("a string", "a text"),
        ("a borrowed string", "a text"),
        ("string or map", "a text, or an object"),
        ("a sequence", "a list"),
        ("a map", "an object"),
        ("map", "an object"),
        ("unit", "null"),
    ];
    // Of the reader's own types: all of them are objects.
    const OBJECTS: [&str; 6] = [
        "struct ",
        "internally tagged enum ",
        "adjacently tagged enum ",
        "enum ",
        "struct variant ",
        "tuple struct ",
    ];
    if let Some((_, words)) = NAMES.iter().find(|(name, _)| *name == wanted) {
        return (*words).to_owned();
    }
    if OBJECTS.iter().any(|kind| wanted.starts_with(kind)) {
        return "an object".to_owned();
    }
    wanted.to_owned()
}

/// The kind that was found.
fn unexpected(found: &str) -> String {
    match found {
        "map" => "an object".to_owned(),
        "sequence" => "a list".to_owned(),
        "unit" | "null" | "unit value" | "Option value" => "null".to_owned(),
        other => match other.split_once(' ') {
            Some(("string", text)) => format!("the text {text}"),
            Some(("integer" | "boolean", value)) => value.trim_matches('`').to_owned(),
            Some(("floating", value)) => value.trim_start_matches("point ").trim_matches('`').to_owned(),
            _ => other.to_owned(),
        },
    }
}

/// The word that was probably meant.
#[must_use]
pub fn nearest<'w>(given: &str, known: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let plain = |text: &str| text.to_ascii_lowercase().replace('-', "_");
    let given = plain(given);
    let far = |word: &&str| {
        let word = plain(word);
        let begins = given.len() > 2 && (word.starts_with(&given) || given.starts_with(&format!("{word}_")));
        if begins { 1 } else { distance(&given, &word) }
    };
    let found = known.into_iter().map(|word| (far(&word), word)).min()?;
    let most = (given.chars().count().max(found.1.chars().count()) / 3).clamp(1, 3);
    (found.0 <= most).then_some(found.1)
}

/// The edit distance: the number of inserted, deleted, changed, and transposed letters.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows = vec![(0..=other.len()).collect::<Vec<usize>>()];
    for (nth, letter) in one.iter().enumerate() {
        let above = rows.last().cloned().unwrap_or_default();
        let mut row = vec![nth + 1];
        for (at, wanted) in other.iter().enumerate() {
            let of = |row: &[usize], at: usize| row.get(at).copied().unwrap_or(usize::MAX / 2);
            let swapped =
                nth > 0 && at > 0 && one.get(nth - 1) == Some(wanted) && other.get(at - 1) == Some(letter);
            let before =
                swapped.then(|| rows.get(nth.saturating_sub(1)).map(|row| of(row, at - 1) + 1)).flatten();
            let least =
                [of(&above, at + 1) + 1, of(&row, at) + 1, of(&above, at) + usize::from(letter != wanted)];
            row.push(least.into_iter().chain(before).min().unwrap_or_default());
        }
        rows.push(row);
    }
    rows.last().and_then(|row| row.last()).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_sentence_of_the_reader_comes_through() {
        for (said, words) in [
            ("invalid type: integer `10`, expected struct Rate", "must be an object, not 10"),
            (
                "invalid type: string \"x\", expected u8",
                "must be a whole number from 0 to 255, not the text \"x\"",
            ),
            (
                "invalid value: integer `-1`, expected u32",
                "must be a whole number from 0 to 4294967295, not -1",
            ),
            ("invalid type: null, expected a string", "must be a text, not null"),
            ("invalid type: map, expected a sequence", "must be a list, not an object"),
            (
                "invalid type: floating point `1.5`, expected i64",
                "must be a whole number of up to 64 bits, not 1.5",
            ),
            ("invalid type: boolean `true`, expected f64", "must be a number, not true"),
            ("invalid type: integer `1`, expected internally tagged enum Retry", "must be an object, not 1"),
            ("invalid digit found in string", "must be a whole number"),
            (
                "data did not match any variant of untagged enum OneOrMany",
                "must be one text, or a list of texts",
            ),
            (
                "unknown field `delay`, expected one of `queue`, `delay_ms`, `deadline_ms`",
                "there is no `delay`; did you mean `delay_ms`? expected `queue`, `delay_ms`, `deadline_ms`",
            ),
            ("unknown field `x`, there are no fields", "there is no `x`; none is taken here"),
            (
                "unknown variant `ded`, expected `dead` or `cancelled`",
                "not known: `ded`; did you mean `dead`? expected `dead`, `cancelled`",
            ),
            ("unknown variant `asleep`, expected `dead` or `x`", "not known: `asleep`; expected `dead`, `x`"),
            (
                "unknown field `body`, expected `queue` or `payload`",
                "there is no `body`; did you mean `payload`? expected `queue`, `payload`",
            ),
            ("missing field `queue`", "is missing, and must be given"),
            ("duplicate field `queue`", "is there twice"),
        ] {
            assert_eq!(fault_in_words(said), words, "{said}");
        }
    }

    #[test]
    fn the_word_that_was_meant_is_near() {
        let known = ["queue", "kind", "delay_ms", "max_attempts", "on_conflict", "labels", "priority"];
        for (given, meant) in [
            ("delay", Some("delay_ms")),
            ("quue", Some("queue")),
            ("Queue", Some("queue")),
            ("prio", Some("priority")),
            ("qeuue", Some("queue")),
            ("label", Some("labels")),
            ("max-attempts", Some("max_attempts")),
            ("onConflict", Some("on_conflict")),
            ("payload", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(given, known), meant, "{given}");
        }
        assert_eq!(nearest("a", []), None);
    }
}
