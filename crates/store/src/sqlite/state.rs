//! The state of a store in SQLite: the connection of a store in memory, or the threads of one in a file. All steps import it; it
//! must import none of them.

use super::{options::Activity, session::Session, template::TemplateFile, threads::Threads};
use crate::ArchiveStorage;
use parking_lot::Mutex;
use std::{
    fmt,
    sync::{Arc, atomic::AtomicI64},
};

/// See `Store` for what it promises. Dropping it finishes what was begun and waits for that.
pub struct SqliteStore {
    pub(super) partitions: u16,
    pub(super) migrated: Vec<&'static str>,
    pub(super) runs: Runs,
    pub(super) archive: Option<Arc<ArchiveStorage>>,
    /// The template of a store in memory.
    pub(super) template: Option<TemplateFile>,
    /// Up to where retention has stopped every success, on the engine's clock, milliseconds.
    pub(super) stopped_to: AtomicI64,
}

pub(super) enum Runs {
    Inline(Box<Mutex<Session>>),
    OnThreads(Threads),
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let activity = self.activity();
        f.debug_struct("SqliteStore")
            .field("partitions", &self.partitions)
            .field("activity", &activity)
            .finish_non_exhaustive()
    }
}

impl SqliteStore {
    #[must_use]
    pub fn activity(&self) -> Activity {
        match &self.runs {
            Runs::Inline(_) => Activity::default(),
            Runs::OnThreads(threads) => threads.activity(),
        }
    }
}
