//! The medium of a journal's bytes: a file that no other process has. Independent of frames. Must not report anything
//! as durable before the system has done so.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write as _},
    os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

/// The maximum number of damaged files that are kept of one journal; a newer one replaces the last.
const ASIDE_MAX: u32 = 9;

/// A row of bytes that grows at its end.
pub(super) trait Medium: Send + std::fmt::Debug {
    /// Written, and not yet durable. After an error any part of it may be there.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    fn sync(&mut self) -> io::Result<()>;

    /// Only so many bytes stay, durably.
    fn cut(&mut self, len: u64) -> io::Result<()>;

    fn len(&self) -> io::Result<u64>;

    /// Reads bytes. A shorter result is the end of the file.
    fn read(&self, at: u64, len: usize) -> io::Result<Vec<u8>>;

    /// These bytes in place of all, and behind them those of the ranges: durably, and all or nothing.
    fn rewrite(&mut self, begin: &[u8], ranges: &[(u64, usize)]) -> io::Result<()>;
}

/// A file with a lock on it, which ends with its process.
#[derive(Debug)]
pub(super) struct LockedFile {
    path: PathBuf,
    file: File,
}

impl LockedFile {
    /// Opens it, and makes it if it is not there. `None` if another process has it.
    pub(super) fn take(path: &Path) -> io::Result<Option<Self>> {
        let file = options().create(true).open(path)?;
        match file.try_lock() {
            // Its engine may have put another file in its place since it was opened.
            Ok(()) if fs::metadata(path)?.ino() != file.metadata()?.ino() => Ok(None),
            Ok(()) => Ok(Some(Self { path: path.to_owned(), file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Removes the file that a crash in the middle of `rewrite` has left.
    pub(super) fn remove_leftovers(&self) -> io::Result<()> {
        match fs::remove_file(self.leftover()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Keeps the bytes of the file under another name before it is rewritten. Returns that name.
    pub(super) fn keep_aside(&self) -> io::Result<PathBuf> {
        let own = self.file.metadata()?.ino();
        for number in 1..=ASIDE_MAX {
            let aside = self.path.with_extension(format!("damaged-{number}"));
            match fs::metadata(&aside) {
                // A crash before it was rewritten.
                Ok(kept) if kept.ino() == own => return Ok(aside),
                Ok(_) if number < ASIDE_MAX => {}
                found => {
                    if found.is_ok() {
                        fs::remove_file(&aside)?;
                    }
                    if fs::hard_link(&self.path, &aside).is_err() {
                        fs::copy(&self.path, &aside)?;
                        File::open(&aside)?.sync_all()?;
                    }
                    self.sync_name()?;
                    return Ok(aside);
                }
            }
        }
        Err(io::Error::other("there is no name for it"))
    }

    fn leftover(&self) -> PathBuf {
        self.path.with_extension("rewritten")
    }

    pub(super) fn sync_name(&self) -> io::Result<()> {
        let directory = self.path.parent().filter(|path| !path.as_os_str().is_empty());
        File::open(directory.unwrap_or_else(|| Path::new(".")))?.sync_all()
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

impl Medium for LockedFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let end = Medium::len(self)?;
        self.file.write_all_at(bytes, end)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)?;
        self.file.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, at: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let begin = at + u64::try_from(filled).unwrap_or(u64::MAX);
            match self.file.read_at(rest, begin) {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }

    fn rewrite(&mut self, begin: &[u8], ranges: &[(u64, usize)]) -> io::Result<()> {
        self.remove_leftovers()?;
        let written = options().create_new(true).open(self.leftover());
        let written = written.and_then(|mut file| {
            // Before it has the name by which others look for it.
            file.lock()?;
            file.write_all(begin)?;
            for (at, len) in ranges {
                file.write_all(&self.read(*at, *len)?)?;
            }
            file.sync_all()?;
            fs::rename(self.leftover(), &self.path)?;
            Ok(file)
        });
        let file = match written {
            Ok(file) => file,
            Err(error) => {
                drop(self.remove_leftovers());
                return Err(error);
            }
        };
        self.file = file;
        self.sync_name()
    }
}
