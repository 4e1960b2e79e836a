//! The durable truth. Decides nothing by itself: which move is legal stands in `domain::state`, and every
//! statement that moves a task is held against it by a test. Statements lie in files of SQL beside the Rust that uses them.

mod archived;
mod audit;
mod blobs;
mod chunks;
mod cold;
mod columns;
mod due_range;
mod error;
mod evaluations;
mod extras;
pub mod journal;
mod known;
pub mod mysql;
mod rows;
mod runs;
pub mod sqlite;
mod subject;
mod turns;
mod workflows;

/// Whether `s3://` is in this build.
pub const HAS_OBJECT_STORES: bool = cfg!(feature = "s3");

pub use blobs::ObjectBlobs;
pub use cold::{ArchiveInfo, ColdOptions, ColdStorage, Error as ColdError, Source as ColdSource, Written};
pub use error::Error;
pub use journal::{FileJournal, Found as JournalFound, JournalOptions, Owner as JournalOwner};
pub use mysql::{
    BucketOptions, BucketReport, BucketSurvey, Buckets, BucketsAhead, ClockReading, MoveProgress, MoveStep,
    Moved, MysqlDoctor, MysqlOptions, MysqlOwnership, MysqlRights, MysqlSettings, MysqlStore, MysqlTls,
    Schema, ShardCheck, ShardRepair, ShardStats, Weakness,
};
pub use sqlite::{ArchiveOptions, ArchiveReport, Options, SqliteDoctor, SqliteFacts, SqliteStore};
