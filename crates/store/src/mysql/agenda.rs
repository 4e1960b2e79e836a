//! What a database has for the services of an engine: one read tells all of them that there is nothing to do. Must not decide what
//! a service does.

use super::{state::MySqlState, statements::sql};
use crate::Error;
use punctual_contract::store::Agenda;
use punctual_domain::time::Millis;
use sqlx::{MySqlConnection, Row as _, mysql::MySqlRow};
use std::sync::Arc;

/// Of a part that the store does not have, an empty one.
pub(super) async fn read(inner: Arc<MySqlState>, part: usize) -> Result<Agenda, Error> {
    let Some(shard) = inner.members().get(part) else { return Ok(Agenda::default()) };
    // The catalog has connections of its own. They are used several times a second: a ping before each read would double the trips.
    let connections = if part == 0 { &inner.catalog } else { &shard.readers };
    Ok(connections.read_unasked(async |conn| ask(conn).await).await?)
}

async fn ask(conn: &mut MySqlConnection) -> sqlx::Result<Agenda> {
    let row = sqlx::query(sql!(agenda, read)).fetch_one(conn).await?;
    Ok(Agenda {
        settings_revision: row.try_get(0)?,
        access_revision: row.try_get(1)?,
        schedules_at: instant(&row, 2)?,
        workflows_at: instant(&row, 3)?,
        marked_at: instant(&row, 4)?,
        bulks_at: instant(&row, 5)?,
        leases_at: instant(&row, 6)?,
        has_labels_left: row.try_get::<i64, _>(7)? != 0,
    })
}

fn instant(row: &MySqlRow, nth: usize) -> sqlx::Result<Option<Millis>> {
    Ok(row.try_get::<Option<i64>, _>(nth)?.map(Millis))
}
