//! Reads along due times: of tasks that come due, and of those that are overdue.

use punctual_domain::{
    place::{Partition, TaskRef},
    time::Millis,
};

#[derive(Clone, Debug)]
pub struct Scan {
    pub partition: Partition,
    pub until: Millis,
    /// Exclusive, or `None` means from the beginning.
    pub after: Option<(Millis, i64)>,
    pub limit: usize,
}

#[derive(Clone, Debug)]
pub struct OverdueLook {
    pub partition: Partition,
    /// Exclusive, or `None` means from the beginning.
    pub after: Option<(Millis, i64)>,
    /// Inclusive.
    pub until: Millis,
    /// Most tasks that are answered.
    pub limit: usize,
    /// The approximate number of rows to read, in any state. `None` reads all up to `until`, which is near.
    pub rows: Option<usize>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverduePage {
    pub found: Vec<Overdue>,
    /// The position where the next scan continues. `None` if everything up to `until` was read.
    pub next: Option<(Millis, i64)>,
    /// The number of the database that answered.
    pub database: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overdue {
    pub place: TaskRef,
    pub due_at: Millis,
    pub fence: i64,
}
