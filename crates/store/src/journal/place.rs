//! Opens the journal of an engine. Several engines on one machine may have one directory: each opens a file that no
//! other has, and adopts the files of ended engines. An engine that is the only one of its store waits for the file
//! of its predecessor, which may not have released it yet: otherwise this engine would not know what the predecessor
//! has handed over, and would hand it over again.

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

/// The maximum number of checks if the preceding engine has released its file: ten seconds.
const LOOKS_MAX: usize = 2_000;
/// The pause between two checks.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The location of a journal, and its maximum size.
#[derive(Clone, Debug)]
pub struct JournalOptions {
    /// Made if it is not there.
    pub directory: PathBuf,
    /// The maximum size of the waiting records. The file may have twice as many bytes.
    pub bytes_max: u64,
    pub owner: Owner,
    /// True if no other engine works on the store: a process that has one of its files is about to end.
    pub is_alone: bool,
}

/// The findings of the journal when it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalFindings {
    /// Acknowledged before, and not known to be applied.
    pub records: usize,
    /// The number of bytes at the end of the file that a crash has left in the middle of a write that was not
    /// acknowledged.
    pub torn_bytes: u64,
    /// Bytes in the middle of files, or in a file of an earlier form, whose content is lost. A copy of the file is
    /// kept.
    pub damaged_bytes: u64,
    /// Of the records, the number of those of ended engines.
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
