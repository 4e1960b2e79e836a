//! Answers that are stored under idempotency keys. They are independent of tasks and are never counted as such.

use super::{
    job::{JobKind, Keeping},
    line::WriterKind,
    state::MysqlStore,
    statements::sql,
};
use crate::rows;
use punctual_contract::{
    Error as CallError,
    store::{Reply, ReplyKey, Reservation, Reserved},
};
use punctual_domain::{
    name::Name,
    place::{Partition, partition_of},
    time::Millis,
};
use sqlx::MySqlConnection;

impl MysqlStore {
    pub(super) async fn keep(
        &self,
        doing: &'static str,
        key: &ReplyKey,
        keeping: impl Fn() -> Keeping,
    ) -> Result<Reserved, CallError> {
        let partition = partition_of_reply(key, self.inner.cluster.partitions);
        let kept = || Box::new((partition, key.clone(), keeping()));
        self.one((doing, WriterKind::Moves), partition, |caller| JobKind::Keep(kept(), caller)).await
    }
}

/// The partition of a reply: all replies of a namespace are together.
pub(super) fn partition_of_reply(key: &ReplyKey, partitions: u16) -> Partition {
    partition_of_replies(&key.namespace, partitions)
}

pub(super) fn partition_of_replies(namespace: &Name, partitions: u16) -> Partition {
    partition_of(namespace, 0, partitions)
}

pub(crate) async fn keep(
    conn: &mut MySqlConnection,
    key: &ReplyKey,
    keeping: &Keeping,
) -> sqlx::Result<Reserved> {
    match keeping {
        Keeping::Reserve(reservation, now) => return reserve(conn, key, reservation, *now).await,
        Keeping::Release(owner) => release(conn, key, owner).await?,
        Keeping::Save(reply) => save(conn, key, reply).await?,
    }
    Ok(Reserved::Ours)
}

async fn save(conn: &mut MySqlConnection, key: &ReplyKey, reply: &Reply) -> sqlx::Result<()> {
    let keep = sqlx::query(sql!(reply, save))
        .bind(key.namespace.as_str())
        .bind(key.key.as_bytes())
        .bind(reply.request_hash.cast_signed())
        .bind(i32::from(reply.status))
        .bind(reply.body.as_slice())
        .bind(reply.keep_until.0);
    keep.execute(conn).await.map(drop)
}

async fn reserve(
    conn: &mut MySqlConnection,
    key: &ReplyKey,
    reservation: &Reservation,
    now: Millis,
) -> sqlx::Result<Reserved> {
    let Reservation { request_hash, owner, until } = reservation;
    let reserve = sqlx::query(sql!(reply, reserve))
        .bind(key.namespace.as_str())
        .bind(key.key.as_bytes())
        .bind(request_hash.cast_signed())
        .bind(owner.as_bytes())
        .bind(until.0);
    if reserve.execute(&mut *conn).await?.rows_affected() == 1 {
        return Ok(Reserved::Ours);
    }
    let reserve = sqlx::query(sql!(reply, reserve_expired))
        .bind(request_hash.cast_signed())
        .bind(owner.as_bytes())
        .bind(until.0)
        .bind(key.namespace.as_str())
        .bind(key.key.as_bytes());
    reserve.bind(now.0).bind(owner.as_bytes()).execute(&mut *conn).await?;
    let look = sqlx::query(sql!(reply, read)).bind(key.namespace.as_str()).bind(key.key.as_bytes());
    let existing = rows::reply(&look.fetch_one(conn).await?)?;
    Ok(match existing.status {
        0 if existing.body == owner.as_bytes() => Reserved::Ours,
        0 => Reserved::Theirs,
        _ => Reserved::Answered(existing),
    })
}

async fn release(conn: &mut MySqlConnection, key: &ReplyKey, owner: &str) -> sqlx::Result<()> {
    let release = sqlx::query(sql!(reply, release)).bind(key.namespace.as_str()).bind(key.key.as_bytes());
    release.bind(owner.as_bytes()).execute(conn).await.map(drop)
}

pub(crate) async fn load(
    conn: &mut MySqlConnection,
    key: &ReplyKey,
    now: Millis,
) -> sqlx::Result<Option<Reply>> {
    let look =
        sqlx::query(sql!(reply, load)).bind(key.namespace.as_str()).bind(key.key.as_bytes()).bind(now.0);
    look.fetch_optional(conn).await?.map(|row| rows::reply(&row)).transpose()
}
