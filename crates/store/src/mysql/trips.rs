//! The round trips of one transaction: the first read is sent along with BEGIN, and the last writes are sent along
//! with COMMIT, as text. Each trip wakes two processes, which under a light load is the largest part of a task's
//! cost. Must hold nothing that a later statement of the same transaction reads.

use super::{
    alike,
    parameters::{ROWS_MAX, wanted},
    statements::sql,
};
use crate::subject;
use punctual_domain::place::TaskRef;
use sqlx::mysql::MySqlRow;
use std::fmt::Write as _;

/// A value in its current state in a text: texts and bytes in hexadecimal, so that nothing in them is read as SQL.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Literal<'v> {
    Int(i64),
    Text(&'v str),
    Bytes(&'v [u8]),
}

#[derive(Debug, Default)]
pub(crate) struct Trips {
    first: Option<FirstLook>,
    last: Vec<String>,
}

/// The read of one statement over places, before anything is changed.
#[derive(Debug)]
pub(crate) struct FirstLook {
    text: &'static str,
    /// The places in the order of the key.
    places: Vec<TaskRef>,
    /// The condition of the places, if they are read without locks.
    condition: Option<String>,
    rows: Vec<MySqlRow>,
}

/// The result of a first read.
#[derive(Debug)]
pub(crate) enum FirstRead {
    /// Column 0: the number of the place.
    Locked(Vec<MySqlRow>),
    /// Column 0: the id.
    Unlocked(Vec<MySqlRow>),
}

impl FirstLook {
    /// Returns `None` if the places are too many for one statement.
    pub(crate) fn new(text: &'static str, mut places: Vec<TaskRef>) -> Option<Self> {
        places.sort_unstable();
        let is_one = !places.is_empty() && places.len() <= ROWS_MAX;
        is_one.then_some(Self { text, places, condition: None, rows: Vec::new() })
    }

    /// The same for grants, without locks: half the cost, where the places can be said cheaply. `None` means perhaps
    /// not.
    pub(crate) fn unlocked(mut places: Vec<TaskRef>) -> Option<Self> {
        places.sort_unstable();
        if places.len() > ROWS_MAX {
            return None;
        }
        let condition = alike::condition(&places)?;
        Some(Self { text: sql!(lease, lock_for_grant), places, condition: Some(condition), rows: Vec::new() })
    }

    /// The statement, with its places.
    pub(crate) fn sql(&self) -> String {
        if let Some(condition) = &self.condition {
            return subject::filled(sql!(lease, read_for_grant), "{places}", condition);
        }
        // Numbers, commas and brackets.
        self.text.replacen('?', &format!("'{}'", wanted(&self.places)), 1)
    }

    pub(crate) fn answered(self, rows: Vec<MySqlRow>) -> Self {
        Self { rows, ..self }
    }
}

impl Trips {
    pub(crate) fn new(first: Option<FirstLook>) -> Self {
        Self { first, last: Vec::new() }
    }

    /// The rows of the first read, if it was this one; only once, because later changes are not in it.
    pub(crate) fn found(&mut self, text: &'static str, places: &[TaskRef]) -> Option<FirstRead> {
        let first_look =
            self.first.take().filter(|first_look| first_look.text == text && first_look.places == places)?;
        Some(if first_look.condition.is_some() {
            FirstRead::Unlocked(first_look.rows)
        } else {
            FirstRead::Locked(first_look.rows)
        })
    }

    /// Adds a statement that is sent along with the commit.
    pub(crate) fn at_last(&mut self, text: &str, values: &[Literal<'_>]) {
        self.last.push(filled(text, values));
    }

    /// The last trip, and how many statements come before its COMMIT.
    pub(crate) fn commit(self) -> (String, usize) {
        let before = self.last.len();
        let mut text = self.last.join(";\n");
        text.push_str(if before > 0 { ";\nCOMMIT" } else { "COMMIT" });
        (text, before)
    }
}

/// The text with its parameters in their places.
fn filled(text: &str, values: &[Literal<'_>]) -> String {
    assert_eq!(text.matches('?').count(), values.len(), "{text}");
    let mut filled = String::with_capacity(text.len() + values.len() * 16);
    let mut parts = text.split('?');
    filled.push_str(parts.next().unwrap_or_default());
    for (part, value) in parts.zip(values) {
        write_to(&mut filled, *value);
        filled.push_str(part);
    }
    filled
}

fn write_to(to: &mut String, value: Literal<'_>) {
    let bytes = match value {
        Literal::Int(number) => {
            let _ = write!(to, "{number}");
            return;
        }
        Literal::Text(text) => {
            to.push_str("_utf8mb4 ");
            text.as_bytes()
        }
        Literal::Bytes(bytes) => bytes,
    };
    to.push_str("x'");
    for byte in bytes {
        let _ = write!(to, "{byte:02x}");
    }
    to.push('\'');
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_domain::{place::Partition, time::Millis};

    #[test]
    fn values_cannot_leave_their_places() {
        let mut trips = Trips::default();
        trips.at_last("A ?, ?", &[Literal::Text("'; DROP TABLE task; -- ?"), Literal::Int(i64::MIN)]);
        trips.at_last("B ?", &[Literal::Bytes(&[0, 39, 255])]);
        let (text, before) = trips.commit();
        let quoted = "273b2044524f50205441424c45207461736b3b202d2d203f";
        let wanted = format!("A _utf8mb4 x'{quoted}', -9223372036854775808;\nB x'0027ff';\nCOMMIT");
        assert_eq!((text, before), (wanted, 2));
        assert_eq!(Trips::default().commit(), ("COMMIT".to_owned(), 0));
    }

    #[test]
    fn grants_are_read_without_locks_unless_they_are_too_many_for_one_statement() {
        let place =
            |id| TaskRef { partition: Partition(u16::try_from(id % 2).unwrap()), due_at: Millis(id), id };
        let look = FirstLook::unlocked([4, 3].map(place).to_vec()).unwrap();
        let named = "WHERE (task.partition_no, task.due_at, task.id) IN ((0,4,4),(1,3,3))";
        assert!(look.sql().trim_end().ends_with(named), "{}", look.sql());
        assert!(matches!(
            Trips::new(Some(look)).found(sql!(lease, lock_for_grant), &[place(4), place(3)]),
            Some(FirstRead::Unlocked(_))
        ));
        assert!(FirstLook::unlocked((0..301).map(place).collect()).is_none());
    }

    #[test]
    fn a_first_look_is_for_what_it_looked_for_and_only_once() {
        let place = |id| TaskRef { partition: Partition(1), due_at: Millis(2), id };
        let look = || FirstLook::new("L ?", vec![place(4), place(3)]).unwrap();
        assert_eq!(look().sql(), "L '[[0,1,2,3],[1,1,2,4]]'");
        assert!(Trips::new(Some(look())).found("L ?", &[place(3)]).is_none());
        assert!(Trips::new(Some(look())).found("M ?", &[place(3), place(4)]).is_none());
        let mut trips = Trips::new(Some(look()));
        assert!(trips.found("L ?", &[place(3), place(4)]).is_some());
        assert!(trips.found("L ?", &[place(3), place(4)]).is_none());
        assert!(FirstLook::new("L ?", Vec::new()).is_none());
        assert!(FirstLook::new("L ?", (0..=1_000).map(place).collect()).is_none());
    }
}
