//! The registry of executors. A look at who is there; it never says who has which task.

use super::{row, statements::sql};
use punctual_domain::{
    executor::{Executor, Roll, Sign, Standing, Wish},
    name::Name,
    time::Millis,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params, types::Type};

pub(crate) fn note(conn: &Connection, signs: &[Sign]) -> rusqlite::Result<Vec<()>> {
    let mut note = conn.prepare_cached(sql!(executors, save_heartbeat))?;
    let mut note = |sign: &Sign| {
        let gone = if sign.leaving { 2 } else { 0 };
        let key = (sign.namespace.as_str(), sign.name.as_str());
        note.execute(params![key.0, key.1, body_text(sign), sign.at.0, sign.alive_until.0, gone]).map(drop)
    };
    signs.iter().map(&mut note).collect()
}

pub(crate) fn wishes(conn: &Connection) -> rusqlite::Result<Vec<(Name, Name, Wish)>> {
    let wished = |row: &Row<'_>| Ok((row::name(row, 0)?, row::name(row, 1)?, wish(row, 2)?));
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
    conn.prepare_cached(sql!(executors, list))?.query_map(asked, executor)?.collect()
}

fn executor(row: &Row<'_>) -> rusqlite::Result<Executor> {
    let odd = |error| rusqlite::Error::FromSqlConversionFailure(2, Type::Text, Box::new(error));
    Ok(Executor {
        namespace: row::name(row, 0)?,
        name: row::name(row, 1)?,
        profile: serde_json::from_str(row.get_ref(2)?.as_str()?).map_err(odd)?,
        wish: wish(row, 3)?,
        first_seen_at: row::millis(row, 4)?,
        seen_at: row::millis(row, 5)?,
        alive_until: row::millis(row, 6)?,
    })
}

fn wish(row: &Row<'_>, at: usize) -> rusqlite::Result<Wish> {
    let code: u8 = row.get(at)?;
    let odd = format!("{code} is not the code of a wish");
    Wish::from_code(code)
        .ok_or_else(|| rusqlite::Error::FromSqlConversionFailure(at, Type::Integer, odd.into()))
}

/// Answers what was wished before.
pub(crate) fn set_wish(
    conn: &Connection,
    namespace: &Name,
    name: &Name,
    wish: Wish,
) -> rusqlite::Result<Option<Wish>> {
    let mut wished = conn.prepare_cached(sql!(executors, read_desired_state))?;
    let key = params![namespace.as_str(), name.as_str()];
    let Some(stood) = wished.query_row(key, |row| self::wish(row, 0)).optional()? else { return Ok(None) };
    let asked = params![namespace.as_str(), name.as_str(), wish.code(), stood.code()];
    conn.prepare_cached(sql!(executors, set_desired_state))?.execute(asked)?;
    Ok(Some(stood))
}

pub(crate) fn call_roll(
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
        let standing = if row.get(1)? { Standing::Dead } else { Standing::of(wish(row, 0)?) };
        roll.count(standing, count);
    }
    Ok(roll)
}
