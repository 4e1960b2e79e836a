//! Questions to one database for a check of its configuration: each on a connection of its own, so that one which hangs
//! holds up no other. Answers facts; what is good or wrong about them is judged by the caller, but for what an engine must
//! refuse, whose sentence is here once. Changes nothing but the row `doctor` in `meta`, by which commits are measured.

use super::{
    buckets,
    migrate::{self, Schema},
    session::DatabaseAddress,
    shards::placement::CLUSTER,
    statements::sql,
    timeouts::{READ, on_its_own},
};
use crate::Error;
use punctual_contract::Clock;
use punctual_domain::time::Millis;
use sqlx::{MySqlConnection, Row as _, mysql::MySqlRow};
use std::{collections::BTreeMap, time::Duration};
use tokio::time::Instant;

/// The privileges that the user of an engine needs.
const RIGHTS: [&str; 8] = ["SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "INDEX"];
/// The number of clock reads. The one with the shortest round trip shows the difference of two clocks best.
const CLOCK_LOOKS: usize = 5;

/// One database of the list.
#[derive(Clone, Debug)]
pub struct MysqlDoctor {
    address: DatabaseAddress,
}

/// The protection of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MysqlTls {
    /// `None` if the traffic is not encrypted.
    pub cipher: Option<String>,
    /// States if the certificate is verified, and the name in it.
    pub is_verified: bool,
    pub is_named: bool,
    /// The expiry, as the server writes it: `Nov 23 04:06:21 2031 GMT`.
    pub not_after: Option<String>,
}

/// Settings of a server, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MysqlSettings(BTreeMap<String, String>);

/// The privileges that the user lacks here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MysqlRights {
    pub missing: Vec<&'static str>,
    /// They may come by a role.
    pub has_roles: bool,
}

/// Another clock than this machine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// The time by which the clock is ahead, precise to about half of the round trip.
    pub ahead_ms: i64,
    pub round_trip: Duration,
}

/// The progress of the division of the tasks' table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketsAhead {
    /// The instant up to which no bucket from the present on exceeds the requested width.
    pub narrow_until: i64,
    /// The end of the last that has one.
    pub until: i64,
    /// The number of buckets that are wider than they should be, and cannot be split.
    pub wide: i64,
}

impl MysqlSettings {
    #[must_use]
    pub fn of(pairs: &[(&str, &str)]) -> Self {
        Self(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    /// Why no engine may run on this server, and the way out, or `None` if it may.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let version = self.get("version").unwrap_or_default();
        if is_too_old(version) {
            return Some(format!(
                "version {version} is too old: MySQL 8.0 or MariaDB 10.6 is needed, or newer"
            ));
        }
        let is_logged = self.get("log_bin").is_some_and(|log_bin| log_bin == "ON" || log_bin == "1");
        let format = self.get("binlog_format").unwrap_or_default();
        (is_logged && format == "STATEMENT").then(|| {
            "binlog_format is STATEMENT, which refuses every write of READ COMMITTED: SET GLOBAL binlog_format = 'ROW', and \
             in the server's configuration"
                .to_owned()
        })
    }
}

/// `8.0.36-28`, `10.11.14-MariaDB-0+deb12u2`, `5.5.5-10.6.1-MariaDB`.
fn is_too_old(version: &str) -> bool {
    let is_mariadb = version.contains("MariaDB");
    let version = version.strip_prefix("5.5.5-").filter(|_| is_mariadb).unwrap_or(version);
    let mut numbers = version.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    found < if is_mariadb { (10, 6) } else { (8, 0) }
}

impl MysqlDoctor {
    /// # Errors
    /// When the address cannot be used.
    pub fn new(url: &str) -> Result<Self, Error> {
        Ok(Self { address: DatabaseAddress::new(url)? })
    }

    /// `host:port/database`.
    #[must_use]
    pub fn at(&self) -> String {
        self.address.to_string()
    }

    /// The host in the address.
    #[must_use]
    pub fn host(&self) -> String {
        let at = self.at();
        let host = at.split('/').next().unwrap_or_default();
        host.rsplit_once(':').map_or(host, |parts| parts.0).to_owned()
    }

    async fn ask<T>(
        &self,
        question: impl AsyncFnOnce(&mut MySqlConnection) -> sqlx::Result<T>,
    ) -> Result<T, Error> {
        on_its_own(READ, &self.address, question).await.map_err(|error| self.address.failed(error))
    }

    /// # Errors
    /// Fails, like every call here, if the database cannot be reached or refuses the statement.
    pub async fn tls(&self) -> Result<MysqlTls, Error> {
        let mut found = self.ask(async |conn| pairs(conn, sql!(doctor, read_tls)).await).await?;
        let mut take = |name: &str| found.remove(name).filter(|text| !text.is_empty());
        let (is_verified, is_named) = self.address.verifies();
        let (cipher, not_after) = (take("ssl_cipher"), take("ssl_server_not_after"));
        Ok(MysqlTls { cipher, is_verified, is_named, not_after })
    }

    /// # Errors
    /// See `tls`.
    pub async fn settings(&self) -> Result<MysqlSettings, Error> {
        self.ask(async |conn| pairs(conn, sql!(doctor, list_settings)).await).await.map(MysqlSettings)
    }

    /// The isolation level that connections of an engine get.
    ///
    /// # Errors
    /// See `tls`.
    pub async fn isolation(&self) -> Result<String, Error> {
        let found = self.ask(async |conn| pairs(conn, sql!(doctor, read_isolation)).await).await?;
        Ok(found.into_values().next().unwrap_or_default())
    }

    /// # Errors
    /// See `tls`; what is recorded there may not be this program's.
    pub async fn schema(&self) -> Result<Schema, Error> {
        let look = on_its_own(READ, &self.address, async |conn| migrate::look(conn, &self.address).await);
        look.await.map_err(|error| match error {
            Error::Driver(source) => self.address.failed(source),
            other => other,
        })
    }

    /// # Errors
    /// See `tls`.
    pub async fn rights(&self) -> Result<MysqlRights, Error> {
        self.ask(async |conn| {
            let rows = sqlx::query(sql!(doctor, list_rights)).fetch_all(&mut *conn).await?;
            let granted = rows.iter().map(|row| row.try_get(0)).collect::<sqlx::Result<Vec<String>>>()?;
            let missing =
                RIGHTS.into_iter().filter(|right| !granted.iter().any(|has| has == right)).collect();
            // An older server has no such list, and no roles.
            let roles = sqlx::query_scalar::<_, i64>(sql!(doctor, count_roles)).fetch_one(conn).await;
            Ok(MysqlRights { missing, has_roles: roles.unwrap_or(0) > 0 })
        })
        .await
    }

    /// # Errors
    /// See `tls`.
    pub async fn clock(&self, clock: &dyn Clock) -> Result<ClockReading, Error> {
        self.ask(async |conn| {
            let mut best: Option<ClockReading> = None;
            for _ in 0..CLOCK_LOOKS {
                let (asked_at, began) = (clock.now(), Instant::now());
                let ask = sqlx::query_scalar(sql!(ownership, read_clock));
                let there: i64 = ask.fetch_one(&mut *conn).await?;
                let round_trip = began.elapsed();
                let half_ms = i64::try_from(round_trip.as_millis() / 2).unwrap_or(i64::MAX);
                let reading = ClockReading { ahead_ms: there - asked_at.plus(half_ms).0, round_trip };
                best = Some(best.filter(|best| best.round_trip <= round_trip).unwrap_or(reading));
            }
            best.ok_or(sqlx::Error::RowNotFound)
        })
        .await
    }

    /// The durations of some commits: one row is changed, and the answer comes when it is durable by the server's
    /// settings. Only in a database of ours.
    ///
    /// # Errors
    /// See `tls`.
    pub async fn commits(&self, times: usize) -> Result<Vec<Duration>, Error> {
        self.ask(async |conn| {
            sqlx::query(sql!(doctor, create_probe)).execute(&mut *conn).await?;
            let mut took = Vec::with_capacity(times);
            for _ in 0..times {
                let began = Instant::now();
                sqlx::query(sql!(doctor, commit_probe)).execute(&mut *conn).await?;
                took.push(began.elapsed());
            }
            Ok(took)
        })
        .await
    }

    /// Returns `None` if the table is not divided at all.
    ///
    /// # Errors
    /// See `tls`.
    pub async fn buckets(&self, now: Millis) -> Result<Option<BucketsAhead>, Error> {
        self.ask(async |conn| {
            let rows = sqlx::query(sql!(buckets, list)).fetch_all(&mut *conn).await?;
            let ends = rows.iter().map(|row| row.try_get(1)).collect::<sqlx::Result<Vec<Option<i64>>>>()?;
            let wide = sqlx::query(sql!(shards, read_meta)).bind("buckets_wide").fetch_optional(conn).await?;
            let wide = wide.map_or(Ok(0), |wide| wide.try_get(0))?;
            let ahead = |(narrow_until, until)| BucketsAhead { narrow_until, until, wide };
            Ok(buckets::ahead(&ends, now.0).map(ahead))
        })
        .await
    }

    /// The number by which engines know their cluster. `None` if it is not founded.
    ///
    /// # Errors
    /// See `tls`.
    pub async fn cluster(&self) -> Result<Option<i64>, Error> {
        self.ask(async |conn| {
            let read = sqlx::query(sql!(shards, read_meta)).bind(CLUSTER).fetch_optional(conn).await;
            match read {
                Ok(row) => row.map(|row| row.try_get(0)).transpose(),
                Err(error) if is_without_tables(&error) => Ok(None),
                Err(error) => Err(error),
            }
        })
        .await
    }
}

fn is_without_tables(error: &sqlx::Error) -> bool {
    const NO_SUCH_TABLE: &str = "42S02";
    error.as_database_error().is_some_and(|error| error.code().as_deref() == Some(NO_SUCH_TABLE))
}

/// Two columns of text, whatever the server declares them to be; names in small letters.
async fn pairs(conn: &mut MySqlConnection, text: &'static str) -> sqlx::Result<BTreeMap<String, String>> {
    let rows = sqlx::raw_sql(text).fetch_all(conn).await?;
    let pair = |row: &MySqlRow| {
        let (name, value): (String, String) = (row.try_get_unchecked(0)?, row.try_get_unchecked(1)?);
        Ok((name.to_ascii_lowercase(), value))
    };
    rows.iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_are_too_old_are_told_from_those_that_are_not() {
        for old in ["5.7.44", "5.5.5-10.5.23-MariaDB", "10.5.9-MariaDB-log", ""] {
            assert!(is_too_old(old), "{old}");
        }
        for good in [
            "8.0.36",
            "8.4.0-commercial",
            "9.1.0",
            "10.6.1-MariaDB",
            "5.5.5-10.11.14-MariaDB",
            "11.4.2-MariaDB",
        ] {
            assert!(!is_too_old(good), "{good}");
        }
    }

    #[test]
    fn a_binary_log_of_statements_is_a_problem_only_where_there_is_one() {
        let with = |log: &str, format: &str| {
            MysqlSettings::of(&[("version", "8.0.36"), ("log_bin", log), ("binlog_format", format)]).problem()
        };
        assert!(with("ON", "STATEMENT").unwrap().contains("'ROW'"));
        assert_eq!(with("OFF", "STATEMENT"), None);
        assert_eq!(with("ON", "MIXED"), None);
    }
}
