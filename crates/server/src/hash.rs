//! Numbers made of bytes. They are stored (with idempotency keys, and as task ids), so they must never change.
//! Not for secrets: they tell honest requests apart, inside one namespace.

const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// FNV-1a over the parts, each closed by a byte that no UTF-8 text has, finished with the mixer of splitmix64.
pub(crate) fn of(parts: &[&[u8]]) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    let hash = parts.iter().fold(BASIS, |hash, part| {
        let inner = part.iter().fold(hash, |hash, byte| step(hash, *byte));
        step(inner, 0xff)
    });
    finish(hash)
}

fn finish(seed: u64) -> u64 {
    let a = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    b ^ (b >> 31)
}

/// Deeper documents are refused anyway.
const DEPTH_MAX: usize = 256;

/// The hash of a JSON document, independent of the order of its members and of blanks: numbers and strings count as
/// they are written. `None` if it is no JSON, or nested too deeply. Reads each byte once.
pub(crate) fn json(text: &[u8]) -> Option<u64> {
    serde_json::from_slice::<serde::de::IgnoredAny>(text).ok()?;
    let (mut open, mut at) = (Vec::<Container<'_>>::new(), 0);
    while let Some(byte) = text.get(at) {
        let rest = text.get(at..)?;
        let value = match byte {
            b'{' | b'[' if open.len() == DEPTH_MAX => return None,
            b'{' => {
                open.push(Container::Object { key: None, members: Vec::new() });
                None
            }
            b'[' => {
                open.push(Container::Array(Vec::new()));
                None
            }
            b'}' | b']' => Some(open.pop()?.hash()),
            b'"' => {
                let string = rest.get(..string_length(rest))?;
                at += string.len() - 1;
                match open.last_mut() {
                    Some(Container::Object { key: key @ None, .. }) => {
                        *key = Some(string);
                        None
                    }
                    _ => Some(of(&[string])),
                }
            }
            b',' | b':' | b' ' | b'\n' | b'\r' | b'\t' => None,
            _ => {
                let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
                let length = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
                at += length.max(1) - 1;
                Some(of(&[rest.get(..length)?]))
            }
        };
        at += 1;
        if let Some(value) = value {
            match open.last_mut() {
                None => return Some(value),
                Some(container) => container.add(value),
            }
        }
    }
    None
}

/// The length of the string at the beginning of a text, including its quotes.
fn string_length(text: &[u8]) -> usize {
    let mut at = 1;
    loop {
        match text.get(at) {
            None => return text.len(),
            Some(b'"') => return at + 1,
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
        }
    }
}

/// The part of an object or an array that was read.
enum Container<'t> {
    Array(Vec<u64>),
    Object { key: Option<&'t [u8]>, members: Vec<(&'t [u8], u64)> },
}

impl Container<'_> {
    fn add(&mut self, value: u64) {
        match self {
            Self::Array(items) => items.push(value),
            Self::Object { key, members } => members.extend(key.take().map(|key| (key, value))),
        }
    }

    fn hash(self) -> u64 {
        match self {
            Self::Array(items) => {
                let items = items.into_iter().flat_map(u64::to_be_bytes).collect::<Vec<_>>();
                of(&[b"[", &items])
            }
            Self::Object { mut members, .. } => {
                // Stable: of two of one name, a reader takes the last.
                members.sort_by_key(|(key, _)| *key);
                let hashed = members.into_iter().flat_map(|(key, value)| [of(&[key]), value]);
                of(&[b"{", &hashed.flat_map(u64::to_be_bytes).collect::<Vec<_>>()])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_pinned_because_it_is_stored() {
        assert_eq!(of(&[b"POST", b"/v1/tasks", b"{}"]), PINNED);
    }
    const PINNED: u64 = 9_397_571_875_363_397_398;

    #[test]
    fn parts_do_not_run_into_each_other() {
        assert_ne!(of(&[b"ab", b"c"]), of(&[b"a", b"bc"]));
        assert_ne!(of(&[b"ab"]), of(&[b"ab", b""]));
    }

    #[test]
    fn the_order_of_members_and_blanks_do_not_count_and_all_else_does() {
        let same = [
            r#"{"queue":"q","payload":{"b":[1,{"x":"}","y":1.10}],"a":"\""},"delay_ms":5}"#,
            "{ \"delay_ms\": 5,\n\t\"payload\": {\"a\": \"\\\"\", \"b\": [1, {\"y\": 1.10, \"x\": \"}\"}]}, \"queue\": \"q\"}",
        ];
        let [one, other] = same.map(|text| json(text.as_bytes()).unwrap());
        assert_eq!(one, other);
        let texts = [
            same[0],
            r#"{"queue":"q","payload":{"b":[{"x":"}","y":1.10},1],"a":"\""},"delay_ms":5}"#,
            r#"{"queue":"q","payload":{"b":[1,{"x":"}","y":1.1}],"a":"\""},"delay_ms":5}"#,
            r#"{"queue":"q","payload":{"b":[1,{"x":"}","y":1.10}]},"a":"\"","delay_ms":5}"#,
            r#"{"queue":"5","payload":{"b":[1,{"x":"}","y":1.10}],"a":"\""},"delay_ms":"q"}"#,
            r#"{"queue":"q","payload":{"b":[1,{"x":"}","y":1.10}],"a":"\""},"delay_ms":"5"}"#,
            "{}",
            "[]",
            "[[]]",
            "[{}]",
            "[[],[]]",
            "\"[]\"",
            "null",
            "\"null\"",
            "[null]",
            "[1,2]",
            "[12]",
            "12345678901234567890123",
            "12345678901234567890124",
            r#"{"a":1,"a":2}"#,
            r#"{"a":2,"a":1}"#,
        ];
        for (nth, text) in texts.iter().enumerate() {
            for other in &texts[nth + 1..] {
                assert_ne!(json(text.as_bytes()).unwrap(), json(other.as_bytes()).unwrap(), "{text} {other}");
            }
        }
    }

    #[test]
    fn what_is_no_document_has_none() {
        let deep = format!("{}{}", "[".repeat(DEPTH_MAX + 1), "]".repeat(DEPTH_MAX + 1));
        for text in ["", "{", "nul", "{}{}", "[1,]", "\"", &deep] {
            assert_eq!(json(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn that_of_a_document_is_pinned_too() {
        assert_eq!(json(br#"{"a":[1,"b"]}"#), json(br#"{"a": [1, "b"]}"#));
        assert_eq!(json(b"5"), Some(of(&[b"5"])));
        let array = [of(&[b"1"]).to_be_bytes(), of(&[b"\"b\""]).to_be_bytes()].concat();
        let member = [of(&[b"\"a\""]).to_be_bytes(), of(&[b"[", &array]).to_be_bytes()].concat();
        assert_eq!(json(br#"{"a":[1,"b"]}"#), Some(of(&[b"{", &member])));
    }
}
