//! The archives of a store as an engine has them, and where the catalog and each database keep the number of their place. Must
//! know no step that reads or writes archives.

use crate::{ArchiveStorage, mysql::statements::sql};
use hashbrown::HashMap;
use parking_lot::Mutex;
use sqlx::{MySqlConnection, Row as _};
use std::sync::Arc;

/// The name in `meta` under which the number of a database's archives is stored.
pub(crate) const PLACE: &str = "archive_place";

#[derive(Debug)]
pub(crate) struct Archive {
    pub(crate) archive_storage: Arc<ArchiveStorage>,
    /// The number of its place.
    pub(crate) place: i64,
    /// The number of published archives by database when they were last listed.
    pub(super) seen: Mutex<HashMap<usize, i64>>,
}

impl Archive {
    pub(super) fn new(archive_storage: Arc<ArchiveStorage>, place: i64) -> Self {
        Self { archive_storage, place, seen: Mutex::default() }
    }
}

/// The number of a database's archives, which is that of its store, or `None` if it has none.
pub(crate) async fn place_of(conn: &mut MySqlConnection) -> sqlx::Result<Option<i64>> {
    let found = sqlx::query(sql!(shards, read_meta)).bind(PLACE).fetch_optional(conn).await?;
    found.map(|row| row.try_get(0)).transpose()
}
