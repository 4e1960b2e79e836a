//! Checks the file of the embedded store, beside an engine that has it open or alone. Reads only: a file that no
//! process has open is opened as one that does not change, so that nothing is created beside it.

use super::{count, open, query};
use crate::{Error, ShardCheck};
use rusqlite::{Connection, OpenFlags};
use std::{
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
};

/// The findings. The integrity of the file is a separate check, because its duration grows with the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SqliteFacts {
    /// True if there is no file yet.
    pub is_missing: bool,
    /// An engine has it open.
    pub is_in_use: bool,
    /// Migrations that it has, and that this program knows.
    pub schema: (usize, usize),
    pub bytes: u64,
    pub log_bytes: u64,
}

/// The file of an embedded store.
#[derive(Clone, Debug)]
pub struct SqliteDoctor {
    path: PathBuf,
}

impl SqliteDoctor {
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Blocks.
    ///
    /// # Errors
    /// When it is no database of ours, newer than this program, or cannot be read.
    pub fn facts(&self) -> Result<SqliteFacts, Error> {
        if !self.path.exists() {
            return Ok(SqliteFacts { is_missing: true, ..SqliteFacts::default() });
        }
        let conn = self.conn()?;
        open::recognise(&conn, &self.path)?;
        let found = open::pragma(&conn, "user_version").map_err(|error| Error::opening(&self.path, error))?;
        let length = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
        Ok(SqliteFacts {
            is_missing: false,
            is_in_use: self.is_in_use(),
            schema: (usize::try_from(found).unwrap_or(0), open::KNOWN),
            bytes: length(&self.path),
            log_bytes: length(&self.beside("-wal")),
        })
    }

    /// The faults of the file; empty if there are none. Blocks, for as long as it takes to read all of it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn integrity(&self) -> Result<Vec<String>, Error> {
        let failed = |error| Error::opening(&self.path, error);
        let conn = self.conn()?;
        let mut check = conn.prepare("PRAGMA quick_check(5)").map_err(failed)?;
        let rows = check.query_map([], |row| row.get::<_, String>(0)).map_err(failed)?;
        let said = rows.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        Ok(said.into_iter().filter(|text| text != "ok").collect())
    }

    /// Every row against the account and the register. Blocks, for as long as it takes to read all of them.
    ///
    /// # Errors
    /// When it cannot be read, or is of another release.
    pub fn check(&self) -> Result<ShardCheck, Error> {
        let facts = self.facts()?;
        if facts.is_missing || facts.schema.0 != facts.schema.1 {
            let (found, known) = facts.schema;
            return Err(Error::OlderSchema { path: self.path.clone(), found, known });
        }
        let failed = |error| Error::opening(&self.path, error);
        let mut conn = self.conn()?;
        let snapshot = conn.transaction().map_err(failed)?;
        let checked = || -> rusqlite::Result<ShardCheck> {
            Ok(ShardCheck {
                shard_no: 0,
                books: query::books(&snapshot)?,
                counted: query::audit(&snapshot)?,
                bytes_uncounted: false,
                entries_alone: 0,
                places_alone: 0,
                misplaced: Vec::new(),
                strangers: Vec::new(),
                ledger: count::count(&snapshot, open::stored_partitions(&snapshot)?)?,
            })
        };
        checked().map_err(failed)
    }

    fn beside(&self, end: &str) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    }

    fn is_in_use(&self) -> bool {
        let lock = File::open(self.beside(".lock"));
        lock.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }

    fn conn(&self) -> Result<Connection, Error> {
        if self.beside("-wal").exists() {
            return open::reader(&self.path, 4 << 10);
        }
        let failed = |error| Error::opening(&self.path, error);
        let path = self
            .path
            .canonicalize()
            .map_err(|source| Error::Unwritable { path: self.path.clone(), source })?;
        let path = path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        Connection::open_with_flags(format!("file:{path}?immutable=1"), flags).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, SqliteStore};

    #[test]
    fn a_file_is_looked_at_without_leaving_anything_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.db");
        let doctor = SqliteDoctor::new(&path);
        assert!(doctor.facts().unwrap().is_missing && !path.exists());
        let store = SqliteStore::open(&path, &Options::default()).unwrap();
        let beside = doctor.facts().unwrap();
        assert!(beside.is_in_use && beside.schema == (open::KNOWN, open::KNOWN), "{beside:?}");
        assert!(doctor.integrity().unwrap().is_empty());
        store.close();
        drop(store);
        let names = || {
            let mut all: Vec<_> =
                fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            all.sort();
            all
        };
        let before = names();
        assert!(!doctor.facts().unwrap().is_in_use && doctor.integrity().unwrap().is_empty());
        assert_eq!(names(), before);
    }

    #[test]
    fn a_damaged_file_and_a_strange_one_are_said() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.db");
        drop(SqliteStore::open(&path, &Options::default()).unwrap());
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle..].fill(0xff);
        fs::write(&path, bytes).unwrap();
        let said = SqliteDoctor::new(&path).integrity();
        assert!(said.as_ref().map_or(true, |list| !list.is_empty()), "{said:?}");
        fs::write(
            &path,
            "no database at all, but longer than a header of one hundred bytes would be, ".repeat(9),
        )
        .unwrap();
        assert!(SqliteDoctor::new(&path).facts().is_err());
    }
}
