//! Opens the journal of an engine. Several engines on one machine may have one directory: each takes a file that no other has, and
//! what engines have left that are gone. An engine that is the only one of its store waits for the file of the one before it, which may
//! not have let go of it yet: what that one has handed over would not be known here, and would be handed over again.

use super::{
    directory::{free_files, new_file, taken_file},
    file::{FileJournal, Of},
    frame::Owner,
};
use std::{
    fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    thread::park_timeout,
    time::Duration,
};

/// Looks whether the engine before this one has let go of its file: ten seconds.
const LOOKS_MAX: usize = 2_000;
/// Between two of them.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Where a journal is, and how large it may become.
#[derive(Clone, Debug)]
pub struct JournalOptions {
    /// Made if it is not there.
    pub directory: PathBuf,
    /// Of what waits. The file may have twice as many.
    pub bytes_max: u64,
    pub owner: Owner,
    /// No other engine works on the store: a process that has one of its files is about to end.
    pub is_alone: bool,
}

/// What the journal has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalFindings {
    /// Acknowledged before, and not known to be applied.
    pub records: usize,
    /// At the end of the file, which a crash has left in the middle of a write that was not acknowledged.
    pub torn_bytes: u64,
    /// In the middle of files, or in a file of an earlier form: what stood there is lost. The file is kept aside.
    pub damaged_bytes: u64,
    /// Of them, those of engines that are gone.
    pub taken_over: usize,
}

impl FileJournal {
    /// Waits for the disk, and where the engine is alone for the one before it.
    ///
    /// # Errors
    /// The directory cannot be written, or another engine has the file of one that is to be alone.
    pub fn open(options: &JournalOptions) -> io::Result<(Self, JournalFindings)> {
        let JournalOptions { directory, bytes_max, owner, is_alone } = options.clone();
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        if is_alone {
            wait_for_the_last(&directory, owner)?;
        }
        let own = match free_files(&directory, owner)?.into_iter().next() {
            Some(own) => own,
            None => new_file(&directory, owner)?,
        };
        let (records, torn_bytes, damaged_bytes) = (own.frames.len(), own.torn_bytes, own.damaged_bytes);
        let of = Of { owner, bytes_max, directory: Some(directory) };
        let journal = Self::new(Box::new(own.file), own.good_len, own.frames, of);
        let taken_over = journal.take_over_now()?;
        Ok((
            journal,
            JournalFindings { records: records + taken_over, torn_bytes, damaged_bytes, taken_over },
        ))
    }
}

fn wait_for_the_last(directory: &Path, owner: Owner) -> io::Result<()> {
    for _ in 0..LOOKS_MAX {
        if taken_file(directory, owner)?.is_none() {
            return Ok(());
        }
        park_timeout(LOOK_AGAIN);
    }
    let taken = taken_file(directory, owner)?.map(|path| {
        let path = path.display();
        io::Error::other(format!("another process has {path}; end it, and start this engine again"))
    });
    taken.map_or(Ok(()), Err)
}
