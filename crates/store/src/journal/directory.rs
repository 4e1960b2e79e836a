//! The files of one directory, one an engine: which are whose, and what is in them. Must not touch a file that is another store's,
//! that another engine has, or that is no journal.

use super::{
    frame::{self, HEADER_LEN, Header, Mark, Owner},
    index::Frame,
    medium::{LockedFile, Medium},
    scan::{Scanned, scan},
};
use std::{
    fs,
    io::{self, Read as _},
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
    /// The number of damaged bytes between complete frames, or after the last one of a file in which nothing can be
    /// found again.
    pub(super) damaged_bytes: u64,
}

fn path_of(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("outcomes-{number}.journal"))
}

/// The paths of the journals, in the order of their numbers.
fn paths(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let number = |name: &str| name.strip_prefix("outcomes-")?.strip_suffix(".journal")?.parse::<u32>().ok();
    let mut numbers = Vec::new();
    for entry in fs::read_dir(directory)? {
        numbers.extend(entry?.file_name().to_str().and_then(number));
    }
    numbers.sort_unstable();
    Ok(numbers.into_iter().map(|number| path_of(directory, number)).collect())
}

/// A file of this store that an engine has.
pub(super) fn taken_file(directory: &Path, owner: Owner) -> io::Result<Option<PathBuf>> {
    for path in paths(directory)? {
        if LockedFile::take(&path)?.is_some() {
            continue;
        }
        let mut header = Vec::with_capacity(HEADER_LEN);
        fs::File::open(&path)?.take(len_of(HEADER_LEN)).read_to_end(&mut header)?;
        if matches!(frame::read_header(&header), Header::Of(its) | Header::First(its) if its == owner) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// The files of this store that no engine has, in the order of their numbers.
pub(super) fn free_files(directory: &Path, owner: Owner) -> io::Result<Vec<Opened>> {
    let mut free = Vec::new();
    for path in paths(directory)? {
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

/// Returns `None` if the file belongs to another store.
fn opened(mut file: LockedFile, path: &Path, owner: Owner) -> io::Result<Option<Opened>> {
    let marked = frame::mark_of(owner);
    let mark = match frame::read_header(&file.read(0, HEADER_LEN)?) {
        Header::Of(its) if its == owner => Mark(&marked),
        Header::First(its) if its == owner => Mark(&[]),
        Header::Of(_) | Header::First(_) => {
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
            Mark(&marked)
        }
    };
    file.remove_leftovers()?;
    let is_first_form = mark != Mark(&marked);
    let scanned = scan(&file, mark, len_of(HEADER_LEN))?;
    let Scanned { mut frames, mut good_len, torn_bytes, damaged_bytes } = scanned;
    // Nothing says of the first form whether its end is torn or damaged.
    let damaged_bytes = damaged_bytes + if is_first_form { torn_bytes } else { 0 };
    let is_kept_aside = damaged_bytes > 0 && keeps_aside(&file, path, damaged_bytes, frames.len());
    if is_first_form || is_kept_aside {
        (frames, good_len) = write_anew(&mut file, owner, mark, &frames)?;
    } else if torn_bytes > 0 {
        tracing::warn!(
            path = %path.display(), bytes = torn_bytes, kept = frames.len(),
            "the end of the journal is not whole, as after a crash in the middle of a write, and was cut off"
        );
        file.cut(good_len)?;
    }
    Ok(Some(Opened { file, frames, good_len, torn_bytes, damaged_bytes }))
}

/// Keeps a copy of the damaged file. Returns false if that failed. Then the file is not rewritten: the damage stays
/// in it, and is skipped.
fn keeps_aside(file: &LockedFile, path: &Path, bytes: u64, kept: usize) -> bool {
    let aside = file.keep_aside();
    let said = aside.as_ref().map_or_else(ToString::to_string, |aside| aside.display().to_string());
    tracing::error!(
        path = %path.display(), bytes, kept, aside = said,
        "the journal is damaged: what stood in these bytes is lost, and its tasks run again; what is whole is kept"
    );
    aside.is_ok()
}

/// Rewrites the file with complete frames, with marks. The rewrite is atomic, so that a crash leaves the file as it
/// was.
fn write_anew(
    file: &mut LockedFile,
    owner: Owner,
    mark: Mark<'_>,
    frames: &[Frame],
) -> io::Result<(Vec<Frame>, u64)> {
    let (mut bytes, mut moved, marked) = (frame::header(owner), Vec::new(), frame::mark_of(owner));
    for found in frames {
        let read = file.read(found.at, found.head.frame_len())?;
        let Some((head, body)) = frame::read(mark, &read) else { continue };
        let at = len_of(bytes.len());
        if let Some(head) = frame::write(&mut bytes, Mark(&marked), head.key, head.digest, body) {
            moved.push(Frame { at, head });
        }
    }
    file.rewrite(&bytes, &[])?;
    Ok((moved, len_of(bytes.len())))
}

fn len_of(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}
