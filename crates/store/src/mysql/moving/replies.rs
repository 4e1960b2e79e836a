//! Answers under idempotency keys belong to a partition by their namespace, and move with it. A superfluous one at
//! the new place does no harm: it is over, and retention deletes it.

use super::{copy::Pair, side::Side};
use crate::{
    Error,
    mysql::{hosted::HostedState, reply::partition_of_replies, statements::sql},
};
use punctual_domain::{name::Name, place::Partition};
use sqlx::{MySqlConnection, Row as _};
use std::collections::BTreeMap;

const PAGE: i64 = 500;
/// Longer than any key, and after all of them.
const LAST_KEY: [u8; 1_025] = [u8::MAX; 1_025];

/// The namespaces, of those in this database, whose replies are in this partition.
async fn namespaces(
    conn: &mut MySqlConnection,
    partition: Partition,
    partitions: u16,
) -> sqlx::Result<Vec<String>> {
    let all: Vec<String> = sqlx::query_scalar(sql!(moving, list_reply_namespaces)).fetch_all(conn).await?;
    let is_of = |text: &String| {
        Name::new(text.as_str()).is_ok_and(|name| partition_of_replies(&name, partitions) == partition)
    };
    Ok(all.into_iter().filter(is_of).collect())
}

pub(super) async fn copy(pair: &mut Pair, partitions: u16) -> Result<(), Error> {
    for namespace in namespaces(&mut pair.from.conn, pair.from.partition, partitions).await? {
        let mut after = Vec::new();
        loop {
            let original = page(&mut pair.from.conn, &namespace, (&after, &LAST_KEY)).await?;
            let Some((upto, _)) = original.last_key_value() else { break };
            let copy = page(&mut pair.to.conn, &namespace, (&after, upto)).await?;
            for (key, _) in original.iter().filter(|pair| copy.get(pair.0) != Some(pair.1)) {
                one(pair, &namespace, key).await?;
            }
            let is_last = i64::try_from(original.len()).is_ok_and(|length| length < PAGE);
            after.clone_from(upto);
            if is_last {
                break;
            }
        }
    }
    Ok(())
}

async fn page(
    conn: &mut MySqlConnection,
    namespace: &str,
    (after, upto): (&[u8], &[u8]),
) -> sqlx::Result<BTreeMap<Vec<u8>, String>> {
    let page = sqlx::query(sql!(moving, list_reply_sums)).bind(namespace).bind(after).bind(upto).bind(PAGE);
    page.fetch_all(conn).await?.iter().map(|rows| Ok((rows.try_get(0)?, rows.try_get(1)?))).collect()
}

async fn one(pair: &mut Pair, namespace: &str, key: &[u8]) -> Result<(), Error> {
    let read = sqlx::query(sql!(reply, read)).bind(namespace).bind(key);
    let Some(row) = read.fetch_optional(&mut pair.from.conn).await? else { return Ok(()) };
    let mut tx = pair.to.begin(HostedState::Arriving, pair.term).await?;
    let save = sqlx::query(sql!(reply, save)).bind(namespace).bind(key);
    let save = save.bind(row.try_get::<i64, _>(0)?).bind(row.try_get::<i64, _>(1)?);
    save.bind(row.try_get::<&[u8], _>(2)?).bind(row.try_get::<i64, _>(3)?).execute(&mut *tx).await?;
    Ok(tx.commit().await?)
}

/// Deletes those of the partition, in small transactions.
pub(super) async fn empty(
    side: &mut Side,
    (state, term): (HostedState, i64),
    partitions: u16,
) -> Result<(), Error> {
    for namespace in namespaces(&mut side.conn, side.partition, partitions).await? {
        loop {
            let mut tx = side.begin(state, term).await?;
            let delete = sqlx::query(sql!(moving, delete_remaining_replies)).bind(&namespace).bind(PAGE);
            let rows = delete.execute(&mut *tx).await?.rows_affected();
            tx.commit().await?;
            if i64::try_from(rows).is_ok_and(|rows| rows < PAGE) {
                break;
            }
        }
    }
    Ok(())
}
