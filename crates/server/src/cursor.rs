//! The opaque cursor of a list of tasks: the id below which the next page goes on.

use crate::refusal::Refusal;

/// Cursor text.
pub(crate) fn write(before_id: i64) -> String {
    format!("c{:016x}", before_id.cast_unsigned())
}

/// The id that a caller's cursor names.
pub(crate) fn before_id(cursor: Option<&str>) -> Result<Option<i64>, Refusal> {
    let refused = || Refusal::field("/cursor", "is not a `next_cursor` that this server has answered");
    cursor.map(|it| read(it).ok_or_else(refused)).transpose()
}

/// None: not a cursor of ours.
fn read(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('c').filter(|it| it.len() == 16)?;
    let plain = digits.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'));
    if plain { u64::from_str_radix(digits, 16).ok().map(u64::cast_signed) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_its_text_form_and_nothing_else_is_one() {
        for id in [0, 1, -1, i64::MAX, i64::MIN] {
            assert_eq!(read(&write(id)), Some(id));
        }
        for text in ["", "c", "7", "c000000000000000g", "c+00000000000001", "d0000000000000001"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
