//! How connections to one database are made: by what address, and set to what. Everything that is sent stays
//! prepared, because the driver does not switch Nagle's delay off: a statement that is closed costs 40 ms.

use super::statements::sql;
use crate::Error;
use sqlx::{
    ConnectOptions as _, MySqlConnection, MySqlPool,
    mysql::{MySqlConnectOptions, MySqlPoolOptions},
};
use std::{fmt, str::FromStr as _, time::Duration};
use tokio::time::timeout;

/// Texts that one connection keeps prepared; there are about a hundred.
const PREPARED_MAX: usize = 512;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The address of one database. Shown without its password.
#[derive(Clone)]
pub(crate) struct Door {
    options: MySqlConnectOptions,
    shown: String,
}

impl fmt::Display for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl Door {
    pub(crate) fn new(url: &str) -> Result<Self, Error> {
        let shown = without_secret(url);
        let options = MySqlConnectOptions::from_str(url)
            .map_err(|source| Error::Database { at: shown.clone(), source })?
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

    pub(crate) async fn connect(&self) -> sqlx::Result<MySqlConnection> {
        let connecting = async {
            let mut conn = self.options.connect().await?;
            set(&mut conn).await?;
            Ok(conn)
        };
        // Nothing is lost with a connection that never was.
        let silent = || std::io::Error::from(std::io::ErrorKind::TimedOut);
        timeout(CONNECT_TIMEOUT, connecting).await.unwrap_or_else(|_| Err(silent().into()))
    }

    /// Connections for short work, made when they are needed.
    pub(crate) fn pool(&self, connections: u32) -> MySqlPool {
        MySqlPoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(CONNECT_TIMEOUT)
            .after_connect(|conn, _| Box::pin(set(conn)))
            .connect_lazy_with(self.options.clone())
    }

    pub(crate) fn failed(&self, source: sqlx::Error) -> Error {
        Error::Database { at: self.shown.clone(), source }
    }
}

async fn set(conn: &mut MySqlConnection) -> sqlx::Result<()> {
    sqlx::raw_sql(sql!("meta/session.sql")).execute(conn).await.map(drop)
}

/// `mysql://user:secret@host/name?...` as `host/name`.
fn without_secret(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |it| it.1);
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    rest.rsplit_once('@').map_or(rest, |it| it.1).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_secret() {
        for url in
            ["mysql://u:p@h:3306/d", "mysql://u:p@h:3306/d?x=p", "mysql://h:3306/d", "mysql://u:p@q@h:3306/d"]
        {
            assert_eq!(without_secret(url), "h:3306/d");
        }
        let door = Door::new("mysql://u:hidden@h:3306/d").unwrap();
        assert!(!format!("{door:?} {door}").contains("hidden"));
    }

    #[test]
    fn an_address_without_a_database_is_refused() {
        for url in ["mysql://u:hidden@h", "mysql://u:hidden@h/", "nonsense"] {
            let refused = Door::new(url).unwrap_err().to_string();
            assert!(!refused.contains("hidden"), "{refused}");
        }
    }
}
