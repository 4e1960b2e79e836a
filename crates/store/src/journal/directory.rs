//! The files of one directory, one an engine: which are whose, and what stands in them. Must not touch a file that is another store's,
//! that another engine has, or that is no journal.

use super::{
    frame::{self, FRAME_HEAD_LEN, HEADER_LEN, Header, Owner},
    index::Frame,
    medium::{LockedFile, Medium},
};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// More files than engines on one machine.
const FILES_MAX: u32 = 1_000;

/// A file that is this engine's, and what is in it.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: LockedFile,
    pub(super) frames: Vec<Frame>,
    pub(super) good_len: u64,
    pub(super) torn_bytes: u64,
}

fn path_of(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("outcomes-{number}.journal"))
}

/// The files of this store that no engine has, in the order of their numbers.
pub(super) fn free_files(directory: &Path, owner: Owner) -> io::Result<Vec<Opened>> {
    let number = |name: &str| name.strip_prefix("outcomes-")?.strip_suffix(".journal")?.parse::<u32>().ok();
    let mut numbers = Vec::new();
    for entry in fs::read_dir(directory)? {
        numbers.extend(entry?.file_name().to_str().and_then(number));
    }
    numbers.sort_unstable();
    let mut free = Vec::new();
    for path in numbers.into_iter().map(|number| path_of(directory, number)) {
        if let Some(file) = LockedFile::take(&path)? {
            free.extend(opened(file, &path, owner)?);
        }
    }
    Ok(free)
}

pub(super) fn new_file(directory: &Path, owner: Owner) -> io::Result<Opened> {
    for number in 0..FILES_MAX {
        let path = path_of(directory, number);
        if path.exists() {
            continue;
        }
        // Another engine may make it at this moment.
        let Some(file) = LockedFile::take(&path)? else { continue };
        if let Some(opened) = opened(file, &path, owner)? {
            opened.file.sync_name()?;
            return Ok(opened);
        }
    }
    Err(io::Error::other(format!(
        "{} has {FILES_MAX} files of journals; remove those that are not needed",
        directory.display()
    )))
}

/// None: it is not this store's.
fn opened(mut file: LockedFile, path: &Path, owner: Owner) -> io::Result<Option<Opened>> {
    match frame::read_header(&file.read(0, HEADER_LEN)?) {
        Header::Of(its) if its == owner => {}
        Header::Of(_) => {
            tracing::warn!(path = %path.display(), "this journal is of another store, and was left as it is");
            return Ok(None);
        }
        Header::Foreign => {
            tracing::error!(path = %path.display(), "this file is no journal, or a damaged one, and was left as it is");
            return Ok(None);
        }
        Header::Unmade => {
            file.cut(0)?;
            file.append(&frame::header(owner))?;
            file.sync()?;
        }
    }
    file.remove_leftovers()?;
    let (frames, good_len) = scan(&file)?;
    let torn_bytes = file.len()?.saturating_sub(good_len);
    if torn_bytes > 0 {
        tracing::warn!(
            path = %path.display(), bytes = torn_bytes, kept = frames.len(),
            "the end of the journal is not whole, as after a crash in the middle of a write, and was cut off"
        );
        file.cut(good_len)?;
    }
    Ok(Some(Opened { file, frames, good_len, torn_bytes }))
}

/// The frames, and where the first thing begins that is none.
fn scan(medium: &dyn Medium) -> io::Result<(Vec<Frame>, u64)> {
    let (mut frames, mut at) = (Vec::new(), len_of(HEADER_LEN));
    let len = medium.len()?;
    while at < len {
        let head = medium.read(at, FRAME_HEAD_LEN)?;
        let Some(frame_len) = frame::len_said(&head) else { break };
        let bytes = medium.read(at, frame_len)?;
        let Some((head, _)) = frame::read(&bytes) else { break };
        frames.push(Frame { at, head });
        at += len_of(frame_len);
    }
    Ok((frames, at.min(len)))
}

fn len_of(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}
