//! The faults of a request: a code and, for each field, a JSON pointer and a sentence. Checks gather every
//! fault of a request, so that a caller corrects all of them at once.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::Json;
use crate::codes::Code;
use crate::limits::{
    INDEXED_LABELS_MAX, KEY_MAX_BYTES, LABEL_KEY_MAX_CHARS, LABEL_VALUE_MAX_CHARS, LABELS_MAX, NAME_MAX_CHARS,
};
use crate::readable::unreadable;

/// One fault: its place (a JSON pointer, RFC 6901; empty for the complete body) and a description.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct FieldError {
    #[schema(example = "/execute_at")]
    pub pointer: String,
    #[schema(example = "must be between 1 and 5, not 9")]
    pub detail: String,
}

impl FieldError {
    pub fn new(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), detail: detail.into() }
    }
}

/// A request that is refused for its content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.summary())]
pub struct Invalid {
    pub code: Code,
    pub errors: Vec<FieldError>,
}

impl Invalid {
    /// Moves the pointers below `prefix`, for an item of a larger body: `/tasks/3` + `/queue`.
    #[must_use]
    pub fn under(mut self, prefix: &str) -> Self {
        for error in &mut self.errors {
            error.pointer.insert_str(0, prefix);
        }
        self
    }

    /// One sentence for people.
    pub fn summary(&self) -> String {
        match self.errors.as_slice() {
            [one] if one.pointer.is_empty() => one.detail.clone(),
            [one] => format!("{}: {}", one.pointer, one.detail),
            many => format!("{} fields are not valid", many.len()),
        }
    }
}

impl From<FieldError> for Invalid {
    fn from(error: FieldError) -> Self {
        Self { code: Code::RequestInvalid, errors: vec![error] }
    }
}

/// It would be stored and never found.
pub(crate) const LABEL_KEY_WITH_SIGN: &str =
    "key must have no =: a search names a label as key=value, and takes the first = for the end of the key";

/// Gathers faults.
#[derive(Debug, Default)]
pub(crate) struct Checks(Vec<FieldError>);

impl Checks {
    pub(crate) fn refuse(&mut self, pointer: impl Into<String>, detail: impl Into<String>) {
        self.0.push(FieldError::new(pointer, detail));
    }

    pub(crate) fn take<T>(&mut self, checked: Result<T, FieldError>) {
        self.0.extend(checked.err());
    }

    /// Adds another check's faults, below a pointer.
    pub(crate) fn under(&mut self, prefix: &str, others: Self) {
        self.0.extend(
            others
                .0
                .into_iter()
                .map(|error| FieldError::new(format!("{prefix}{}", error.pointer), error.detail)),
        );
    }

    /// `[A-Za-z0-9._:-]{1,128}`, and not `.` or `..`.
    pub(crate) fn name(&mut self, pointer: &str, name: &str) {
        if is_step_of_a_path(name) {
            self.refuse(pointer, "must not be . or .. alone: in an address they are steps of its path");
        } else {
            self.prefix(pointer, name);
        }
    }

    /// The beginning of a name.
    pub(crate) fn prefix(&mut self, pointer: &str, prefix: &str) {
        if !is_name(prefix) {
            self.refuse(pointer, "must be 1 to 128 characters from A-Z a-z 0-9 . _ : -");
        }
    }

    pub(crate) fn range<T>(&mut self, pointer: &str, value: Option<T>, range: RangeInclusive<T>)
    where
        T: PartialOrd + std::fmt::Display,
    {
        if let Some(value) = value.filter(|value| !range.contains(value)) {
            let (least, most) = (range.start(), range.end());
            self.refuse(pointer, format!("must be between {least} and {most}, not {value}"));
        }
    }

    /// Checks like `range` a number of milliseconds, and reports it in readable units.
    pub(crate) fn span<T>(&mut self, pointer: &str, value: Option<T>, range: RangeInclusive<T>)
    where
        T: PartialOrd + Copy + TryInto<i64> + std::fmt::Display,
    {
        if let Some(value) = value.filter(|value| !range.contains(value)) {
            let [least, most] =
                [*range.start(), *range.end()].map(|ms| in_words(ms.try_into().unwrap_or(i64::MAX)));
            self.refuse(pointer, format!("must be between {least} and {most}, in milliseconds, not {value}"));
        }
    }

    pub(crate) fn at_most_chars(&mut self, pointer: &str, text: Option<&str>, max: usize) {
        if text.is_some_and(|text| text.chars().nth(max).is_some()) {
            self.refuse(pointer, format!("must be at most {max} characters"));
        }
    }

    /// A text that says something, where there is one.
    pub(crate) fn text(&mut self, pointer: &str, text: Option<&str>, max: usize) {
        if text.is_some_and(|text| text.is_empty() || text.chars().nth(max).is_some()) {
            self.refuse(pointer, format!("must be 1 to {max} characters"));
        }
    }

    /// A task's identity in words.
    pub(crate) fn key(&mut self, pointer: &str, key: Option<&str>) {
        if key.is_some_and(|key| !(1..=KEY_MAX_BYTES).contains(&key.len())) {
            self.refuse(pointer, format!("must be 1 to {KEY_MAX_BYTES} bytes of UTF-8"));
        }
    }

    /// A version of a handler: one to three numbers, and the suffixes of semantic versions. Missing numbers
    /// are 0.
    pub(crate) fn version(&mut self, pointer: &str, version: Option<&str>) {
        let Some(version) = version.filter(|version| !version.is_empty()) else { return };
        let (numbers, rest) = version.split_at(version.find(['-', '+']).unwrap_or(version.len()));
        let missing = 2_usize.saturating_sub(numbers.matches('.').count());
        if let Err(problem) = semver::Version::parse(&format!("{numbers}{}{rest}", ".0".repeat(missing))) {
            self.refuse(
                pointer,
                format!("is not a version: {problem}; write major.minor.patch, such as 2.1.0"),
            );
        }
    }

    /// A range of such versions.
    pub(crate) fn versions(&mut self, pointer: &str, range: Option<&str>) {
        let Some(Err(problem)) = range.filter(|range| !range.is_empty()).map(semver::VersionReq::parse)
        else {
            return;
        };
        self.refuse(
            pointer,
            format!("is not a range of versions: {problem}; write such as >=2.1, <3 or ^1.4"),
        );
    }

    pub(crate) fn at_most_one(&mut self, a: (&str, bool), b: (&str, bool)) {
        if a.1 && b.1 {
            self.refuse(format!("/{}", b.0), format!("give either {} or {}, not both", a.0, b.0));
        }
    }

    /// A value that its receiver can parse.
    pub(crate) fn readable(&mut self, pointer: &str, json: Option<&Json>) {
        if let Some((inner, detail)) = json.and_then(|json| unreadable(json.get())) {
            self.refuse(format!("{pointer}{inner}"), detail);
        }
    }

    pub(crate) fn labels(&mut self, labels: &BTreeMap<String, String>) {
        if labels.len() > LABELS_MAX {
            self.refuse("/labels", format!("must have at most {LABELS_MAX} entries"));
        }
        for (key, value) in labels {
            let pointer = format!("/labels/{}", escape(key));
            if key.is_empty() || key.chars().nth(LABEL_KEY_MAX_CHARS).is_some() {
                self.refuse(&pointer, format!("key must be 1 to {LABEL_KEY_MAX_CHARS} characters"));
            }
            if key.contains('=') {
                self.refuse(&pointer, LABEL_KEY_WITH_SIGN);
            }
            self.at_most_chars(&pointer, Some(value), LABEL_VALUE_MAX_CHARS);
        }
    }

    pub(crate) fn done(self) -> Result<(), Invalid> {
        if self.0.is_empty() { Ok(()) } else { Err(Invalid { code: Code::RequestInvalid, errors: self.0 }) }
    }
}

pub(crate) fn is_name(name: &str) -> bool {
    (1..=NAME_MAX_CHARS).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b':' | b'-'))
}

/// Names occur in URLs, and clients remove these two from a path.
fn is_step_of_a_path(name: &str) -> bool {
    matches!(name, "." | "..")
}

/// A key as a JSON pointer writes it (RFC 6901, section 3).
pub(crate) fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Writes a number of milliseconds in at most two units, the largest that it fills: `1 min 30 s`, `365 days`.
#[must_use]
pub fn in_words(ms: i64) -> String {
    const UNITS: [(u64, &str); 5] =
        [(86_400_000, "days"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms")];
    let sign = if ms < 0 { "-" } else { "" };
    let mut left = ms.unsigned_abs();
    let mut words = Vec::new();
    for (unit_ms, word) in UNITS {
        let count = left / unit_ms;
        left %= unit_ms;
        match count {
            0 if words.is_empty() => {}
            0 => break,
            1 if word == "days" => words.push("1 day".to_owned()),
            _ => words.push(format!("{count} {word}")),
        }
        if words.len() == 2 {
            break;
        }
    }
    if words.is_empty() { "0 ms".to_owned() } else { format!("{sign}{}", words.join(" ")) }
}

/// Keys of labels that are indexed.
pub(crate) fn check_indexed(checks: &mut Checks, labels: &[String]) {
    if labels.len() > INDEXED_LABELS_MAX {
        let detail = format!("must be at most {INDEXED_LABELS_MAX}, not {}", labels.len());
        checks.refuse("/indexed_labels", detail);
    }
    for (nth, key) in labels.iter().enumerate() {
        let pointer = format!("/indexed_labels/{nth}");
        if key.is_empty() || key.contains('=') {
            checks.refuse(&pointer, "must be the key of a label, without `=`: a search names `key=value`");
        }
        checks.at_most_chars(&pointer, Some(key), LABEL_KEY_MAX_CHARS);
        if labels.iter().take(nth).any(|label| label == key) {
            checks.refuse(&pointer, format!("{key:?} is there already"));
        }
    }
}

/// Reports the sent value, the allowed range, and the remedy.
pub(crate) fn within<T>(
    checks: &mut Checks,
    pointer: &str,
    value: Option<T>,
    range: RangeInclusive<T>,
    way_out: &str,
) where
    T: PartialOrd + Display,
{
    if let Some(value) = value.filter(|value| !range.contains(value)) {
        let (least, most) = (range.start(), range.end());
        checks.refuse(pointer, format!("must be between {least} and {most}, not {value}; {way_out}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_1_to_128_plain_characters() {
        assert!(is_name("orders.eu:urgent_2-x") && is_name(&"a".repeat(128)));
        for bad in ["", "a b", "a/b", "é", &"a".repeat(129)] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn a_name_is_no_step_of_a_path_but_may_begin_with_one() {
        let faults = |check: &dyn Fn(&mut Checks)| {
            let mut checks = Checks::default();
            check(&mut checks);
            checks.done().err().map_or(0, |invalid| invalid.errors.len())
        };
        for step in [".", ".."] {
            assert_eq!(faults(&|checks| checks.name("/queue", step)), 1, "{step}");
            assert_eq!(faults(&|checks| checks.prefix("/prefix", step)), 0, "{step}");
        }
        for good in ["...", ".a", "a.", ":", "-"] {
            assert_eq!(faults(&|checks| checks.name("/queue", good)), 0, "{good}");
        }
    }

    #[test]
    fn labels_are_counted_and_measured_in_characters() {
        let over = |labels: BTreeMap<String, String>| {
            let mut checks = Checks::default();
            checks.labels(&labels);
            checks.done().err().map(|e| e.errors)
        };
        assert_eq!(over([("k".repeat(128), "é".repeat(256))].into()), None);
        let bad = over([("a/b".to_owned(), "v".repeat(257))].into()).unwrap();
        assert_eq!(bad, [FieldError::new("/labels/a~1b", "must be at most 256 characters")]);
        assert!(over([(String::new(), String::new())].into()).is_some());
        assert!(over([("k".repeat(129), String::new())].into()).is_some());
        let sign = over([("a=b".to_owned(), "c=d".to_owned())].into()).unwrap();
        assert_eq!(sign, [FieldError::new("/labels/a=b", LABEL_KEY_WITH_SIGN)]);
        assert_eq!(over([("a:b".to_owned(), "c=d".to_owned())].into()), None, "in a value it is found");
        assert!(over((0..33).map(|i| (i.to_string(), String::new())).collect()).is_some());
    }

    #[test]
    fn spans_are_told_as_a_person_has_them() {
        for (ms, words) in [
            (0, "0 ms"),
            (1, "1 ms"),
            (90_000, "1 min 30 s"),
            (86_400_000, "1 day"),
            (31_536_000_000, "365 days"),
            (3_600_001, "1 h"),
            (-60_000, "-1 min"),
        ] {
            assert_eq!(in_words(ms), words);
        }
        let mut checks = Checks::default();
        checks.span("/timeout_ms", Some(0_i64), 1..=31_536_000_000);
        let said = checks.done().unwrap_err().summary();
        assert!(said.contains("between 1 ms and 365 days, in milliseconds, not 0"), "{said}");
    }

    #[test]
    fn what_is_out_of_range_is_named() {
        let mut checks = Checks::default();
        checks.range("/priority", Some(9), 1..=5);
        assert_eq!(checks.done().unwrap_err().summary(), "/priority: must be between 1 and 5, not 9");
    }

    #[test]
    fn pointers_move_below_their_item() {
        let moved = Invalid::from(FieldError::new("/queue", "x")).under("/tasks/3");
        assert_eq!(moved.summary(), "/tasks/3/queue: x");
    }
}
