//! One statement of few values and lists, tried again when it lost a deadlock. Its holes are repeated as often as its lists are
//! long. Must not open a transaction.

use crate::{
    mysql::{
        background::to_its_end,
        connections::{Connections, Lent},
        timeouts::{OWNERSHIP, within},
    },
    subject::repeated,
};
use punctual_contract::{Error, Happened};
use sqlx::{
    AssertSqlSafe, MySql,
    mysql::{MySqlArguments, MySqlDatabaseError, MySqlRow},
    query::Query,
};
use std::{future::Future, sync::Arc};

/// Lengths of lists. Few, so that few texts are prepared; a list is filled up by repeating its last.
const LENGTHS: [usize; 4] = [1, 10, 100, LONGEST];
pub(super) const LONGEST: usize = 500;
/// The engine that loses a deadlock did nothing.
const TRIES: u32 = 5;
const DEADLOCK: u16 = 1213;
const LOCK_TIMEOUT: u16 = 1205;

#[derive(Debug)]
pub(crate) struct Statement {
    text: &'static str,
    length: usize,
    values: Vec<Value>,
}

#[derive(Debug)]
enum Value {
    Text(String),
    Int(i64),
    Bytes(Vec<u8>),
}

impl Statement {
    pub(crate) const fn new(text: &'static str) -> Self {
        Self { text, length: 1, values: Vec::new() }
    }

    pub(crate) fn text(mut self, value: &str) -> Self {
        self.values.push(Value::Text(value.to_owned()));
        self
    }

    pub(crate) fn int(mut self, value: i64) -> Self {
        self.values.push(Value::Int(value));
        self
    }

    pub(super) fn bytes(mut self, value: Vec<u8>) -> Self {
        self.values.push(Value::Bytes(value));
        self
    }

    /// Neither empty nor longer than the longest length. All lists of a statement are equally long.
    pub(super) fn list(mut self, values: &[i64]) -> Self {
        self.length = LENGTHS.into_iter().find(|length| *length >= values.len()).unwrap_or(values.len());
        let last = values.last().into_iter().cycle();
        self.values.extend(values.iter().chain(last).take(self.length).map(|value| Value::Int(*value)));
        self
    }

    /// Executes the statement. Returns the number of rows that it found, changed or not. It is sent twice if the
    /// first connection has fallen silent: every statement here is idempotent, whatever is stored now.
    pub(crate) async fn execute(&self, on: &Connections) -> Result<u64, sqlx::Error> {
        let mut tries = 1;
        loop {
            let done = match within(OWNERSHIP, self.executed(on, true)).await {
                Err(error) if is_of_connection(&error) => within(OWNERSHIP, self.executed(on, false)).await,
                done => done,
            };
            match done {
                Err(error) if tries < TRIES && is_lock(&error) => tries += 1,
                done => return done,
            }
        }
    }

    pub(crate) async fn fetch(&self, on: &Connections) -> Result<Vec<MySqlRow>, sqlx::Error> {
        match within(OWNERSHIP, self.fetched(on, true)).await {
            Err(error) if is_of_connection(&error) => within(OWNERSHIP, self.fetched(on, false)).await,
            done => done,
        }
    }

    async fn executed(&self, on: &Connections, is_unasked: bool) -> sqlx::Result<u64> {
        let mut conn = lent(on, is_unasked).await?;
        let done = self.query().execute(&mut *conn).await;
        if done.as_ref().is_err_and(is_of_connection) {
            conn.close_on_drop();
        }
        done.map(|done| done.rows_affected())
    }

    async fn fetched(&self, on: &Connections, is_unasked: bool) -> sqlx::Result<Vec<MySqlRow>> {
        let mut conn = lent(on, is_unasked).await?;
        let found = self.query().fetch_all(&mut *conn).await;
        if found.as_ref().is_err_and(is_of_connection) {
            conn.close_on_drop();
        }
        found
    }

    fn query(&self) -> Query<'_, MySql, MySqlArguments> {
        let query = sqlx::query(AssertSqlSafe(repeated(self.text, self.length)));
        self.values.iter().fold(query, |query, value| match value {
            Value::Text(text) => query.bind(text.as_str()),
            Value::Int(number) => query.bind(*number),
            Value::Bytes(bytes) => query.bind(bytes.as_slice()),
        })
    }
}

/// Most statements follow another one closely, on the same connection: that one is not pinged. Where it fails, it may be dead, and the
/// statement is sent once more on one that has answered a ping.
async fn lent(on: &Connections, is_unasked: bool) -> sqlx::Result<Lent> {
    if is_unasked { on.acquire_unasked().await } else { on.acquire().await }
}

/// The connection broke, or the server said something on it that another one may not hear.
fn is_of_connection(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Io(_) | sqlx::Error::Database(_)) && !is_lock(error)
}

pub(crate) fn is_lock(error: &sqlx::Error) -> bool {
    matches!(number(error), Some(DEADLOCK | LOCK_TIMEOUT))
}

/// The error number of the server.
pub(crate) fn number(error: &sqlx::Error) -> Option<u16> {
    Some(error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>()?.number())
}

/// Runs work in a task of its own, to its end, whatever becomes of the caller: a statement that is cut off in the
/// middle would leave its connection in an unknown state. `happened`: of work that failed, part of which may be done.
pub(crate) async fn apart<T: Send + 'static>(
    doing: &'static str,
    happened: Happened,
    work: impl Future<Output = Result<T, sqlx::Error>> + Send + 'static,
) -> Result<T, Error> {
    match to_its_end(work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(Error { doing, happened, source: Arc::new(error) }),
        Err(panicked) => Err(Error { doing, happened, source: Arc::new(panicked) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_filled_up_to_a_fixed_length_by_its_last() {
        for (given, length) in [(1, 1), (2, 10), (10, 10), (11, 100), (499, 500)] {
            let values: Vec<i64> = (0..given).collect();
            let statement = Statement::new("").list(&values);
            let bound: Vec<i64> = statement
                .values
                .iter()
                .map(|value| if let Value::Int(number) = value { *number } else { -1 })
                .collect();
            assert_eq!((bound.len(), statement.length), (length, length));
            assert!(bound.iter().skip(values.len()).all(|number| Some(number) == values.last()));
        }
    }
}
