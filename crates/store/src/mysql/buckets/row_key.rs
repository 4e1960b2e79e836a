//! A position in the order of the key of `task`, and its values in a statement. Must not run a statement.

use punctual_domain::{place::TaskRef, task::Task};
use sqlx::{
    MySql, Row as _,
    mysql::{MySqlArguments, MySqlRow},
    query::Query,
};

pub(super) type Statement = Query<'static, MySql, MySqlArguments>;

/// A position in the order of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowKey {
    partition_no: i32,
    due_at: i64,
    id: i64,
}

impl RowKey {
    /// The key before every row.
    pub(super) const START: Self = Self { partition_no: -1, due_at: 0, id: 0 };
    /// The key after every row.
    pub(super) const END: Self = Self { partition_no: i32::MAX, due_at: i64::MAX, id: i64::MAX };

    pub(super) fn from_row(row: &MySqlRow) -> sqlx::Result<Self> {
        Ok(Self { partition_no: row.try_get(0)?, due_at: row.try_get(1)?, id: row.try_get(2)? })
    }

    pub(super) fn at(place: TaskRef) -> Self {
        Self { partition_no: i32::from(place.partition.0), due_at: place.due_at.0, id: place.id }
    }

    pub(super) fn of(task: &Task) -> Self {
        Self { partition_no: i32::from(task.place.partition.0), due_at: task.due_at.0, id: task.place.id }
    }

    pub(super) fn bind(self, statement: Statement) -> Statement {
        statement.bind(self.partition_no).bind(self.due_at).bind(self.id)
    }

    /// Six values, of three ranges of the key: what comes after it.
    pub(super) fn bind_after(self, statement: Statement) -> Statement {
        let one = statement.bind(self.partition_no);
        self.bind(one.bind(self.partition_no).bind(self.due_at))
    }

    /// The same six: what comes before it, and itself.
    pub(super) fn bind_upto(self, statement: Statement) -> Statement {
        self.bind_after(statement)
    }
}
