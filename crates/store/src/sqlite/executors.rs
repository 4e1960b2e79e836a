//! The registry of executors. It lists the known executors; it does not determine which executor has which task.

use super::{row, statements::sql};
use crate::rows;
use punctual_domain::{
    executor::{DesiredState, Executor, ExecutorStatus, Roll, Sign},
    name::Name,
    time::Millis,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

pub(crate) fn note(conn: &Connection, signs: &[Sign]) -> rusqlite::Result<Vec<()>> {
    let mut note = conn.prepare_cached(sql!(executors, save_heartbeat))?;
    let mut note = |sign: &Sign| {
        let gone = if sign.leaving { 2 } else { 0 };
        let key = (sign.namespace.as_str(), sign.name.as_str());
        note.execute(params![key.0, key.1, body_text(sign), sign.at.0, sign.alive_until.0, gone]).map(drop)
    };
    signs.iter().map(&mut note).collect()
}

pub(crate) fn wishes(conn: &Connection) -> rusqlite::Result<Vec<(Name, Name, DesiredState)>> {
    let wished = |row: &Row<'_>| Ok((row::name(row, 0)?, row::name(row, 1)?, rows::desired(row, 2)?));
    conn.prepare_cached(sql!(executors, list_desired_states))?.query_map([], wished)?.collect()
}

pub(crate) fn body_text(sign: &Sign) -> String {
    serde_json::to_string(&sign.profile).expect("numbers and strings always have a JSON form")
}

pub(crate) fn list(
    conn: &Connection,
    namespace: &Name,
    from: &str,
    limit: usize,
) -> rusqlite::Result<Vec<Executor>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let asked = params![namespace.as_str(), from, limit];
    conn.prepare_cached(sql!(executors, list))?.query_map(asked, |row| rows::executor(row))?.collect()
}

/// Answers what was wished before.
pub(crate) fn set_desired_state(
    conn: &Connection,
    namespace: &Name,
    name: &Name,
    desired: DesiredState,
) -> rusqlite::Result<Option<DesiredState>> {
    let mut wished = conn.prepare_cached(sql!(executors, read_desired_state))?;
    let key = params![namespace.as_str(), name.as_str()];
    let Some(stood) = wished.query_row(key, |value| rows::desired(value, 0)).optional()? else {
        return Ok(None);
    };
    let asked = params![namespace.as_str(), name.as_str(), desired.code(), stood.code()];
    conn.prepare_cached(sql!(executors, set_desired_state))?.execute(asked)?;
    Ok(Some(stood))
}

pub(crate) fn sweep_silent(
    conn: &Connection,
    now: Millis,
    silent_since: Millis,
    left_before: Millis,
) -> rusqlite::Result<Roll> {
    let died = conn.prepare_cached(sql!(executors, mark_silent))?.execute([now.0])?;
    conn.prepare_cached(sql!(executors, delete_silent))?.execute([silent_since.0, left_before.0])?;
    let mut roll = Roll { died: u64::try_from(died).unwrap_or(u64::MAX), ..Roll::default() };
    let mut counted = conn.prepare_cached(sql!(executors, count_by_state))?;
    let mut rows = counted.query([now.0])?;
    while let Some(row) = rows.next()? {
        let count = u64::try_from(row.get::<_, i64>(2)?).unwrap_or_default();
        let status =
            if row.get(1)? { ExecutorStatus::Dead } else { ExecutorStatus::of(rows::desired(row, 0)?) };
        roll.count(status, count);
    }
    Ok(roll)
}
