//! Values and JSON. Parses numbers with all digits, and the places of expressions; writes them as they were
//! read. Takes time proportional to the length of the text.

use crate::value::{Decimal, Map, MapKey, Value};
use serde_json::Number;
use std::fmt::Write as _;

/// Arrays and objects within each other.
const DEPTH_MAX: usize = 128;
/// The field of an object that is an expression.
pub(crate) const MARK: &str = "$expr";

/// An object of a payload that is an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundExpression {
    /// Bytes of the payload that its value represents.
    pub(crate) at: usize,
    pub(crate) end: usize,
    /// A pointer to it, below the payload.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// The value of a JSON text.
///
/// # Errors
/// The error, and its position.
pub fn read(text: &str) -> Result<Value, String> {
    Reader { text, at: 0, depth: 0, path: Vec::new(), found: None }.all()
}

/// The expressions of a payload, in order.
pub(crate) fn expressions(text: &str) -> Result<Vec<FoundExpression>, String> {
    let mut reader = Reader { text, at: 0, depth: 0, path: Vec::new(), found: Some(Vec::new()) };
    reader.all()?;
    Ok(reader.found.unwrap_or_default())
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    /// The path from the payload to the present place, maintained while expressions are searched.
    path: Vec<PathStep>,
    found: Option<Vec<FoundExpression>>,
}

enum PathStep {
    Item(usize),
    Field(MapKey),
}

impl Reader<'_> {
    fn all(&mut self) -> Result<Value, String> {
        let value = self.value()?;
        self.skip_space();
        if self.at < self.text.len() {
            return Err(self.wrong("it goes on after its end"));
        }
        Ok(value)
    }

    fn wrong(&self, problem: &str) -> String {
        format!("is not JSON: {problem}, at its byte {}", self.at)
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, sign: u8) -> bool {
        self.skip_space();
        let is_there = self.peek() == Some(sign);
        self.at += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, sign: u8) -> Result<(), String> {
        if self.take(sign) { Ok(()) } else { Err(self.wrong(&format!("{:?} is missing", char::from(sign)))) }
    }

    fn value(&mut self) -> Result<Value, String> {
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.within(Self::object),
            Some(b'[') => self.within(Self::array),
            Some(b'"') => Ok(Value::String(self.string()?.into())),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                let words = [("null", Value::Null), ("true", true.into()), ("false", false.into())];
                for (word, value) in words {
                    if self.rest().starts_with(word) {
                        self.at += word.len();
                        return Ok(value);
                    }
                }
                Err(self.wrong("a value is missing"))
            }
        }
    }

    fn within(&mut self, read: impl Fn(&mut Self) -> Result<Value, String>) -> Result<Value, String> {
        if self.depth >= DEPTH_MAX {
            return Err(self.wrong(&format!("it is more than {DEPTH_MAX} deep")));
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn array(&mut self) -> Result<Value, String> {
        self.at += 1;
        let mut items = Vec::new();
        if self.take(b']') {
            return Ok(Value::list(items));
        }
        loop {
            let item = self.below(PathStep::Item(items.len()))?;
            items.push(item);
            if !self.take(b',') {
                self.expect(b']')?;
                return Ok(Value::list(items));
            }
        }
    }

    fn object(&mut self) -> Result<Value, String> {
        let at = self.at;
        self.at += 1;
        let mut entries = Vec::new();
        if !self.take(b'}') {
            loop {
                self.skip_space();
                let name = MapKey::Text(self.string()?.into());
                self.expect(b':')?;
                let value = self.below(PathStep::Field(name.clone()))?;
                entries.push((name, value));
                if !self.take(b',') {
                    self.expect(b'}')?;
                    break;
                }
            }
        }
        let map = Map::of(entries);
        self.note(at, &map)?;
        Ok(Value::Map(map.into()))
    }

    fn below(&mut self, step: PathStep) -> Result<Value, String> {
        if self.found.is_none() {
            return self.value();
        }
        self.path.push(step);
        let value = self.value();
        self.path.pop();
        value
    }

    /// An object that was read, and may be an expression.
    fn note(&mut self, at: usize, map: &Map) -> Result<(), String> {
        let Some(found) = &mut self.found else { return Ok(()) };
        let text = match (map.field(MARK), map.len()) {
            (None, _) => return Ok(()),
            (Some(Value::String(text)), 1) => text.as_ref().to_owned(),
            (Some(_), 1) => return Err(format!("`{MARK}` must be a text")),
            (Some(_), _) => return Err(format!("an object with `{MARK}` must have nothing else")),
        };
        let mut path = String::new();
        for step in &self.path {
            let written = match step {
                PathStep::Item(nth) => write!(path, "/{nth}"),
                PathStep::Field(name) => {
                    write!(path, "/{}", name.text().replace('~', "~0").replace('/', "~1"))
                }
            };
            written.map_err(|problem| problem.to_string())?;
        }
        found.push(FoundExpression { at, end: self.at, path, text });
        Ok(())
    }

    fn string(&mut self) -> Result<String, String> {
        let at = self.at;
        if self.peek() != Some(b'"') {
            return Err(self.wrong("a text is missing"));
        }
        self.at += 1;
        let mut is_plain = true;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    is_plain = false;
                    self.at += 2;
                }
                Some(byte) if byte >= b' ' => self.at += 1,
                _ => return Err(self.wrong("a text does not end")),
            }
        }
        self.at += 1;
        let whole = self.text.get(at..self.at).ok_or_else(|| self.wrong("a text does not end"))?;
        if is_plain {
            return Ok(whole.trim_matches('"').to_owned());
        }
        serde_json::from_str(whole)
            .map_err(|problem| format!("is not JSON: {problem}, in the text at its byte {at}"))
    }

    fn number(&mut self) -> Result<Value, String> {
        let length =
            self.rest().find(|letter: char| !matches!(letter, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
        let text = self.rest().get(..length.unwrap_or_else(|| self.rest().len())).unwrap_or_default();
        let value = of_number(text).ok_or_else(|| self.wrong("a number is not one"))?;
        self.at += text.len();
        Ok(value)
    }
}

/// Parses a number in the syntax of JSON.
fn of_number(text: &str) -> Option<Value> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, exponent) = digits.split_once(['e', 'E']).map_or((digits, None), |(head, e)| (head, Some(e)));
    let (whole, rest) = whole.split_once('.').map_or((whole, None), |(head, rest)| (head, Some(rest)));
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let exponent_is =
        exponent.is_none_or(|exponent| are_digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)));
    if !are_digits(whole) || (whole.len() > 1 && whole.starts_with('0')) || !exponent_is {
        return None;
    }
    if !rest.is_none_or(are_digits) {
        return None;
    }
    let is_whole = rest.is_none() && exponent.is_none() && text != "-0";
    if is_whole {
        if let Ok(number) = text.parse() {
            return Some(Value::Int(number));
        }
        if let Ok(number) = text.parse() {
            return Some(Value::UInt(number));
        }
    }
    let is_exact = |double: f64| of_double(double).is_some_and(|written| written == text);
    let double = text.parse().ok().filter(|number| is_exact(*number));
    double.map(Value::Double).or_else(|| Decimal::of(text).map(|decimal| Value::Decimal(decimal.into())))
}

fn of_double(double: f64) -> Option<String> {
    Number::from_f64(double).map(|number| number.to_string())
}

/// Writes a value of at most `max` bytes.
///
/// # Errors
/// It is longer, or JSON cannot represent it.
pub(crate) fn write(value: &Value, max: usize) -> Result<String, Unwritten> {
    let mut text = String::new();
    append(value, &mut text, max)?;
    Ok(text)
}

/// Appends a value.
pub(crate) fn append(value: &Value, text: &mut String, max: usize) -> Result<(), Unwritten> {
    Writer { text, left: max }.value(value)
}

/// Why a value was not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unwritten {
    TooLong,
    Unknown(&'static str),
}

struct Writer<'a> {
    text: &'a mut String,
    left: usize,
}

impl Writer<'_> {
    fn put(&mut self, text: &str) -> Result<(), Unwritten> {
        self.left = self.left.checked_sub(text.len()).ok_or(Unwritten::TooLong)?;
        self.text.push_str(text);
        Ok(())
    }

    fn value(&mut self, value: &Value) -> Result<(), Unwritten> {
        match value {
            Value::Null => self.put("null"),
            Value::Bool(true) => self.put("true"),
            Value::Bool(false) => self.put("false"),
            Value::Int(number) => self.put(&number.to_string()),
            Value::UInt(number) => self.put(&number.to_string()),
            Value::Double(number) => {
                self.put(&of_double(*number).ok_or(Unwritten::Unknown("a number that is infinite, or none"))?)
            }
            Value::Decimal(decimal) => self.put(decimal.text()),
            Value::String(text) => self.string(text),
            Value::Bytes(bytes) => self.base64(bytes),
            Value::List(items) => {
                self.put("[")?;
                self.separated(items.iter(), Self::value)?;
                self.put("]")
            }
            Value::Map(map) => {
                self.put("{")?;
                self.separated(map.entries().iter(), |writer, (key, value)| {
                    writer.string(&key.text())?;
                    writer.put(":")?;
                    writer.value(value)
                })?;
                self.put("}")
            }
            Value::Type(_) => Err(Unwritten::Unknown("a type")),
        }
    }

    fn separated<T>(
        &mut self,
        items: impl Iterator<Item = T>,
        write: impl Fn(&mut Self, T) -> Result<(), Unwritten>,
    ) -> Result<(), Unwritten> {
        for (nth, item) in items.enumerate() {
            if nth > 0 {
                self.put(",")?;
            }
            write(self, item)?;
        }
        Ok(())
    }

    fn string(&mut self, text: &str) -> Result<(), Unwritten> {
        if text.len() > self.left {
            return Err(Unwritten::TooLong);
        }
        let quoted = serde_json::to_string(text).map_err(|_| Unwritten::Unknown("a text"))?;
        self.put(&quoted)
    }

    fn base64(&mut self, bytes: &[u8]) -> Result<(), Unwritten> {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        self.put("\"")?;
        for three in bytes.chunks(3) {
            let byte = |nth: usize| u32::from(three.get(nth).copied().unwrap_or(0));
            let bits = (byte(0) << 16) | (byte(1) << 8) | byte(2);
            let mut four = String::with_capacity(4);
            for nth in 0..4 {
                let letter = usize::try_from((bits >> (18 - 6 * nth)) & 63)
                    .ok()
                    .and_then(|number| LETTERS.get(number));
                let is_there = nth <= three.len();
                four.push(letter.filter(|_| is_there).map_or('=', |letter| char::from(*letter)));
            }
            self.put(&four)?;
        }
        self.put("\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(text: &str) -> String {
        write(&read(text).unwrap(), usize::MAX).unwrap()
    }

    #[test]
    fn numbers_keep_their_digits() {
        let all = [
            "0",
            "-0",
            "9007199254740993",
            "18446744073709551615",
            "-9223372036854775808",
            "1.10",
            "1e2",
            "1E+2",
        ];
        let long = [
            "123456789012345678901234567890",
            "0.1000000000000000055511151231257827",
            "1e400",
            "-0.0",
            "2.5",
        ];
        for number in all.into_iter().chain(long) {
            assert_eq!(again(number), number);
        }
        for wrong in ["01", "1.", ".5", "1e", "+1", "--1", "1e1.5", "-"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_another_reader_takes_this_one_takes_as_the_same() {
        let long = format!("{}1{}", "[".repeat(100), "]".repeat(100));
        let good = [
            r#" {"b": [1, {"a\u00e9\n": "\ud83d\ude00"}], "a": null, "b": true} "#,
            "[]",
            "{}",
            "\"\"",
            &long,
            "\"é\\\"\"",
        ];
        for text in good {
            let wanted: serde_json::Value = serde_json::from_str(text).unwrap();
            assert_eq!(again(text), wanted.to_string());
        }
        let deep = "[".repeat(100_000);
        let bad = [
            "",
            "nul",
            "[1,]",
            "{\"a\" 1}",
            "{a: 1}",
            "\"\u{1}\"",
            "\"\\ud800\"",
            "\"a",
            "\"\\",
            "1 2",
            "[1",
            &deep,
        ];
        for text in bad {
            assert!(
                read(text).is_err() && serde_json::from_str::<serde_json::Value>(text).is_err(),
                "{text}"
            );
        }
    }

    #[test]
    fn bytes_are_base64_and_what_is_too_long_is_not_written() {
        let bytes = |bytes: &[u8]| write(&Value::Bytes(bytes.into()), 100).unwrap();
        assert_eq!(
            [bytes(b""), bytes(b"a"), bytes(b"ab"), bytes(b"abc")],
            ["\"\"", "\"YQ==\"", "\"YWI=\"", "\"YWJj\""]
        );
        let list = Value::list(vec![Value::Int(10); 3]);
        assert_eq!(write(&list, 10).unwrap(), "[10,10,10]");
        assert_eq!(write(&list, 9), Err(Unwritten::TooLong));
        assert!(write(&Value::Double(f64::NAN), 9).is_err());
    }

    #[test]
    fn expressions_are_found_with_their_paths_and_places() {
        let text = r#"{"a/b": [1, {"$expr" : "x"}], "~": {"c": {"\u0024expr": "y"}}, "$expr ": 2}"#;
        let found = expressions(text).unwrap();
        let seen: Vec<_> = found
            .iter()
            .map(|found| (found.path.as_str(), found.text.as_str(), &text[found.at..found.end]))
            .collect();
        let wanted = [("/a~1b/1", "x", r#"{"$expr" : "x"}"#), ("/~0/c", "y", r#"{"\u0024expr": "y"}"#)];
        assert_eq!(seen, wanted);
        assert_eq!(expressions(r#"{"$expr": "z"}"#).unwrap()[0].path, "");
    }
}
