//! The difference between the account of a database and its rows, and its correction. Must not count rows itself.

use crate::{
    Error,
    mysql::{ledger::ADD_TO_BOOKS, statements::bind},
};
use punctual_contract::store::Books;
use punctual_domain::{name::QueueKey, state::State as TaskState};
use sqlx::{MySqlConnection, mysql::MySqlArguments};
use std::collections::BTreeMap;

/// Adds bytes of payloads that wait to the account.
pub(crate) async fn add_bytes(
    conn: &mut MySqlConnection,
    bytes: BTreeMap<QueueKey, i64>,
) -> Result<(), Error> {
    let code = i32::from(TaskState::Scheduled.code());
    let difference = |(queue, bytes)| Difference { queue, code, tasks: 0, bytes };
    add(conn, &bytes.into_iter().map(difference).collect::<Vec<_>>()).await
}

pub(super) async fn add(conn: &mut MySqlConnection, differences: &[Difference]) -> Result<(), Error> {
    for (part, text) in ADD_TO_BOOKS.parts(differences) {
        let mut values = MySqlArguments::default();
        for difference in part {
            let (namespace, queue) = (difference.queue.namespace.as_str(), difference.queue.queue.as_str());
            bind!(values, SLOT, namespace, queue, difference.code, difference.tasks, difference.bytes);
        }
        sqlx::query_with(text, values).execute(&mut *conn).await?;
    }
    Ok(())
}

/// The slot of the account, as that of movers.
const SLOT: i32 = -2;

/// The number of rows that the account lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    queue: QueueKey,
    code: i32,
    pub(super) tasks: i64,
    /// The number of payload bytes that wait. They belong to the queue, whatever the state.
    pub(super) bytes: i64,
}

pub(super) fn differences(books: &Books, counted: &Books) -> Vec<Difference> {
    let mut sums = BTreeMap::<(QueueKey, i32), (i64, i64)>::new();
    let waiting = i32::from(TaskState::Scheduled.code());
    for (all, sign) in [(books, -1), (counted, 1)] {
        for tally in &all.tallies {
            sums.entry((tally.queue.clone(), tally.state.code().into())).or_default().0 += sign * tally.tasks;
        }
        for pending_bytes in &all.pending_bytes {
            sums.entry((pending_bytes.queue.clone(), waiting)).or_default().1 += sign * pending_bytes.bytes;
        }
    }
    let differs = sums.into_iter().filter(|differ| differ.1 != (0, 0));
    differs.map(|((queue, code), (tasks, bytes))| Difference { queue, code, tasks, bytes }).collect()
}
