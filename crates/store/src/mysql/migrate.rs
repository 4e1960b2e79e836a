//! Brings the schema of one database up to date. Linear: what is recorded must be the beginning of what this program
//! knows, unaltered. Each file can be run again, because MySQL commits each of its statements by itself.

use super::{
    session::{DatabaseAddress, Known},
    statements::sql,
};
use crate::Error;
use sha2::{Digest as _, Sha256};
use sqlx::{MySqlConnection, Row as _};
use std::sync::LazyLock;

/// The time that another engine may take to migrate, in seconds.
const LOCK_WAIT_S: i32 = 60;

/// The migrations in order. A file that was released never changes.
const MIGRATIONS: &[(&str, &str)] = &[
    ("0001_tasks", include_str!("../../../../migrations/mysql/0001_tasks.sql")),
    ("0002_ownership", include_str!("../../../../migrations/mysql/0002_ownership.sql")),
    ("0003_placement", include_str!("../../../../migrations/mysql/0003_placement.sql")),
    ("0004_control", include_str!("../../../../migrations/mysql/0004_control.sql")),
    ("0005_room", include_str!("../../../../migrations/mysql/0005_room.sql")),
    ("0006_has_hot", include_str!("../../../../migrations/mysql/0006_has_hot.sql")),
    ("0007_access", include_str!("../../../../migrations/mysql/0007_access.sql")),
    ("0008_without_databases", include_str!("../../../../migrations/mysql/0008_without_databases.sql")),
    ("0009_audit_key", include_str!("../../../../migrations/mysql/0009_audit_key.sql")),
    ("0010_schedules", include_str!("../../../../migrations/mysql/0010_schedules.sql")),
    ("0011_payload_bytes", include_str!("../../../../migrations/mysql/0011_payload_bytes.sql")),
    ("0012_workflows", include_str!("../../../../migrations/mysql/0012_workflows.sql")),
    ("0013_bulk", include_str!("../../../../migrations/mysql/0013_bulk.sql")),
    ("0014_indexed_labels", include_str!("../../../../migrations/mysql/0014_indexed_labels.sql")),
    ("0015_dead", include_str!("../../../../migrations/mysql/0015_dead.sql")),
    ("0016_workflow_marks", include_str!("../../../../migrations/mysql/0016_workflow_marks.sql")),
    ("0017_uncounted_bytes", include_str!("../../../../migrations/mysql/0017_uncounted_bytes.sql")),
    ("0018_cluster", include_str!("../../../../migrations/mysql/0018_cluster.sql")),
    ("0019_retention", include_str!("../../../../migrations/mysql/0019_retention.sql")),
    ("0020_queue_samples", include_str!("../../../../migrations/mysql/0020_queue_samples.sql")),
    ("0021_run_identity", include_str!("../../../../migrations/mysql/0021_run_identity.sql")),
    ("0022_evaluations", include_str!("../../../../migrations/mysql/0022_evaluations.sql")),
    ("0023_task_chunks", include_str!("../../../../migrations/mysql/0023_task_chunks.sql")),
    ("0024_token_required_at", include_str!("../../../../migrations/mysql/0024_token_required_at.sql")),
    ("0025_limiter", include_str!("../../../../migrations/mysql/0025_limiter.sql")),
    ("0026_ledger", include_str!("../../../../migrations/mysql/0026_ledger.sql")),
];

/// The checksums of their texts, in the same order.
static CHECKSUMS: LazyLock<Vec<String>> =
    LazyLock::new(|| MIGRATIONS.iter().map(|(_, text)| checksum(text)).collect());

/// One row of the record.
struct Recorded {
    name: String,
    checksum: String,
}

/// A connection that holds the lock of its database until it is closed.
#[derive(Debug)]
pub(crate) struct Locked {
    pub(crate) conn: MySqlConnection,
    number: u64,
}

impl Locked {
    pub(crate) async fn wait(address: &DatabaseAddress) -> Result<Self, Error> {
        let failed = |error| address.failed(error);
        let Known { mut conn, number } = address.own().await.map_err(failed)?;
        let lock = sqlx::query(sql!(session, lock_migrations))
            .bind(LOCK_WAIT_S)
            .fetch_one(&mut conn)
            .await
            .map_err(failed)?;
        match lock.try_get::<Option<i64>, _>(0).map_err(failed)? {
            Some(1) => Ok(Self { conn, number }),
            _ => Err(Error::Migrating { at: address.to_string(), waited_s: LOCK_WAIT_S }),
        }
    }

    /// Frees the lock: it ends with the connection.
    pub(crate) async fn free(self) {
        Known { conn: self.conn, number: self.number }.close().await;
    }
}

/// The state of a database's schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schema {
    /// The database is empty.
    Empty,
    Current,
    /// Names of what is missing.
    Behind(Vec<&'static str>),
}

/// Reports what `migrate` would do. Changes nothing.
pub(crate) async fn look(conn: &mut MySqlConnection, address: &DatabaseAddress) -> Result<Schema, Error> {
    let failed = |error| address.failed(error);
    if !is_ours(conn).await.map_err(failed)? {
        return match a_table(conn).await.map_err(failed)? {
            Some(table) => Err(Error::ForeignTables { at: address.to_string(), table }),
            None => Ok(Schema::Empty),
        };
    }
    let recorded = recorded(conn).await.map_err(failed)?;
    check(address, &recorded, &CHECKSUMS)?;
    let missing: Vec<&str> = MIGRATIONS.iter().skip(recorded.len()).map(|migration| migration.0).collect();
    Ok(if missing.is_empty() { Schema::Current } else { Schema::Behind(missing) })
}

/// Applies what is missing, and answers its names.
pub(crate) async fn migrate(
    conn: &mut MySqlConnection,
    address: &DatabaseAddress,
) -> Result<Vec<String>, Error> {
    let failed = |error| address.failed(error);
    if !is_ours(conn).await.map_err(failed)? {
        if let Some(table) = a_table(conn).await.map_err(failed)? {
            return Err(Error::ForeignTables { at: address.to_string(), table });
        }
        sqlx::raw_sql(sql!(session, create_migration_table)).execute(&mut *conn).await.map_err(failed)?;
    }
    let recorded = recorded(conn).await.map_err(failed)?;
    check(address, &recorded, &CHECKSUMS)?;
    let mut applied = Vec::new();
    let missing = MIGRATIONS.iter().zip(CHECKSUMS.iter()).zip(1_i32..).skip(recorded.len());
    for (((name, text), checksum), position) in missing {
        sqlx::raw_sql(*text).execute(&mut *conn).await.map_err(failed)?;
        let record = sqlx::query(sql!(session, record_migration)).bind(position).bind(*name).bind(checksum);
        record.execute(&mut *conn).await.map_err(failed)?;
        tracing::info!(at = %address, migration = name, "a migration was applied");
        applied.push((*name).to_owned());
    }
    Ok(applied)
}

fn check(address: &DatabaseAddress, recorded: &[Recorded], checksums: &[String]) -> Result<(), Error> {
    let at = || address.to_string();
    for (nth, recorded) in recorded.iter().enumerate() {
        let (Some((name, _)), Some(known)) = (MIGRATIONS.get(nth), checksums.get(nth)) else {
            return Err(Error::UnknownMigration { at: at(), found: recorded.name.clone() });
        };
        if recorded.name != *name {
            return Err(Error::UnknownMigration { at: at(), found: recorded.name.clone() });
        }
        if recorded.checksum != *known {
            let (name, found) = (recorded.name.clone(), recorded.checksum.clone());
            return Err(Error::AlteredMigration { at: at(), name, found, known: known.clone() });
        }
    }
    Ok(())
}

async fn is_ours(conn: &mut MySqlConnection) -> sqlx::Result<bool> {
    Ok(sqlx::query(sql!(session, count_migration_tables)).fetch_one(conn).await?.try_get::<i64, _>(0)? > 0)
}

async fn a_table(conn: &mut MySqlConnection) -> sqlx::Result<Option<String>> {
    let table = sqlx::query(sql!(session, find_any_table)).fetch_optional(conn).await?;
    table.map(|table| table.try_get(0)).transpose()
}

async fn recorded(conn: &mut MySqlConnection) -> sqlx::Result<Vec<Recorded>> {
    let rows = sqlx::query(sql!(session, list_migrations)).fetch_all(conn).await?;
    let recorded =
        |row: &sqlx::mysql::MySqlRow| Ok(Recorded { name: row.try_get(1)?, checksum: row.try_get(2)? });
    rows.iter().map(recorded).collect()
}

/// SHA-256 in hexadecimal, which is what `SHA2(text, 256)` of the server says: those of 0.1.0 are from there.
fn checksum(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, path::Path};

    fn recorded(names: &[&str]) -> Vec<Recorded> {
        names
            .iter()
            .map(|name| Recorded { name: (*name).to_owned(), checksum: format!("of {name}") })
            .collect()
    }

    #[test]
    fn every_migration_file_is_known_in_order() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations/mysql");
        let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<String> =
            files.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
        files.sort();
        assert_eq!(files, MIGRATIONS.iter().map(|migration| migration.0).collect::<Vec<_>>());
    }

    #[test]
    fn a_record_must_be_the_beginning_of_what_is_known() {
        let address = DatabaseAddress::new("mysql://u:p@h/d").unwrap();
        let all: Vec<&str> = MIGRATIONS.iter().map(|migration| migration.0).collect();
        let sums: Vec<String> = all.iter().map(|text| format!("of {text}")).collect();
        for known in 0..=all.len() {
            check(&address, &recorded(&all[..known]), &sums).unwrap();
        }
        let newer = recorded(&[all.as_slice(), &["9999_later"]].concat());
        assert!(check(&address, &newer, &sums).unwrap_err().to_string().contains("9999_later"));
        let other = recorded(&["0001_other"]);
        assert!(matches!(check(&address, &other, &sums), Err(Error::UnknownMigration { .. })));
        let altered = vec![Recorded { name: all[0].to_owned(), checksum: "another".to_owned() }];
        assert!(matches!(check(&address, &altered, &sums), Err(Error::AlteredMigration { .. })));
    }
}
