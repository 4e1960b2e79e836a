//! Checks that the receiver of a JSON value that is stored as text can parse it. The parser of a request skips over
//! such a text, and accepts what no receiver can parse: nesting that overflows a stack, halves of surrogate pairs,
//! numbers beyond any double. An executor would lose the complete answer that contains it. The check reads each byte
//! once and never recurses. Its input must be one JSON value.

use std::ops::Range;

use crate::fields::escape;
use crate::limits::JSON_DEPTH_MAX;

/// The maximum number of characters of a key in a pointer.
const KEY_MAX_CHARS: usize = 64;

/// Longer than any number below the largest double is when it is written without an exponent.
const LONG_NUMBER: usize = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Deep,
    HalfOfAPair,
    TooLarge,
}

impl Fault {
    fn detail(self) -> String {
        match self {
            Self::Deep => format!("is nested deeper than {JSON_DEPTH_MAX} levels"),
            Self::HalfOfAPair => {
                "has a \\u escape that is half of a surrogate pair, which is no character".into()
            }
            Self::TooLarge => "is a number that is too large for a double".into(),
        }
    }
}

/// The place in the value (a JSON pointer), and the fault.
pub(crate) fn unreadable(text: &str) -> Option<(String, String)> {
    let text = text.as_bytes();
    let (at, fault) = first_fault(text)?;
    Some((pointer(text, at), fault.detail()))
}

fn first_fault(text: &[u8]) -> Option<(usize, Fault)> {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => match after_string(text, at) {
                Ok(after) => at = after,
                Err(escape_at) => return Some((escape_at, Fault::HalfOfAPair)),
            },
            b'-' | b'0'..=b'9' => {
                let number = number(text, at);
                if is_too_large(number) {
                    return Some((at, Fault::TooLarge));
                }
                at += number.len();
            }
            b'[' | b'{' if depth == JSON_DEPTH_MAX => return Some((at, Fault::Deep)),
            b'[' | b'{' => (at, depth) = (at + 1, depth + 1),
            b']' | b'}' => (at, depth) = (at + 1, depth.saturating_sub(1)),
            _ => at += 1,
        }
    }
    None
}

/// `Err`: the position of half a pair.
fn after_string(text: &[u8], quote_at: usize) -> Result<usize, usize> {
    let mut at = quote_at + 1;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        at += rest.iter().position(|byte| matches!(byte, b'"' | b'\\')).unwrap_or(rest.len());
        match text.get(at..).unwrap_or_default() {
            [b'\\', b'u', ..] => at = after_unit(text, at).ok_or(at)?,
            [b'\\', ..] => at += 2,
            _ => return Ok(at + 1),
        }
    }
}

/// The position after an escape, or a pair of them, or `None` means half of a pair.
fn after_unit(text: &[u8], at: usize) -> Option<usize> {
    match unit(text, at) {
        Some(0xD800..=0xDBFF) => matches!(unit(text, at + 6), Some(0xDC00..=0xDFFF)).then_some(at + 12),
        Some(0xDC00..=0xDFFF) => None,
        _ => Some(at + 6),
    }
}

fn unit(text: &[u8], at: usize) -> Option<u16> {
    let digits = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

fn number(text: &[u8], at: usize) -> &[u8] {
    let rest = text.get(at..).unwrap_or_default();
    let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
    rest.split_at(rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len())).0
}

fn is_too_large(number: &[u8]) -> bool {
    let may_be = number.len() >= LONG_NUMBER || number.iter().any(|number| matches!(number, b'e' | b'E'));
    let parsed = || str::from_utf8(number).ok()?.parse::<f64>().ok();
    may_be && parsed().is_none_or(f64::is_infinite)
}

/// A frame on the path to the fault.
enum Frame {
    Item(usize),
    /// The present member, or `None` if none yet, or it is the key itself.
    Member(Option<Range<usize>>),
}

/// A second, slower pass, only for refused values.
fn pointer(text: &[u8], fault_at: usize) -> String {
    let (mut frames, mut at) = (Vec::new(), 0);
    while at < fault_at {
        let Some(byte) = text.get(at) else { break };
        let mut after = at + 1;
        match (byte, frames.last_mut()) {
            (b'"', top) => {
                after = after_string(text, at).unwrap_or(text.len());
                if let Some(Frame::Member(key @ None)) = top.filter(|_| after <= fault_at) {
                    *key = Some(at..after);
                }
            }
            (b'[', _) => frames.push(Frame::Item(0)),
            (b'{', _) => frames.push(Frame::Member(None)),
            (b']' | b'}', _) => drop(frames.pop()),
            (b',', Some(Frame::Item(nth))) => *nth += 1,
            (b',', Some(Frame::Member(key))) => *key = None,
            _ => {}
        }
        at = after;
    }
    frames.iter().map(|frame| segment(text, frame)).collect()
}

fn segment(text: &[u8], frame: &Frame) -> String {
    match frame {
        Frame::Item(nth) => format!("/{nth}"),
        Frame::Member(None) => String::new(),
        Frame::Member(Some(key)) => {
            let key = text.get(key.clone()).unwrap_or_default();
            let key: String = serde_json::from_slice(key).unwrap_or_default();
            format!("/{}", escape(&key.chars().take(KEY_MAX_CHARS).collect::<String>()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn refused(text: &str) -> Option<(String, Fault)> {
        serde_json::from_str::<Box<serde_json::value::RawValue>>(text).unwrap();
        let (at, fault) = first_fault(text.as_bytes())?;
        Some((pointer(text.as_bytes(), at), fault))
    }

    fn nested(levels: usize) -> String {
        format!("{}{}", "[".repeat(levels), "]".repeat(levels))
    }

    #[test]
    fn nesting_is_counted_and_no_depth_overflows() {
        assert_eq!(refused(&nested(JSON_DEPTH_MAX)), None);
        assert_eq!(refused(&nested(JSON_DEPTH_MAX + 1)).unwrap().1, Fault::Deep);
        assert_eq!(refused(&nested(1_000_000)), Some(("/0".repeat(JSON_DEPTH_MAX), Fault::Deep)));
        let beside = format!("[{}1]", "{\"a\":[]},".repeat(1_000));
        assert_eq!(refused(&beside), None, "what stands beside each other is not nested");
    }

    #[test]
    fn halves_of_pairs_are_refused_where_they_stand() {
        for (text, at) in [
            (r#""\ud800""#, ""),
            (r#""\udc00""#, ""),
            (r#"{"a":[1,"x\ud83dx"]}"#, "/a/1"),
            (r#"{"a":1,"b/c":{"\udead":2}}"#, "/b~1c"),
            (r#"{"a":{"b":1},"c":"\ud83d\ud83d"}"#, "/c"),
            (r#"["\\\ud800"]"#, "/0"),
        ] {
            assert_eq!(refused(text), Some((at.to_owned(), Fault::HalfOfAPair)), "{text}");
        }
        for text in [r#""\ud83d\ude00""#, r#""\\ud800""#, r#""\u00e9\"\\""#, r#"{"\ud83d\ude00":"]"}"#] {
            assert_eq!(refused(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_that_no_double_holds_are_refused() {
        let long = format!("[0,{}]", "9".repeat(400));
        for (text, at) in
            [("1e999", ""), ("[1,-1e309]", "/1"), (r#"{"n":{"m":2E+400}}"#, "/n/m"), (&long, "/1")]
        {
            assert_eq!(refused(text), Some((at.to_owned(), Fault::TooLarge)), "{text}");
        }
        let small = format!("0.{}1", "0".repeat(500));
        for text in
            ["1.7976931348623157e308", "1e-999", "12345678901234567890123", &small, "-0e0", "\"1e999\""]
        {
            assert_eq!(refused(text), None, "{text}");
        }
    }

    /// Values as text, with pieces that are refused among them.
    fn texts() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            "[ -~]",
            Just("é€😀".to_owned()),
            Just(r"\ud83d\ude00".to_owned()),
            Just(r"\ud800".to_owned()),
            Just(r"\udc00".to_owned()),
            Just(r"\n".to_owned()),
            Just(r"\\".to_owned()),
            Just(r#"\""#.to_owned()),
        ]
        .prop_map(|text| if text == "\"" || text == "\\" { "x".to_owned() } else { text });
        let string = prop::collection::vec(piece, 0..6).prop_map(|list| format!("\"{}\"", list.concat()));
        let number = "-?(0|[1-9][0-9]{0,320})(\\.[0-9]{1,5})?([eE][+-]?[0-9]{1,3})?";
        let leaf = prop_oneof![4 => string.clone(), 2 => number, 1 => Just("null".to_owned()), 1 => Just("true".to_owned())];
        leaf.prop_recursive(6, 40, 5, move |inner| {
            let member = (string.clone(), inner.clone()).prop_map(|(key, value)| format!("{key} :{value}"));
            prop_oneof![
                prop::collection::vec(inner, 0..5).prop_map(|list| format!("[{}]", list.join(" , "))),
                prop::collection::vec(member, 0..5).prop_map(|list| format!("{{{}}}", list.join(","))),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn what_serde_json_makes_a_value_of_is_readable_and_nothing_else(text in texts()) {
            serde_json::from_str::<Box<serde_json::value::RawValue>>(&text).unwrap();
            let found = refused(&text);
            prop_assert_eq!(found.is_none(), serde_json::from_str::<Value>(&text).is_ok(), "{} {:?}", text, found);
        }
    }
}
