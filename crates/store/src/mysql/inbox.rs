//! The inbox in a user's own database (`contract::inbox`): one table, one connection a relay, and the lock by which one
//! relay at a time moves rows. The lock belongs to the connection that reads and deletes, so a relay that has lost it can
//! change nothing any more. Must never touch another table, and never hold a transaction open: the user's transactions
//! wait for nothing of this.

use super::{
    session::{DatabaseAddress, Known},
    statements::sql,
    timeouts::silent,
};
use crate::{Error, subject::filled};
use async_trait::async_trait;
use parking_lot::Mutex;
use punctual_contract::{
    Error as CallError, InboxTable,
    inbox::{InboxCounts, InboxRow, RefusedRow, RowHead},
};
use sqlx::{AssertSqlSafe, MySqlConnection, Row as _, mysql::MySqlRow};
use std::{
    fmt::{self, Write as _},
    str::FromStr,
    time::Duration,
};
use tokio::time::timeout;

/// Longer than a statement waits for a row that a user's transaction has locked.
const CALL: Duration = Duration::from_secs(10);
/// The time limit to create or drop a table, behind the transactions that use it.
const CHANGE: Duration = Duration::from_secs(60);
/// The beginning of the table's comment; its own name follows.
const FORMAT: &str = "punctual inbox 1 ";
/// The maximum number of letters of a stored reason.
const WHY_MAX: usize = 1_024;

/// The name of an inbox's table: safe in every statement, and short enough for the names of its rules.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InboxTableName(String);

/// One user's table.
#[derive(Debug)]
pub struct MysqlInbox {
    address: DatabaseAddress,
    table: InboxTableName,
    /// The connection. Each call removes it, and returns it after it came to its end.
    connection: Mutex<Option<HeldConnection>>,
}

#[derive(Debug)]
struct HeldConnection {
    known: Known,
    /// The name in the table's comment, which no other table has.
    unique: String,
    is_holder: bool,
}

/// The output of `punctual inbox status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InboxStatus {
    pub counts: InboxCounts,
    /// The last ones.
    pub refused: Vec<ShownRefusal>,
}

/// A row that was refused, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownRefusal {
    pub id: i64,
    pub queue: String,
    pub key: Option<String>,
    pub refused_at_ms: i64,
    pub why: String,
}

impl InboxTableName {
    /// Of a table that was given no name.
    pub const DEFAULT: &str = "punctual_inbox";
    /// With `_handler_versions` behind it, it is a name that MySQL takes.
    const CHARS_MAX: usize = 47;

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for InboxTableName {
    fn default() -> Self {
        Self(Self::DEFAULT.to_owned())
    }
}

impl fmt::Display for InboxTableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for InboxTableName {
    type Err = String;

    /// Small letters alone: servers differ in whether they tell small letters from capital ones.
    fn from_str(text: &str) -> Result<Self, String> {
        let is_good = text.len() <= Self::CHARS_MAX
            && text.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        let most = Self::CHARS_MAX;
        is_good.then(|| Self(text.to_owned())).ok_or_else(|| {
            format!("{text:?} is no name of a table: 1 to {most} characters of a-z 0-9 _, and no digit first")
        })
    }
}

impl MysqlInbox {
    /// Connects when it is first used.
    ///
    /// # Errors
    /// When the address cannot be used.
    pub fn new(url: &str, table: InboxTableName) -> Result<Self, Error> {
        Ok(Self { address: DatabaseAddress::new(url)?, table, connection: Mutex::default() })
    }

    /// `host:port/database/table`, without a password.
    #[must_use]
    pub fn shown(&self) -> String {
        format!("{}/{}", self.address, self.table)
    }

    /// A statement, with the name of the table in it.
    fn sql(&self, statement: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(statement.replace("{table}", self.table.as_str()))
    }

    /// A statement about rows, by their numbers.
    fn sql_of(&self, statement: &str, ids: &str) -> AssertSqlSafe<String> {
        self.sql(&filled(statement, "{ids}", ids))
    }

    /// Creates the table and the view. False if they existed.
    ///
    /// # Errors
    /// A failing database, or a table of another program under this name.
    pub async fn install(&self) -> Result<bool, Error> {
        let mut known = self.address.known().await.map_err(|source| self.address.failed(source))?;
        let conn = &mut known.conn;
        let before = bounded(CALL, self.comment(conn)).await.map_err(|source| self.address.failed(source))?;
        if let Some(found) = before.as_ref().filter(|found| !found.starts_with(FORMAT)) {
            return Err(Error::OtherInbox { at: self.shown(), found: found.clone() });
        }
        let creating = async {
            let unique: String =
                sqlx::raw_sql(sql!(inbox, make_name)).fetch_one(&mut *conn).await?.try_get(0)?;
            let create = filled(sql!(inbox, create_table), "{unique}", &unique);
            sqlx::raw_sql(self.sql(&create)).execute(&mut *conn).await?;
            sqlx::raw_sql(self.sql(sql!(inbox, create_limits))).execute(conn).await
        };
        bounded(CHANGE, creating).await.map_err(|source| self.address.failed(source))?;
        known.close().await;
        Ok(before.is_none())
    }

    /// Drops both. False if there was no table.
    ///
    /// # Errors
    /// A failing database; or rows are in it, unless `even_with_rows`.
    pub async fn uninstall(&self, even_with_rows: bool) -> Result<bool, Error> {
        let mut known = self.address.known().await.map_err(|source| self.address.failed(source))?;
        let conn = &mut known.conn;
        match bounded(CALL, self.comment(conn)).await.map_err(|source| self.address.failed(source))? {
            None => return Ok(false),
            Some(found) if !found.starts_with(FORMAT) => {
                return Err(Error::OtherInbox { at: self.shown(), found });
            }
            Some(_) => {}
        }
        let counts =
            bounded(CALL, self.counts_on(conn)).await.map_err(|source| self.address.failed(source))?;
        let rows = counts.waiting + counts.refused;
        if rows > 0 && !even_with_rows {
            return Err(Error::InboxNotEmpty { at: self.shown(), rows });
        }
        let dropping = sqlx::raw_sql(self.sql(sql!(inbox, drop))).execute(&mut *conn);
        bounded(CHANGE, dropping).await.map_err(|source| self.address.failed(source))?;
        known.close().await;
        Ok(true)
    }

    /// The numbers of rows, and at most `limit` of the refused rows.
    ///
    /// # Errors
    /// A failing database, or no table.
    pub async fn status(&self, limit: u32) -> Result<InboxStatus, Error> {
        let mut known = self.connected().await?.known;
        let reading = async {
            let counts = self.counts_on(&mut known.conn).await?;
            let listed = sqlx::query(self.sql(sql!(inbox, list_refused))).bind(i64::from(limit));
            let rows = listed.fetch_all(&mut known.conn).await?;
            let refused = rows.iter().map(shown_refusal).collect::<sqlx::Result<_>>()?;
            Ok(InboxStatus { counts, refused })
        };
        let read = bounded(CALL, reading).await.map_err(|source| self.address.failed(source))?;
        known.close().await;
        Ok(read)
    }

    async fn connected(&self) -> Result<HeldConnection, Error> {
        let connecting = async {
            let mut known = self.address.known().await?;
            sqlx::raw_sql(sql!(inbox, set_idle_timeout)).execute(&mut known.conn).await?;
            let comment = self.comment(&mut known.conn).await?;
            Ok((known, comment))
        };
        let (known, comment) =
            bounded(CALL, connecting).await.map_err(|source| self.address.failed(source))?;
        let comment = comment.ok_or_else(|| Error::NoInbox { at: self.shown() })?;
        match comment.strip_prefix(FORMAT) {
            Some(unique) => Ok(HeldConnection { known, unique: unique.to_owned(), is_holder: false }),
            None => Err(Error::OtherInbox { at: self.shown(), found: comment }),
        }
    }

    async fn comment(&self, conn: &mut MySqlConnection) -> sqlx::Result<Option<String>> {
        let row = sqlx::raw_sql(self.sql(sql!(inbox, read_comment))).fetch_optional(conn).await?;
        row.map(|row| row.try_get(0)).transpose()
    }

    async fn counts_on(&self, conn: &mut MySqlConnection) -> sqlx::Result<InboxCounts> {
        let most = i64::try_from(InboxCounts::MOST).unwrap_or(i64::MAX);
        let count = sqlx::query(self.sql(sql!(inbox, count))).bind(most).bind(most);
        let row = count.fetch_one(conn).await?;
        let number = |nth| row.try_get::<i64, _>(nth).map(|count| u64::try_from(count).unwrap_or(0));
        Ok(InboxCounts { waiting: number(0)?, oldest_ms: row.try_get(1)?, refused: number(2)? })
    }

    /// Runs one call on the connection. A failed or dropped call closes the connection, which releases the lock.
    async fn call<T>(
        &self,
        doing: &'static str,
        work: impl AsyncFnOnce(&mut HeldConnection) -> sqlx::Result<T>,
    ) -> Result<T, CallError> {
        let idle = self.connection.lock().take();
        let mut held = match idle {
            Some(held) => held,
            None => self.connected().await.map_err(|error| CallError::did_not_happen(doing, error))?,
        };
        match bounded(CALL, work(&mut held)).await {
            Ok(done) => {
                *self.connection.lock() = Some(held);
                Ok(done)
            }
            Err(source) => Err(CallError::may_have_happened(doing, self.address.failed(source))),
        }
    }

    /// Runs a call that only the holder may make.
    async fn as_holder<T>(
        &self,
        doing: &'static str,
        work: impl AsyncFnOnce(&mut HeldConnection) -> sqlx::Result<T>,
    ) -> Result<T, CallError> {
        if self.connection.lock().as_ref().is_none_or(|held| !held.is_holder) {
            return Err(CallError::did_not_happen(
                doing,
                "the lock of the inbox was lost; it is taken again",
            ));
        }
        self.call(doing, work).await
    }
}

#[async_trait]
impl InboxTable for MysqlInbox {
    fn at(&self) -> String {
        let is_default = self.table.as_str() == InboxTableName::DEFAULT;
        if is_default { self.address.to_string() } else { self.shown() }
    }

    async fn hold(&self) -> Result<bool, CallError> {
        self.call("hold an inbox", async |held| {
            // Asked twice, the server counts two locks.
            if !held.is_holder {
                let answer = sqlx::query_scalar::<_, Option<i64>>(self.sql(sql!(inbox, hold)));
                held.is_holder = answer.fetch_one(&mut held.known.conn).await? == Some(1);
            }
            Ok(held.is_holder)
        })
        .await
    }

    async fn heads(&self, above: i64, limit: usize) -> Result<Vec<RowHead>, CallError> {
        self.as_holder("read an inbox", async |held| {
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let list = sqlx::query(self.sql(sql!(inbox, list_heads))).bind(above).bind(limit);
            let rows = list.fetch_all(&mut held.known.conn).await?;
            rows.iter().map(|row| head(row, row.try_get::<i64, _>(4)?)).collect()
        })
        .await
    }

    async fn offer(&self, ids: &[i64]) -> Result<Vec<InboxRow>, CallError> {
        let Some(ids) = listed(ids) else { return Ok(Vec::new()) };
        self.as_holder("offer rows of an inbox", async |held| {
            // First read, so that the notes of earlier tries are seen.
            let read = sqlx::raw_sql(self.sql_of(sql!(inbox, read_rows), &ids));
            let rows = read.fetch_all(&mut held.known.conn).await?;
            let rows =
                rows.iter().map(|row| inbox_row(row, &held.unique)).collect::<sqlx::Result<Vec<_>>>()?;
            change(&mut held.known.conn, self.sql_of(sql!(inbox, mark_offered), &ids)).await?;
            Ok(rows)
        })
        .await
    }

    async fn withdraw_offer(&self, ids: &[i64]) -> Result<(), CallError> {
        let Some(ids) = listed(ids) else { return Ok(()) };
        self.as_holder("withdraw rows of an inbox", async |held| {
            change(&mut held.known.conn, self.sql_of(sql!(inbox, withdraw_offer), &ids)).await
        })
        .await
    }

    async fn remove(&self, ids: &[i64]) -> Result<(), CallError> {
        let Some(ids) = listed(ids) else { return Ok(()) };
        self.as_holder("remove rows of an inbox", async |held| {
            change(&mut held.known.conn, self.sql_of(sql!(inbox, remove), &ids)).await
        })
        .await
    }

    async fn refuse(&self, refused: &[RefusedRow]) -> Result<(), CallError> {
        self.as_holder("refuse rows of an inbox", async |held| {
            for row in refused {
                let why: String = row.why.chars().take(WHY_MAX).collect();
                let refuse = sqlx::query(self.sql(sql!(inbox, refuse)))
                    .bind(why)
                    .bind(i64::from(row.maybe_inserted))
                    .bind(row.id);
                refuse.execute(&mut held.known.conn).await?;
            }
            Ok(())
        })
        .await
    }

    async fn counts(&self) -> Result<InboxCounts, CallError> {
        self.call("count the rows of an inbox", async |held| self.counts_on(&mut held.known.conn).await).await
    }

    async fn let_go(&self) {
        let held = self.connection.lock().take();
        if let Some(held) = held {
            held.known.close().await;
        }
    }
}

/// A server that falls silent in the middle of `work` is an error after `limit`.
async fn bounded<T>(limit: Duration, work: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    timeout(limit, work).await.unwrap_or_else(|_| Err(silent()))
}

/// Row numbers for a list in a statement. `None` if the list is empty.
fn listed(ids: &[i64]) -> Option<String> {
    let mut text = String::with_capacity(ids.len() * 12);
    for id in ids {
        let _ = write!(text, "{}{id}", if text.is_empty() { "" } else { "," });
    }
    Some(text).filter(|text| !text.is_empty())
}

async fn change(conn: &mut MySqlConnection, statement: AssertSqlSafe<String>) -> sqlx::Result<()> {
    sqlx::raw_sql(statement).execute(conn).await.map(drop)
}

fn head(row: &MySqlRow, bytes: i64) -> sqlx::Result<RowHead> {
    Ok(RowHead {
        id: row.try_get(0)?,
        namespace: row.try_get(1)?,
        queue: row.try_get(2)?,
        key: row.try_get(3)?,
        bytes: u64::try_from(bytes).unwrap_or(0),
    })
}

fn inbox_row(row: &MySqlRow, unique: &str) -> sqlx::Result<InboxRow> {
    Ok(InboxRow {
        head: head(row, 0)?,
        table: unique.to_owned(),
        created_at_ms: row.try_get(4)?,
        age_ms: row.try_get(5)?,
        offered_before_ms: row.try_get(6)?,
        version: row.try_get(7)?,
        kind: row.try_get(8)?,
        name: row.try_get(9)?,
        execute_at_ms: row.try_get(10)?,
        delay_ms: row.try_get(11)?,
        priority: row.try_get(12)?,
        payload: row.try_get(13)?,
        payload_bytes: row.try_get(14)?,
        labels: row.try_get(15)?,
        max_attempts: row.try_get(16)?,
        retry: row.try_get(17)?,
        timeout_ms: row.try_get(18)?,
        deadline_ms: row.try_get(19)?,
        concurrency_key: row.try_get(20)?,
        handler_versions: row.try_get(21)?,
        traceparent: row.try_get(22)?,
        options: row.try_get(23)?,
    })
}

fn shown_refusal(row: &MySqlRow) -> sqlx::Result<ShownRefusal> {
    Ok(ShownRefusal {
        id: row.try_get(0)?,
        queue: row.try_get(1)?,
        key: row.try_get(2)?,
        refused_at_ms: row.try_get(3)?,
        why: row.try_get::<Option<String>, _>(4)?.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_table_is_safe_in_every_statement() {
        for good in ["punctual_inbox", "jobs", "_2", "order", &"a".repeat(47)] {
            assert_eq!(good.parse::<InboxTableName>().unwrap().as_str(), good);
        }
        for wrong in ["", "2a", "a b", "a`b", "a-b", "Jobs", "a.b", "ü", &"a".repeat(48)] {
            assert!(wrong.parse::<InboxTableName>().unwrap_err().contains("no name of a table"), "{wrong}");
        }
    }
}
