//! A small disk in memory that can be filled and freed. It is removed with this process, however that ends: a shell
//! waits for the end of its standard input and unmounts it. Needs the right to mount.

use anyhow::Context as _;
use std::{
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
    process::Stdio,
};
use tokio::{
    io::AsyncBufReadExt as _,
    process::{Child, Command},
};

const SCRIPT: &str = r#"
mount -t tmpfs -o "size=$2m" chaos "$1" || exit 1
echo mounted
cat >/dev/null
umount -l "$1"
"#;

#[derive(Debug)]
pub(crate) struct Disk {
    at: PathBuf,
    /// Unmounts when its standard input closes.
    shell: Child,
}

impl Disk {
    /// Mounts the disk on this directory, which must exist.
    pub(crate) async fn mount(at: &Path, size_mib: u32) -> anyhow::Result<Self> {
        let mut shell = Command::new("sh");
        shell.args(["-c", SCRIPT, "disk"]).arg(at).arg(size_mib.to_string());
        // A group of its own: Ctrl-C ends this process, and the closed pipe the shell.
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut shell = shell.spawn().context("starting sh")?;
        let answers = shell.stdout.take().context("it was piped")?;
        let line = tokio::io::BufReader::new(answers).lines().next_line().await?;
        anyhow::ensure!(
            line.as_deref() == Some("mounted"),
            "no right to mount a small disk on {}",
            at.display()
        );
        Ok(Self { at: at.to_path_buf(), shell })
    }

    /// Fills the disk until nothing fits any more.
    pub(crate) fn fill(&self) -> anyhow::Result<()> {
        let mut ballast = File::create(self.ballast()).context("filling the disk")?;
        for size in [1 << 20, 1 << 12, 1] {
            let piece = vec![0; size];
            while ballast.write_all(&piece).is_ok() {}
        }
        Ok(())
    }

    pub(crate) fn free(&self) -> anyhow::Result<()> {
        // Emptied first: where it is still open (a child that was just forked has all that its parent has), removing it
        // frees nothing.
        let ballast = std::fs::OpenOptions::new().write(true).open(self.ballast());
        ballast.and_then(|file| file.set_len(0)).context("freeing the disk")?;
        std::fs::remove_file(self.ballast()).context("freeing the disk")
    }

    /// It is gone when this returns.
    pub(crate) async fn unmount(mut self) -> anyhow::Result<()> {
        drop(self.shell.stdin.take());
        self.shell.wait().await.context("unmounting")?;
        Ok(())
    }

    fn ballast(&self) -> PathBuf {
        self.at.join("ballast")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn a_full_disk_takes_nothing_until_it_is_freed() {
        use std::os::unix::fs::MetadataExt as _;
        let directory = tempfile::tempdir().unwrap();
        let mounted = Disk::mount(directory.path(), 1).await;
        if std::fs::metadata(directory.path()).unwrap().uid() != 0 {
            assert!(mounted.is_err(), "only root may mount");
            return;
        }
        let disk = mounted.expect("root may mount a tmpfs; in a container it needs CAP_SYS_ADMIN");
        let file = directory.path().join("file");
        disk.fill().unwrap();
        assert_eq!(std::fs::write(&file, "x").unwrap_err().kind(), std::io::ErrorKind::StorageFull);
        disk.free().unwrap();
        std::fs::write(&file, "x").unwrap();
        drop(disk);
        // The shell sees its pipe close, and unmounts.
        while file.exists() {
            tokio::task::yield_now().await;
        }
    }
}
