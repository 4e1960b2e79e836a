//! Opens a path. The result is connections that can be used, or an error that names the path. Never changes a file
//! that is not ours, and never shares one with another engine.

use super::{options::Options, statements::sql};
use crate::Error;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, TransactionBehavior, config::DbConfig};
use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// "PNCT": marks a file as ours.
const APPLICATION_ID: i64 = 0x504e_4354;
/// The time limit of the wait for a lock that another program holds for a moment.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// The number of statements that are kept prepared for each connection; more than there are.
const STATEMENTS_KEPT: usize = 192;
/// The log file is cut to this length when it begins anew, in bytes: 64 MiB.
const LOG_KEPT_BYTES: u64 = 64 << 20;

/// Every migration, in order: applied once, never changed after a release.
const MIGRATIONS: &[(&str, &str)] = &[
    ("0001_tasks", include_str!("../../../../migrations/sqlite/0001_tasks.sql")),
    ("0002_control", include_str!("../../../../migrations/sqlite/0002_control.sql")),
    ("0003_access", include_str!("../../../../migrations/sqlite/0003_access.sql")),
    ("0004_audit_key", include_str!("../../../../migrations/sqlite/0004_audit_key.sql")),
    ("0005_schedules", include_str!("../../../../migrations/sqlite/0005_schedules.sql")),
    ("0006_payload_bytes", include_str!("../../../../migrations/sqlite/0006_payload_bytes.sql")),
    ("0007_workflows", include_str!("../../../../migrations/sqlite/0007_workflows.sql")),
    ("0008_bulk", include_str!("../../../../migrations/sqlite/0008_bulk.sql")),
    ("0009_indexed_labels", include_str!("../../../../migrations/sqlite/0009_indexed_labels.sql")),
    ("0010_dead", include_str!("../../../../migrations/sqlite/0010_dead.sql")),
    ("0011_workflow_marks", include_str!("../../../../migrations/sqlite/0011_workflow_marks.sql")),
    ("0012_cluster", include_str!("../../../../migrations/sqlite/0012_cluster.sql")),
    ("0013_queue_samples", include_str!("../../../../migrations/sqlite/0013_queue_samples.sql")),
    ("0014_run_identity", include_str!("../../../../migrations/sqlite/0014_run_identity.sql")),
    ("0015_evaluations", include_str!("../../../../migrations/sqlite/0015_evaluations.sql")),
    ("0016_task_chunks", include_str!("../../../../migrations/sqlite/0016_task_chunks.sql")),
    ("0017_token_required_at", include_str!("../../../../migrations/sqlite/0017_token_required_at.sql")),
    ("0018_ledger", include_str!("../../../../migrations/sqlite/0018_ledger.sql")),
];

pub(crate) const KNOWN: usize = MIGRATIONS.len();

/// The mode of created files: no other user can read or write them, because tasks contain the data of callers.
const FILE_MODE: u32 = 0o600;
const OF_OTHERS: u32 = 0o077;

/// The result of opening a path.
pub(crate) struct Opened {
    pub(crate) conn: Connection,
    pub(crate) path: PathBuf,
    pub(crate) partitions: u16,
    pub(crate) migrated: Vec<&'static str>,
    /// Held as long as the store is open.
    pub(crate) lock: File,
}

pub(crate) fn file(path: &Path, options: &Options) -> Result<Opened, Error> {
    let path = absolute(path)?;
    let lock = lock(&path)?;
    make(&path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let mut conn = connect(&path, flags).map_err(|error| Error::opening(&path, error))?;
    let (migrated, partitions) = prepare(&mut conn, &path, options)?;
    Ok(Opened { conn, path, partitions, migrated, lock })
}

fn prepare(conn: &mut Connection, path: &Path, options: &Options) -> Result<(Vec<&'static str>, u16), Error> {
    let opening = |error| Error::opening(path, error);
    recognise(conn, path)?;
    // Before anything is written: a new file takes its log mode along into every later opening.
    let mode: String = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(opening)?;
    if mode != "wal" {
        return Err(Error::NoLog { path: path.to_owned(), mode });
    }
    let cache_kib = options.cache_kib;
    let tuning = format!(
        "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -{cache_kib}; \
         PRAGMA journal_size_limit = {LOG_KEPT_BYTES};"
    );
    conn.execute_batch(&tuning).map_err(opening)?;
    let migrated = migrate(conn).map_err(opening)?;
    let partitions = partitions(conn, options).map_err(opening)?;
    Ok((migrated, u16::try_from(partitions).map_err(|_| Error::Partitions { found: partitions })?))
}

pub(crate) fn memory(options: &Options) -> Result<(Connection, u16), Error> {
    let opening = |error| Error::opening(Path::new(":memory:"), error);
    let mut conn = Connection::open_in_memory().map_err(opening)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    keep_plans(&conn).map_err(opening)?;
    migrate(&mut conn).map_err(opening)?;
    let partitions = partitions(&conn, options).map_err(opening)?;
    Ok((conn, u16::try_from(partitions).map_err(|_| Error::Partitions { found: partitions })?))
}

/// A connection that only reads; the file exists by now.
pub(crate) fn reader(path: &Path, cache_kib: u32) -> Result<Connection, Error> {
    let conn =
        connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(|error| Error::opening(path, error))?;
    let tuning = format!("PRAGMA cache_size = -{cache_kib};");
    conn.execute_batch(&tuning).map_err(|error| Error::opening(path, error))?;
    Ok(conn)
}

/// A connection that moves the log into the database. `FULL`: what the log is cut off from is on the medium.
pub(crate) fn checkpointer(path: &Path) -> Result<Connection, Error> {
    let conn =
        connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(|error| Error::opening(path, error))?;
    let tuning = "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;";
    conn.execute_batch(tuning).map_err(|error| Error::opening(path, error))?;
    Ok(conn)
}

/// The database file itself, for syncing it beside SQLite.
pub(crate) fn database(path: &Path) -> Result<Arc<File>, Error> {
    let file = File::options().read(true).write(true).open(path);
    file.map(Arc::new).map_err(|source| Error::Unwritable { path: path.to_owned(), source })
}

fn connect(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    // Each connection stays on one thread, so it needs no mutex of its own.
    let conn = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    keep_plans(&conn)?;
    conn.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA temp_store = MEMORY;")?;
    Ok(conn)
}

/// A plan never depends on the values of parameters. Without this SQLite parses and plans a prepared statement again at each new
/// value that is compared with what a partial index is about: half of all it did.
fn keep_plans(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

/// Two names of one file must find the same lock, so links are followed.
fn absolute(path: &Path) -> Result<PathBuf, Error> {
    if let Ok(known) = path.canonicalize() {
        return Ok(known);
    }
    let unwritable = |source| Error::Unwritable { path: path.to_owned(), source };
    let name = path.file_name().ok_or_else(|| unwritable(io::ErrorKind::InvalidInput.into()))?;
    let parent =
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    Ok(parent.canonicalize().map_err(unwritable)?.join(name))
}

/// Creates the file before SQLite does, which would let other users read it; its log and index files get the mode of
/// the database. An existing file keeps its mode.
fn make(path: &Path) -> Result<(), Error> {
    match OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & OF_OTHERS != 0) {
                tracing::warn!(path = %path.display(), "others on this machine can read the tasks in this file: chmod 600 it");
            }
            Ok(())
        }
        Err(source) => Err(Error::Unwritable { path: path.to_owned(), source }),
    }
}

/// The system frees the lock when the process ends, however it ends.
fn lock(path: &Path) -> Result<File, Error> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let unwritable = |source| Error::Unwritable { path: path.to_owned(), source };
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(FILE_MODE);
    let file = options.open(name).map_err(unwritable)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => Err(unwritable(source)),
    }
}

/// Refuses what is not a database, not ours, or newer than this program.
pub(crate) fn recognise(conn: &Connection, path: &Path) -> Result<(), Error> {
    let opening = |error| Error::opening(path, error);
    let objects: i64 =
        conn.query_row(sql!(open, count_objects), [], |value| value.get(0)).map_err(opening)?;
    if objects == 0 {
        return Ok(());
    }
    let path = path.to_owned();
    if pragma(conn, "application_id").map_err(|error| Error::opening(&path, error))? != APPLICATION_ID {
        return Err(Error::Foreign { path });
    }
    let found = pragma(conn, "user_version").map_err(|error| Error::opening(&path, error))?;
    let known = MIGRATIONS.len();
    if usize::try_from(found).is_ok_and(|number| number <= known) {
        return Ok(());
    }
    Err(Error::NewerSchema { path, found, known })
}

pub(crate) fn pragma(conn: &Connection, name: &str) -> rusqlite::Result<i64> {
    conn.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0))
}

/// Brings the schema up to date in one transaction, and answers what was applied: nothing, the second time.
pub(crate) fn migrate(conn: &mut Connection) -> rusqlite::Result<Vec<&'static str>> {
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version = pragma(&transaction, "user_version")?;
    let done = usize::try_from(version).unwrap_or(MIGRATIONS.len());
    let todo = MIGRATIONS.get(done..).unwrap_or_default();
    for (_, text) in todo {
        transaction.execute_batch(text)?;
    }
    if !todo.is_empty() {
        let version = MIGRATIONS.len();
        transaction.execute_batch(&format!(
            "PRAGMA user_version = {version}; PRAGMA application_id = {APPLICATION_ID};"
        ))?;
    }
    transaction.commit()?;
    Ok(todo.iter().map(|pair| pair.0).collect())
}

/// Rows were placed by this number, so the one that the file was made with wins.
fn partitions(conn: &Connection, options: &Options) -> rusqlite::Result<i64> {
    let mut read = conn.prepare_cached(sql!(ledger, read_meta))?;
    let mut read = || read.query_row(["partitions"], |row| row.get(0)).optional();
    if let Some(standing) = read()? {
        return Ok(standing);
    }
    conn.prepare_cached(sql!(ledger, insert_meta))?.execute(("partitions", options.partitions))?;
    Ok(i64::from(options.partitions))
}

/// How many the file was made with.
pub(crate) fn stored_partitions(conn: &Connection) -> rusqlite::Result<u16> {
    conn.prepare_cached(sql!(ledger, read_meta))?.query_row(["partitions"], |row| row.get(0))
}

#[cfg(test)]
pub(crate) fn migrations() -> Vec<&'static str> {
    MIGRATIONS.iter().map(|migration| migration.0).collect()
}
