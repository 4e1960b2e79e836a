//! What can go wrong while a store is opened, and when its own machinery is gone. Errors of single calls are
//! `contract::Error`, with one of these or one of the driver's inside.

use std::{io, path::PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: another engine has this database open; stop it, or give this one another file")]
    InUse { path: PathBuf },
    #[error("{path}: another program keeps this database locked; close it")]
    Locked { path: PathBuf },
    #[error("{path}: is not a database; it was left as it is")]
    NotADatabase { path: PathBuf },
    #[error("{path}: is a database of another application; it was left as it is")]
    Foreign { path: PathBuf },
    #[error(
        "{path}: has schema version {found}, and this program knows up to {known}; use the newer program"
    )]
    NewerSchema { path: PathBuf, found: i64, known: usize },
    #[error(
        "{path}: cannot be opened for writing: {source}; check that the directory exists and may be written"
    )]
    Unwritable { path: PathBuf, source: io::Error },
    #[error("{path}: the file system does not support the write-ahead log (journal mode is {mode:?})")]
    NoLog { path: PathBuf, mode: String },
    #[error("{path}: {source}")]
    Broken { path: PathBuf, source: rusqlite::Error },
    #[error("partitions must be 1 to 65535, and is {found}")]
    Partitions { found: i64 },
    #[error("a thread of the store could not be started: {0}")]
    Thread(#[source] io::Error),
    #[error("the store is closed")]
    Closed,
    #[error("the work of this call panicked: {0}")]
    Panicked(String),
}

impl Error {
    /// What a driver's error means for a file that is being opened.
    pub(crate) fn opening(path: &std::path::Path, source: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{
            CannotOpen, DatabaseBusy, DatabaseLocked, NotADatabase, PermissionDenied, ReadOnly,
        };
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(NotADatabase) => Self::NotADatabase { path },
            Some(DatabaseBusy | DatabaseLocked) => Self::Locked { path },
            Some(CannotOpen | PermissionDenied | ReadOnly) => {
                Self::Unwritable { path, source: io::Error::other(source) }
            }
            _ => Self::Broken { path, source },
        }
    }
}
