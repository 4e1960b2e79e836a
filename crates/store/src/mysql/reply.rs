//! Answers kept under idempotency keys. They have nothing to do with tasks and are never counted as such.

use super::{row, statements as sql};
use punctual_contract::store::{Reply, ReplyKey};
use punctual_domain::time::Millis;
use sqlx::{MySqlConnection, Row as _};

pub(crate) async fn save(conn: &mut MySqlConnection, key: &ReplyKey, reply: &Reply) -> sqlx::Result<()> {
    let keep = sqlx::query(sql::REPLY_SAVE)
        .bind(key.namespace.as_str())
        .bind(key.key.as_bytes())
        .bind(reply.request_hash.cast_signed())
        .bind(i32::from(reply.status))
        .bind(reply.body.as_slice())
        .bind(reply.keep_until.0);
    keep.execute(conn).await.map(drop)
}

pub(crate) async fn load(
    conn: &mut MySqlConnection,
    key: &ReplyKey,
    now: Millis,
) -> sqlx::Result<Option<Reply>> {
    let look = sqlx::query(sql::REPLY_LOAD).bind(key.namespace.as_str()).bind(key.key.as_bytes()).bind(now.0);
    let Some(found) = look.fetch_optional(conn).await? else { return Ok(None) };
    Ok(Some(Reply {
        request_hash: found.try_get::<i64, _>(0)?.cast_unsigned(),
        status: row::small(&found, 1)?,
        body: found.try_get(2)?,
        keep_until: row::millis(&found, 3)?,
    }))
}
