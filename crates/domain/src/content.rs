//! A caller's bytes, in the row of their task or outside the store. Codes and references are durable formats:
//! rows and archives contain them. Does not define where "outside" is.

use std::fmt::Write as _;

/// A caller's bytes, and whether they are JSON text (shown as such) or opaque.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Content {
    pub is_json: bool,
    /// The bytes are stored outside of the store: `bytes` is the reference to them.
    pub is_outside: bool,
    pub bytes: Vec<u8>,
}

/// The location of bytes that are stored outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference<'a> {
    pub key: &'a str,
    /// The length of the bytes themselves.
    pub len: usize,
}

/// The bits of the columns `payload_is_json` and `result_is_json`. A bit is never reused.
const JSON_BIT: u8 = 1;
const OUTSIDE_BIT: u8 = 2;

impl Content {
    #[must_use]
    pub fn json(text: impl Into<String>) -> Self {
        Self { is_json: true, is_outside: false, bytes: text.into().into_bytes() }
    }

    #[must_use]
    pub const fn binary(bytes: Vec<u8>) -> Self {
        Self { is_json: false, is_outside: false, bytes }
    }

    /// The bytes themselves.
    #[must_use]
    pub const fn inside(is_json: bool, bytes: Vec<u8>) -> Self {
        Self { is_json, is_outside: false, bytes }
    }

    /// Refers to `len` bytes that are stored elsewhere under a key.
    #[must_use]
    pub fn outside(is_json: bool, key: &str, len: usize) -> Self {
        let mut text = String::with_capacity(key.len() + 12);
        let _ = write!(text, "{len} {key}");
        Self { is_json, is_outside: true, bytes: text.into_bytes() }
    }

    /// Returns `None` if the bytes are here, or are not a reference.
    #[must_use]
    pub fn reference(&self) -> Option<Reference<'_>> {
        let text = str::from_utf8(&self.bytes).ok().filter(|_| self.is_outside)?;
        let (len, key) = text.split_once(' ')?;
        Some(Reference { key, len: len.parse().ok()? })
    }

    /// The size of the bytes themselves, here or outside.
    #[must_use]
    pub fn size(&self) -> usize {
        self.reference().map_or(self.bytes.len(), |reference| reference.len)
    }

    /// The code in the store: 0 bytes, 1 JSON, 2 bytes outside, 3 JSON outside.
    #[must_use]
    pub const fn code(&self) -> u8 {
        (if self.is_json { JSON_BIT } else { 0 }) | (if self.is_outside { OUTSIDE_BIT } else { 0 })
    }

    /// Returns `None` if no such code exists.
    #[must_use]
    pub fn from_code(code: u8, bytes: Vec<u8>) -> Option<Self> {
        if code > (JSON_BIT | OUTSIDE_BIT) {
            return None;
        }
        Some(Self { is_json: code & JSON_BIT != 0, is_outside: code & OUTSIDE_BIT != 0, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_pinned_because_rows_were_stored_by_them() {
        let key = Content::outside(true, "020000/n-a/1.0.5.ff", 70_000);
        assert_eq!(key.bytes, b"70000 020000/n-a/1.0.5.ff");
        let all = [Content::binary(vec![1]), Content::json("2"), Content::outside(false, "k", 1), key];
        for (code, content) in (0..).zip(all) {
            assert_eq!(content.code(), code);
            assert_eq!(Content::from_code(code, content.bytes.clone()), Some(content));
        }
        assert_eq!(Content::from_code(4, Vec::new()), None);
    }

    #[test]
    fn only_what_is_outside_has_a_reference() {
        let outside = Content::outside(false, "a b", 7);
        assert_eq!(outside.reference(), Some(Reference { key: "a b", len: 7 }));
        assert_eq!(Content::inside(false, outside.bytes).reference(), None, "bytes that only look like one");
        assert_eq!(Content { is_outside: true, ..Content::json("x") }.reference(), None);
    }
}
