//! Checks that the databases keep what they have acknowledged through a crash of their machines, and accept writes at
//! all. Only reads: the program that starts decides what follows.

use super::{
    session::DatabaseAddress,
    state::MysqlStore,
    statements::sql,
    timeouts::{CONNECT, silent},
};
use crate::Error;
use sqlx::{Connection as _, Row as _};
use std::fmt;
use tokio::time::timeout;

/// A setting of a server that breaks "acknowledged means committed and synced".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weakness {
    /// The database, without its password.
    pub at: String,
    pub setting: &'static str,
    pub value: i64,
    pub wanted: i64,
    pub consequence: &'static str,
}

impl Weakness {
    #[must_use]
    pub fn finding(&self) -> String {
        format!("{} is {}, so that {}", self.setting, self.value, self.consequence)
    }

    #[must_use]
    pub fn way_out(&self) -> String {
        let Self { setting, wanted, .. } = self;
        format!("SET GLOBAL {setting} = {wanted}, and in the server's configuration")
    }
}

impl fmt::Display for Weakness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, wanted, .. } = self;
        write!(f, "{at}: {}; it should be {wanted}: {}", self.finding(), self.way_out())
    }
}

impl MysqlStore {
    /// The weaknesses of the servers of these databases, in their order; empty if there are none.
    ///
    /// # Errors
    /// When a database cannot be asked.
    pub async fn weaknesses(urls: &[String]) -> Result<Vec<Weakness>, Error> {
        let mut found = Vec::new();
        for url in urls {
            let address = DatabaseAddress::new(url)?;
            let asked = ask(&address).await.map_err(|error| address.failed(error))?;
            found.extend(weak(&address.to_string(), asked));
        }
        Ok(found)
    }
}

/// Flushes of the log, whether there is a binary log, its flushes, whether only reading is allowed.
type Answer = (i64, i64, i64, i64);

async fn ask(address: &DatabaseAddress) -> sqlx::Result<Answer> {
    let asked = async {
        let mut conn = address.connect().await?;
        let row = sqlx::query(sql!(session, read_durability)).fetch_one(&mut conn).await?;
        drop(conn.close().await);
        Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?))
    };
    // Nothing is lost with a question.
    timeout(2 * CONNECT, asked).await.unwrap_or_else(|_| Err(silent()))
}

fn weak(at: &str, (flush, has_binlog, sync_binlog, read_only): Answer) -> Vec<Weakness> {
    let weakness = |setting, value, wanted, consequence| {
        let at = at.to_owned();
        (value != wanted).then_some(Weakness { at, setting, value, wanted, consequence })
    };
    let loses = "a crash of its machine loses tasks of the last second that were acknowledged";
    let diverges = "a crash of its machine leaves replicas without tasks that were acknowledged";
    let refuses = "it stores nothing";
    let sync_binlog = if has_binlog == 0 { 1 } else { sync_binlog };
    [
        weakness("innodb_flush_log_at_trx_commit", flush, 1, loses),
        weakness("sync_binlog", sync_binlog, 1, diverges),
        weakness("read_only", read_only, 0, refuses),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_that_syncs_what_it_says_and_can_be_written_is_strong() {
        let names = |answer| weak("db", answer).iter().map(|weakness| weakness.setting).collect::<Vec<_>>();
        assert!(names((1, 0, 0, 0)).is_empty(), "no binary log");
        assert!(names((1, 1, 1, 0)).is_empty());
        assert_eq!(names((2, 1, 0, 1)), ["innodb_flush_log_at_trx_commit", "sync_binlog", "read_only"]);
        assert_eq!(names((0, 0, 0, 0)), ["innodb_flush_log_at_trx_commit"]);
        assert_eq!(names((1, 1, 1_000, 0)), ["sync_binlog"]);
    }
}
