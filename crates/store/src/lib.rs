//! The durable truth. Decides nothing by itself: `domain::state` has the legal moves, and a test compares every statement that
//! moves a task with them. Statements are in SQL files beside the Rust code that uses them.

mod archive_storage;
mod archived;
mod audit;
mod blobs;
mod change_log;
mod chunks;
mod columns;
mod counting;
mod created;
mod due_range;
mod error;
mod evaluations;
mod extras;
pub mod journal;
mod known;
pub mod mysql;
mod rows;
mod runs;
mod shard_check;
pub mod sqlite;
mod subject;
mod turns;
mod workflows;

/// True if this build supports `s3://`.
pub const HAS_OBJECT_STORES: bool = cfg!(feature = "s3");

pub use archive_storage::{
    ArchiveInfo, ArchiveSource, ArchiveStorage, ArchiveStorageOptions, Error as ArchiveError, Written,
};
pub use blobs::ObjectBlobs;
pub use error::Error;
pub use journal::{FileJournal, JournalFindings as JournalFound, JournalOptions, Owner as JournalOwner};
pub use mysql::{
    BucketOptions, BucketReport, BucketSurvey, Buckets, BucketsAhead, ClockReading, InboxStatus,
    InboxTableName, MoveProgress, MoveStep, Moved, MysqlDoctor, MysqlInbox, MysqlOptions, MysqlOwnership,
    MysqlRights, MysqlSettings, MysqlStore, MysqlTls, Schema, ShardRepair, ShardStats, ShownRefusal,
    Weakness,
};
pub use shard_check::ShardCheck;
pub use sqlite::{ArchiveOptions, ArchiveReport, Options, SqliteDoctor, SqliteFacts, SqliteStore};
