//! What the file has for the services of an engine: one read tells all of them that there is nothing to do. Must not decide what a
//! service does.

use super::statements::sql;
use punctual_contract::store::Agenda;
use punctual_domain::time::Millis;
use rusqlite::{Connection, Row};

pub(crate) fn read(conn: &Connection) -> rusqlite::Result<Agenda> {
    let instant =
        |row: &Row<'_>, nth: usize| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(nth)?.map(Millis));
    conn.prepare_cached(sql!(agenda, read))?.query_row([], |row| {
        Ok(Agenda {
            settings_revision: row.get(0)?,
            access_revision: row.get(1)?,
            schedules_at: instant(row, 2)?,
            workflows_at: instant(row, 3)?,
            marked_at: instant(row, 4)?,
            bulks_at: instant(row, 5)?,
            leases_at: instant(row, 6)?,
            has_labels_left: row.get(7)?,
        })
    })
}
