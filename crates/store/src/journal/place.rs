//! Opens the journal of an engine. Several engines on one machine may have one directory: each takes a file that no other has, and
//! what engines have left that are gone.

use super::{
    directory::{free_files, new_file},
    file::{FileJournal, Of},
    frame::Owner,
};
use std::{fs, io, os::unix::fs::DirBuilderExt as _, path::PathBuf};

/// Where a journal is, and how large it may become.
#[derive(Clone, Debug)]
pub struct JournalOptions {
    /// Made if it is not there.
    pub directory: PathBuf,
    /// Of what waits. The file may have twice as many.
    pub bytes_max: u64,
    pub owner: Owner,
}

/// What the journal has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
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
    /// # Errors
    /// The directory cannot be written.
    pub fn open(options: &JournalOptions) -> io::Result<(Self, Found)> {
        let JournalOptions { directory, bytes_max, owner } = options.clone();
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let own = match free_files(&directory, owner)?.into_iter().next() {
            Some(own) => own,
            None => new_file(&directory, owner)?,
        };
        let (records, torn_bytes, damaged_bytes) = (own.frames.len(), own.torn_bytes, own.damaged_bytes);
        let of = Of { owner, bytes_max, directory: Some(directory) };
        let journal = Self::new(Box::new(own.file), own.good_len, own.frames, of);
        let taken_over = journal.take_over_now()?;
        Ok((journal, Found { records: records + taken_over, torn_bytes, damaged_bytes, taken_over }))
    }
}
