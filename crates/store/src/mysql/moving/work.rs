//! Pieces of a partition, and what is compared of them. Pure but for the reading of answers.

use crate::mysql::row;
use punctual_domain::place::Partition;
use sqlx::{
    MySql, Row as _,
    mysql::{MySqlArguments, MySqlRow},
    query::Query,
};

/// A position in the order of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowPosition {
    pub(super) due_at: i64,
    pub(super) id: i64,
}

impl RowPosition {
    /// The position before every row.
    pub(super) const START: Self = Self { due_at: -1, id: i64::MAX };
    /// The position after every row.
    pub(super) const END: Self = Self { due_at: i64::MAX, id: i64::MAX };

    pub(super) fn read(row: &MySqlRow) -> sqlx::Result<Self> {
        Ok(Self { due_at: row.try_get(0)?, id: row.try_get(1)? })
    }
}

/// The rows after a position, up to and including another one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) after: RowPosition,
    pub(super) upto: RowPosition,
}

impl Piece {
    pub(super) fn bind(
        self,
        text: &'static str,
        partition: Partition,
    ) -> Query<'static, MySql, MySqlArguments> {
        let number = row::partition_no(partition);
        [self.after, self.upto].into_iter().fold(sqlx::query(text), |query, key| {
            query.bind(number).bind(key.due_at).bind(number).bind(key.due_at).bind(key.id)
        })
    }
}

/// The rows of one account in a piece: equal sums are equal rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sum {
    /// Namespace, queue, state code.
    pub(super) account: (String, String, i8),
    pub(super) tasks: i64,
    sum: i64,
    /// The number of payload bytes that wait.
    pub(super) bytes: i64,
}

impl Sum {
    pub(super) fn read(row: &MySqlRow) -> sqlx::Result<Self> {
        let account = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let bytes = row.try_get::<Option<i64>, _>(5)?.unwrap_or(0);
        Ok(Self { account, tasks: row.try_get(3)?, sum: row.try_get(4)?, bytes })
    }

    /// There are leases among them.
    pub(super) const fn flies(&self) -> bool {
        matches!(self.account.2, 4 | 5)
    }
}

/// A row of a piece, in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Short {
    pub(super) key: RowPosition,
    sum: i64,
    /// About.
    pub(super) bytes: i64,
}

impl Short {
    pub(super) fn read(row: &MySqlRow) -> sqlx::Result<Self> {
        Ok(Self { key: RowPosition::read(row)?, sum: row.try_get(2)?, bytes: row.try_get(3)? })
    }
}

/// The changes that a copy needs: rows that differ are removed, rows that are missing are inserted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) gone: Vec<RowPosition>,
    pub(super) new: Vec<Short>,
}

pub(super) fn difference(original: &[Short], copy: &[Short]) -> Difference {
    let there: hashbrown::HashMap<(i64, i64), i64> =
        copy.iter().map(|short| ((short.key.due_at, short.key.id), short.sum)).collect();
    let wanted: hashbrown::HashMap<(i64, i64), i64> =
        original.iter().map(|short| ((short.key.due_at, short.key.id), short.sum)).collect();
    let same = |all: &hashbrown::HashMap<(i64, i64), i64>, short: &Short| {
        all.get(&(short.key.due_at, short.key.id)) == Some(&short.sum)
    };
    Difference {
        gone: copy.iter().filter(|short| !same(&wanted, short)).map(|short| short.key).collect(),
        new: original.iter().filter(|short| !same(&there, short)).copied().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(id: i64, sum: i64) -> Short {
        Short { key: RowPosition { due_at: 5, id }, sum, bytes: 0 }
    }

    #[test]
    fn a_copy_loses_what_differs_and_gets_what_it_lacks() {
        let (original, copy) =
            ([short(1, 1), short(2, 2), short(3, 3)], [short(1, 1), short(2, 9), short(4, 4)]);
        let found = difference(&original, &copy);
        assert_eq!(found.gone.iter().map(|key| key.id).collect::<Vec<_>>(), [2, 4]);
        assert_eq!(found.new.iter().map(|short| short.key.id).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(difference(&original, &original), Difference::default());
    }
}
