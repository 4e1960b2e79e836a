//! Answers kept under idempotency keys. They have nothing to do with tasks and are never counted as such.

use super::{row, statements as sql};
use punctual_contract::store::{Reply, ReplyKey};
use punctual_domain::time::Millis;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

pub(crate) fn save(conn: &Connection, key: &ReplyKey, reply: &Reply) -> rusqlite::Result<()> {
    let Reply { request_hash, status, body, keep_until } = reply;
    let hash = request_hash.cast_signed();
    let row = params![key.namespace.as_str(), key.key, hash, status, body, keep_until.0];
    conn.prepare_cached(sql::REPLY_SAVE)?.execute(row).map(drop)
}

pub(crate) fn load(conn: &Connection, key: &ReplyKey, now: Millis) -> rusqlite::Result<Option<Reply>> {
    let reply = |it: &Row<'_>| {
        Ok(Reply {
            request_hash: it.get::<_, i64>(0)?.cast_unsigned(),
            status: it.get(1)?,
            body: it.get(2)?,
            keep_until: row::millis(it, 3)?,
        })
    };
    let key = params![key.namespace.as_str(), key.key, now.0];
    conn.prepare_cached(sql::REPLY_LOAD)?.query_row(key, reply).optional()
}
