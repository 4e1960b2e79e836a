//! The opaque cursor of a list: the id below or above which the next page continues, or, along due times, the task behind which.

use crate::refusal::Refusal;
use punctual_contract::store::DuePosition;
use punctual_domain::time::Millis;

/// The position where a search for tasks continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    BelowId(i64),
    AboveId(i64),
    BeforeDue(DuePosition),
    AfterDue(DuePosition),
}

impl Position {
    pub(crate) fn write(self) -> String {
        match self {
            Self::BelowId(id) => write(id),
            Self::AboveId(id) => format!("a{:016x}", id.cast_unsigned()),
            Self::BeforeDue(at) => write_due('d', at),
            Self::AfterDue(at) => write_due('e', at),
        }
    }

    fn read(text: &str) -> Option<Self> {
        if let Some(id) = text.strip_prefix('a') {
            return number(id).map(Self::AboveId);
        }
        match text.strip_prefix(['d', 'e']).filter(|rest| rest.len() == 32) {
            Some(both) if text.starts_with('d') => read_due(both).map(Self::BeforeDue),
            Some(both) => read_due(both).map(Self::AfterDue),
            None => read(text).map(Self::BelowId),
        }
    }
}

fn write_due(order: char, DuePosition { due_at, id }: DuePosition) -> String {
    format!("{order}{:016x}{:016x}", due_at.0.cast_unsigned(), id.cast_unsigned())
}

fn read_due(both: &str) -> Option<DuePosition> {
    let (due_at, id) = both.split_at_checked(16)?;
    Some(DuePosition { due_at: Millis(number(due_at)?), id: number(id)? })
}

/// Cursor text.
pub(crate) fn write(before_id: i64) -> String {
    format!("c{:016x}", before_id.cast_unsigned())
}

/// The id that a caller's cursor names.
pub(crate) fn before_id(cursor: Option<&str>) -> Result<Option<i64>, Refusal> {
    cursor.map(|cursor| read(cursor).ok_or_else(refused)).transpose()
}

/// The position in a caller's cursor.
pub(crate) fn position(cursor: Option<&str>) -> Result<Option<Position>, Refusal> {
    cursor.map(|cursor| Position::read(cursor).ok_or_else(refused)).transpose()
}

pub(crate) fn refused() -> Refusal {
    Refusal::field("/cursor", "is not a `next_cursor` that this server has answered")
}

/// Returns `None` for text that is no cursor of this server.
fn read(text: &str) -> Option<i64> {
    number(text.strip_prefix('c')?)
}

fn number(text: &str) -> Option<i64> {
    let digits = Some(text).filter(|text| text.len() == 16)?;
    let plain = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if plain { u64::from_str_radix(digits, 16).ok().map(u64::cast_signed) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_its_text_form_and_nothing_else_is_one() {
        for id in [0, 1, -1, i64::MAX, i64::MIN] {
            assert_eq!(read(&write(id)), Some(id));
            assert_eq!(Position::read(&Position::AboveId(id).write()), Some(Position::AboveId(id)));
        }
        for (due_at, id) in [(0, 0), (i64::MAX, -1), (i64::MIN, 7)] {
            let at = DuePosition { due_at: Millis(due_at), id };
            for position in [Position::BeforeDue(at), Position::AfterDue(at)] {
                assert_eq!(Position::read(&position.write()), Some(position));
            }
        }
        assert_eq!(Position::read(&write(7)), Some(Position::BelowId(7)));
        assert_eq!(Position::read("d00000000000000000000000000000"), None);
        assert_eq!(Position::read("d000000000000000\u{e9}00000000000000"), None);
        for text in ["", "c", "7", "c000000000000000g", "c+00000000000001", "d0000000000000001"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
