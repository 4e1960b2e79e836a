//! Opens connections to one database: their address and settings. Every statement stays prepared, because the driver
//! does not switch Nagle's delay off: a statement that is closed costs 40 ms.

use super::{
    connections::Connections,
    statements::sql,
    timeouts::{ASK, CONNECT, LOOKS_APART, PING, Unit, elsewhere, silent},
    tls,
};
use crate::{Error, subject::filled};
use futures_util::future::BoxFuture;
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, MySqlConnection, Row as _,
    mysql::{MySqlConnectOptions, MySqlSslMode},
};
use std::{
    fmt,
    str::FromStr as _,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};
use tokio::time::{sleep, timeout};

/// Texts that one connection keeps prepared; there are about a hundred.
const PREPARED_MAX: usize = 512;

/// A connection, and what the server calls it.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) conn: MySqlConnection,
    pub(crate) number: u64,
}

/// The server's report about a connection whose answer is awaited.
#[derive(Debug)]
pub(crate) enum Seen {
    AtWork,
    /// The server does nothing for the connection. The connection on which this was asked can end it.
    Silent(Box<MySqlConnection>),
    /// No server can be asked, and nothing was received meanwhile.
    Nothing,
}

/// The address of one database. Shown without its password.
#[derive(Clone)]
pub(crate) struct DatabaseAddress {
    options: MySqlConnectOptions,
    shown: String,
}

impl fmt::Display for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl DatabaseAddress {
    pub(crate) fn new(url: &str) -> Result<Self, Error> {
        let shown = without_secret(url);
        let options = MySqlConnectOptions::from_str(url)
            .map_err(|source| Error::Database { at: shown.clone(), source })?;
        let options = tls::with_tls(url, &shown, options)?
            .statement_cache_capacity(PREPARED_MAX)
            .charset("utf8mb4")
            .collation("utf8mb4_bin")
            .pipes_as_concat(false)
            .timezone(None)
            .disable_statement_logging();
        if options.get_database().is_none_or(str::is_empty) {
            return Err(Error::NoDatabaseName { at: shown });
        }
        Ok(Self { options, shown })
    }

    /// Returns if the connection verifies the server's certificate, and the name in it.
    pub(crate) fn verifies(&self) -> (bool, bool) {
        match self.options.get_ssl_mode() {
            MySqlSslMode::VerifyIdentity => (true, true),
            MySqlSslMode::VerifyCa => (true, false),
            _ => (false, false),
        }
    }

    pub(crate) async fn connect(&self) -> sqlx::Result<MySqlConnection> {
        Ok(self.known().await?.conn)
    }

    /// Boxed: with TLS in it, it is large, and everything that may connect would carry it.
    pub(crate) fn known(&self) -> BoxFuture<'_, sqlx::Result<Known>> {
        let connecting = async {
            let mut conn = self.options.connect().await?;
            let number = set(&mut conn).await?;
            Ok(Known { conn, number })
        };
        // Nothing is lost with a connection that never was.
        Box::pin(async { elsewhere(timeout(CONNECT, connecting)).await.unwrap_or_else(|_| Err(silent())) })
    }

    /// One of work that lasts, which is watched over until it is closed.
    pub(crate) async fn own(&self) -> sqlx::Result<Known> {
        let known = self.known().await?;
        if let Some(unit) = Unit::current() {
            unit.holds(known.number, self);
        }
        Ok(known)
    }

    /// One that opens transactions: an engine that freezes does not hold its rows for long.
    pub(crate) async fn writer(&self) -> sqlx::Result<Known> {
        let setting = async {
            let mut known = self.known().await?;
            sqlx::raw_sql(sql!(session, set_writer_timeout)).execute(&mut known.conn).await?;
            Ok(known)
        };
        timeout(CONNECT, setting).await.unwrap_or_else(|_| Err(silent()))
    }

    /// Connections for short work, made when they are needed.
    pub(crate) fn connections(&self, most: u32) -> Connections {
        Connections::new(self.clone(), most)
    }

    /// Asks the server if it works for a connection whose answer is awaited. `is_late` states that this does not
    /// matter any more. `heard` grows with everything that arrives on it.
    pub(crate) fn look_at<'a>(
        &'a self,
        number: u64,
        is_late: bool,
        heard: &'a AtomicU64,
    ) -> BoxFuture<'a, Seen> {
        Box::pin(self.look(number, is_late, heard))
    }

    async fn look(&self, number: u64, is_late: bool, heard: &AtomicU64) -> Seen {
        let before = heard.load(Relaxed);
        let asked = async {
            let mut conn = self.connect().await?;
            let mut is_at_work = !is_late && at_work(&mut conn, number).await?;
            if !is_at_work && !is_late {
                sleep(LOOKS_APART).await;
                is_at_work = heard.load(Relaxed) != before || at_work(&mut conn, number).await?;
            }
            if !is_at_work {
                return Ok(Seen::Silent(Box::new(conn)));
            }
            drop(conn.close().await);
            Ok(Seen::AtWork)
        };
        match timeout(ASK, asked).await {
            Ok(Ok(seen)) => seen,
            // It is there, and refuses the question.
            Ok(Err(sqlx::Error::Database(_))) if !is_late => Seen::AtWork,
            // No server can be asked; what was received meanwhile says enough.
            Ok(Err(_)) | Err(_) if is_late || heard.load(Relaxed) == before => Seen::Nothing,
            Ok(Err(_)) | Err(_) => Seen::AtWork,
        }
    }

    pub(crate) fn failed(&self, source: sqlx::Error) -> Error {
        Error::Database { at: self.shown.clone(), source }
    }
}

impl Known {
    /// Closes the connection after its work is done.
    pub(crate) async fn close(self) {
        if let Some(unit) = Unit::current() {
            unit.lets_go(self.number);
        }
        drop(timeout(PING, self.conn.close()).await);
    }
}

/// Ends another connection, which may have gone by itself.
pub(crate) async fn end(mut asked: MySqlConnection, number: u64) {
    let end = filled(sql!(session, kill), "{connection}", &number.to_string());
    let ending = async {
        drop(sqlx::raw_sql(AssertSqlSafe(end)).execute(&mut asked).await);
        drop(asked.close().await);
    };
    drop(timeout(PING, ending).await);
}

/// Answers what the server calls it.
async fn set(conn: &mut MySqlConnection) -> sqlx::Result<u64> {
    let number: i64 = sqlx::raw_sql(sql!(session, set_session)).fetch_one(conn).await?.try_get(0)?;
    Ok(number.cast_unsigned())
}

async fn at_work(conn: &mut MySqlConnection, number: u64) -> sqlx::Result<bool> {
    let look = sqlx::query_scalar(sql!(session, is_busy)).bind(number.cast_signed());
    let is_at_work: Option<i64> = look.fetch_optional(conn).await?;
    Ok(is_at_work == Some(1))
}

/// `mysql://user:secret@host/name?...` as `host/name`.
fn without_secret(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |parts| parts.1);
    let rest = rest.rsplit_once('@').map_or(rest, |parts| parts.1);
    rest.split(['?', '#']).next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_secret() {
        for url in [
            "mysql://u:p@h:3306/d",
            "mysql://u:p@h:3306/d?x=p",
            "mysql://h:3306/d",
            "mysql://u:p@q@h:3306/d",
            "mysql://u:p?q@h:3306/d",
        ] {
            assert_eq!(without_secret(url), "h:3306/d");
        }
        let address = DatabaseAddress::new("mysql://u:hidden@h:3306/d").unwrap();
        assert!(!format!("{address:?} {address}").contains("hidden"));
    }

    #[test]
    fn an_address_without_a_database_is_refused() {
        for url in ["mysql://u:hidden@h", "mysql://u:hidden@h/", "nonsense"] {
            let refused = DatabaseAddress::new(url).unwrap_err().to_string();
            assert!(!refused.contains("hidden"), "{refused}");
        }
    }
}
