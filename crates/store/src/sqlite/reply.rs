//! Answers that are stored under idempotency keys. They are independent of tasks and are never counted as such.

use super::statements::sql;
use crate::rows;
use punctual_contract::store::{Reply, ReplyKey, Reservation, Reserved};
use punctual_domain::time::Millis;
use rusqlite::{Connection, OptionalExtension as _, params};

pub(crate) fn save(conn: &Connection, key: &ReplyKey, reply: &Reply) -> rusqlite::Result<()> {
    let Reply { request_hash, status, body, keep_until } = reply;
    let hash = request_hash.cast_signed();
    let row = params![key.namespace.as_str(), key.key, hash, status, body, keep_until.0];
    conn.prepare_cached(sql!(reply, save))?.execute(row).map(drop)
}

pub(crate) fn load(conn: &Connection, key: &ReplyKey, now: Millis) -> rusqlite::Result<Option<Reply>> {
    let key = params![key.namespace.as_str(), key.key, now.0];
    conn.prepare_cached(sql!(reply, load))?.query_row(key, |row| rows::reply(row)).optional()
}

pub(crate) fn reserve(
    conn: &Connection,
    key: &ReplyKey,
    reservation: &Reservation,
    now: Millis,
) -> rusqlite::Result<Reserved> {
    let Reservation { request_hash, owner, until } = reservation;
    let (namespace, hash) = (key.namespace.as_str(), request_hash.cast_signed());
    let row = params![namespace, key.key, hash, owner.as_bytes(), until.0, now.0];
    conn.prepare_cached(sql!(reply, reserve))?.execute(row)?;
    let existing = conn
        .prepare_cached(sql!(reply, read))?
        .query_row(params![namespace, key.key], |row| rows::reply(row))?;
    Ok(match existing.status {
        0 if existing.body == owner.as_bytes() => Reserved::Ours,
        0 => Reserved::Theirs,
        _ => Reserved::Answered(existing),
    })
}

pub(crate) fn release(conn: &Connection, key: &ReplyKey, owner: &str) -> rusqlite::Result<()> {
    let row = params![key.namespace.as_str(), key.key, owner.as_bytes()];
    conn.prepare_cached(sql!(reply, release))?.execute(row).map(drop)
}
