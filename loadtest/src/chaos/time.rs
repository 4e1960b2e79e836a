//! The wall clock of one engine, wrong by what is in a file (libfaketime, preloaded). Monotonic time stays true, as
//! it does when an operator or NTP sets a clock.

use anyhow::Context as _;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(crate) struct ChaosWallClock {
    file: PathBuf,
    library: PathBuf,
}

impl ChaosWallClock {
    pub(crate) fn new(file: PathBuf) -> anyhow::Result<Self> {
        let library = library().context(
            "libfaketime is missing: apt-get install libfaketime (scripts/install-servers does it), or leave out the fault `clock`",
        )?;
        let clock = Self { file, library };
        clock.set(0)?;
        Ok(clock)
    }

    /// Sets the clock from its next read on.
    pub(crate) fn set(&self, by_ms: i64) -> anyhow::Result<()> {
        let sign = if by_ms < 0 { '-' } else { '+' };
        let (seconds, ms) = (by_ms.abs() / 1_000, by_ms.abs() % 1_000);
        let next = self.file.with_extension("next");
        std::fs::write(&next, format!("{sign}{seconds}.{ms:03}\n")).context("the clock's file")?;
        // Never read half-written.
        std::fs::rename(&next, &self.file).context("the clock's file")
    }

    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("LD_PRELOAD", self.library.display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.display().to_string()),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("NO_FAKE_STAT", "1".to_owned()),
        ]
    }
}

/// Debian has a directory for each architecture.
fn library() -> Option<PathBuf> {
    let name = Path::new("faketime/libfaketimeMT.so.1");
    let below = std::fs::read_dir("/usr/lib").ok()?.filter_map(|entry| Some(entry.ok()?.path().join(name)));
    let others = ["/usr/lib", "/usr/local/lib"].map(|word| Path::new(word).join(name));
    below.chain(others).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_written_in_seconds() {
        let directory = tempfile::tempdir().unwrap();
        let clock = ChaosWallClock::new(directory.path().join("clock")).unwrap();
        let read = || std::fs::read_to_string(directory.path().join("clock")).unwrap();
        assert_eq!(read(), "+0.000\n");
        for (by_ms, text) in [(-300, "-0.300\n"), (14_400_000, "+14400.000\n"), (-2_050, "-2.050\n")] {
            clock.set(by_ms).unwrap();
            assert_eq!(read(), text);
        }
    }
}
