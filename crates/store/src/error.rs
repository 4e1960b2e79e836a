//! The errors of opening a store, and of the loss of its own machinery. Errors of single calls are `contract::Error`,
//! with one of these or one of the driver's inside.

use punctual_domain::time::Span;
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
    #[error("{path}: has schema version {found}, and this program {known}; start it once with this file")]
    OlderSchema { path: PathBuf, found: usize, known: usize },
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
    #[error("the database has not answered yet, and is not waited for")]
    Late,
    #[error("the lease was not made: a third of it would have elapsed, or its caller was gone")]
    LeaseOver,
    #[error("the time within which a task may be inserted was over when it reached its database")]
    InsertOver,
    #[error("{at}: {source}{way_out}", way_out = crate::mysql::way_out(.source))]
    Database { at: String, source: sqlx::Error },
    #[error("{at}: {problem}")]
    Tls { at: String, problem: String },
    #[error("{at}: the database has not answered for too long; the connection was given up")]
    Silent { at: String },
    #[error("no database is named; give at least one address like mysql://user:password@host:3306/punctual")]
    NoDatabase,
    #[error("{at}: the address names no database; end it with one, like /punctual")]
    NoDatabaseName { at: String },
    #[error(
        "{at}: holds tables of another application ({table}, for one); create an empty database for this one"
    )]
    ForeignTables { at: String, table: String },
    #[error("{at}: has migration {found}, which this program does not know; use the newer program")]
    UnknownMigration { at: String, found: String },
    #[error(
        "{at}: its migration {name} is another one than this program's (checksum {found}, here {known}); use the \
         program that made this database, or an empty database"
    )]
    AlteredMigration { at: String, name: String, found: String, known: String },
    #[error("{at}: another process has been migrating it for {waited_s} s; wait until that is done")]
    Migrating { at: String, waited_s: i32 },
    #[error(
        "{at}: is database {found} of a cluster, and is in place {named} of the list; order the list by number"
    )]
    WrongPlace { at: String, found: i64, named: i64 },
    #[error(
        "{at}: belongs to another cluster than the first database of the list; name the databases of one cluster"
    )]
    OtherCluster { at: String },
    #[error(
        "{named} databases are named, and the cluster has {known}; name all of them in `store.url`, in their order"
    )]
    DatabaseCount { named: usize, known: usize },
    #[error("{at}: its placement of partitions is not whole: {problem}; restore it from a backup")]
    Placement { at: String, problem: String },
    #[error(
        "{at}: archive.url is not the place of its archives ({}); mount the right one before the engine starts, give \
         every engine the same, and each store a place of its own; docs/archive.md says how to move or give up archives",
        match .found { Some(store) => format!("it has those of store {store}"), None => "it is empty".to_owned() }
    )]
    OtherArchives { at: String, found: Option<i64> },
    #[error(
        "{at}: has archives, and archive.url is not set; set it to the place that the other engines have, or see \
         docs/archive.md for how to give up archives"
    )]
    NoArchives { at: String },
    #[error(
        "{at}: payloads.url is not the place of the long payloads of this store, number {store} ({}); give each store a \
         place of its own, mount the right one before the engine starts, or copy the objects to the new one, with \
         punctual-payload-place.json; docs/payloads.md says more",
        match .found { Some(other) => format!("it has those of store {other}"), None => "it is empty".to_owned() }
    )]
    OtherPayloads { at: String, store: i64, found: Option<i64> },
    #[error(
        "{at}: there is no such table; make it with `punctual inbox install --url mysql://…`, as a user who may create \
         tables"
    )]
    NoInbox { at: String },
    #[error("{at} is not a table of this program ({found:?}); it was left as it is")]
    OtherInbox { at: String, found: String },
    #[error(
        "{at}: {rows} rows are in it, waiting or refused; wait until they are moved, repair or delete them, or say --force \
         to lose them"
    )]
    InboxNotEmpty { at: String, rows: u64 },
    #[error(transparent)]
    Cold(#[from] crate::ArchiveError),
    #[error(transparent)]
    Call(punctual_contract::Error),
    #[error("these databases have no cluster yet; run `punctual migrate` with them")]
    NoCluster,
    #[error(transparent)]
    Driver(#[from] sqlx::Error),
    #[error(
        "partition {partition} is on its way to another database, and could not be reached for {waited}; try again"
    )]
    PartitionAway { partition: u16, waited: Span },
    #[error("there is no partition {partition}: the cluster has {partitions}, from 0")]
    NoPartition { partition: u16, partitions: u16 },
    #[error(
        "there is no database {shard}: the cluster has {members}, from 0; add it with `punctual shard add` first"
    )]
    NoShard { shard: usize, members: usize },
    #[error("another mover is at work on this cluster; wait until it is done")]
    MoverBusy,
    #[error(
        "partition {partition} is already on its way from database {from} to {to}; finish that with `punctual shard \
         move --partition {partition} --to {to}`, or undo it with `--undo`"
    )]
    OtherMove { partition: u16, from: usize, to: usize },
    #[error("partition {partition} has arrived already and cannot be undone; move it back instead")]
    TooLateToUndo { partition: u16 },
    #[error("partition {partition} is not on its way anywhere")]
    NoMove { partition: u16 },
    #[error(
        "these engines could not follow: {engines}; give all engines the whole list of databases in `store.url`, and \
         this version of the program, then move"
    )]
    EnginesBehind { engines: String },
    #[error("{at}: another process has been changing its buckets for {waited_s} s; try again later")]
    BucketsBusy { at: String, waited_s: u64 },
    #[error(
        "{at}: transactions were under way in partition {partition} all the time, so it could not be closed; look for \
         one that hangs, and move it again"
    )]
    NeverQuiet { at: String, partition: u16 },
    #[error(
        "the move of partition {partition} was taken over by another mover, or by engines, while it waited; run it again"
    )]
    NewerTerm { partition: u16 },
    #[error("{at}: a copy of partition {partition} does not become like its original; nothing was moved")]
    CopyDiffers { at: String, partition: u16 },
    #[error("the mover was stopped after {after:?}; run it again to continue")]
    MoverStopped { after: String },
    #[error("the writer panicked while it had this work")]
    WriterPanicked,
    #[error("the work of this call panicked: {0}")]
    Panicked(String),
}

impl Error {
    /// Translates a driver's error for a file that is being opened.
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
