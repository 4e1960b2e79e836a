//! Writes archives: the data first, then its index. An archive exists when its index does, and never changes again,
//! so a reader that finds one finds a complete one. Several writers of the same tasks write archives of different
//! names; a reader uses each task once. An interrupted write leaves data that no index names, and nothing finds it.

use super::{
    ArchiveStorage, Error,
    objects::{Objects, Upload},
    part::{About, ArchivePart},
};
use object_store::path::Path;
use punctual_domain::{task::Task, time::Millis};
use std::{
    future::Future,
    hash::{BuildHasher as _, RandomState},
};

pub(super) const DATA: &str = ".tasks.zst";
pub(super) const INDEX: &str = ".index";

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// The source of tasks to archive.
pub trait ArchiveSource: Send {
    /// The next ones, some hundreds or thousands. Empty: that was all.
    fn next(&mut self) -> impl Future<Output = Result<Vec<Task>, Failed>> + Send;

    /// All that were answered so far are in archives that are durable and can be found: the next run after a crash
    /// may continue behind them.
    fn is_archived(&mut self) -> impl Future<Output = Result<(), Failed>> + Send;
}

/// The numbers of written tasks and archives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub tasks: u64,
    pub archives: u64,
    /// Data and indexes.
    pub bytes: u64,
}

impl ArchiveStorage {
    /// Archives everything that a source has. On `Ok` all of it is durable, can be found, and was read back. After an
    /// error, what was confirmed to the source is archived, and the rest may be.
    ///
    /// # Errors
    /// When storage or source fail.
    pub async fn write_bucket(
        &self,
        shard: u16,
        now: Millis,
        source: &mut impl ArchiveSource,
    ) -> Result<Written, Error> {
        let mut written = Written::default();
        let mut open: Option<Archive> = None;
        loop {
            let tasks = match source.next().await {
                Ok(tasks) => tasks,
                Err(error) => {
                    abort(open).await;
                    return Err(Error::Source(error));
                }
            };
            let Some(first) = tasks.first() else { break };
            let mut archive = match open.take() {
                Some(archive) => archive,
                None => {
                    Archive::begin(self.objects(), About { shard, exported_at: now }, first.due_at).await?
                }
            };
            if let Err(error) = archive.add(tasks).await {
                abort(Some(archive)).await;
                return Err(error);
            }
            if archive.tasks < self.options().tasks_per_archive {
                open = Some(archive);
            } else {
                written.add(self.publish(archive, source).await?);
            }
        }
        if let Some(archive) = open {
            written.add(self.publish(archive, source).await?);
        }
        Ok(written)
    }

    /// Checks that the archives of a database can be written now: an object of their place is written, read and
    /// removed.
    ///
    /// # Errors
    /// When one of it fails.
    pub async fn try_place(&self, shard: u16, now: Millis) -> Result<(), Error> {
        let object =
            Path::from(format!("shard-{shard:04}/trial-{:016x}", RandomState::new().hash_one(now.0)));
        self.objects().probe(&object, now.0.to_string().as_bytes()).await
    }

    async fn publish(&self, archive: Archive, source: &mut impl ArchiveSource) -> Result<Written, Error> {
        let (index, written) = archive.publish(self.objects()).await?;
        self.check_whole(&index, written.tasks).await?;
        source.is_archived().await.map_err(Error::Source)?;
        Ok(written)
    }
}

async fn abort(archive: Option<Archive>) {
    if let Some(archive) = archive {
        archive.upload.abort().await;
    }
}

impl Written {
    fn add(&mut self, other: Self) {
        self.tasks += other.tasks;
        self.archives += other.archives;
        self.bytes += other.bytes;
    }
}

/// One that is being written.
struct Archive {
    part: Option<Box<ArchivePart>>,
    tasks: u64,
    upload: Upload,
    /// Both names without their endings.
    stem: String,
    bytes: u64,
}

impl Archive {
    async fn begin(objects: &Objects, about: About, first_due_at: Millis) -> Result<Self, Error> {
        let stem = stem(about.shard, first_due_at);
        let upload = objects.upload(Path::from(format!("{stem}{DATA}"))).await?;
        Ok(Self { part: Some(Box::new(ArchivePart::new(about))), tasks: 0, upload, stem, bytes: 0 })
    }

    async fn add(&mut self, tasks: Vec<Task>) -> Result<(), Error> {
        let bytes = self.build(move |part| part.add(&tasks)).await?;
        self.write(bytes).await
    }

    /// Compressing takes milliseconds: not on a thread that others wait for.
    async fn build(
        &mut self,
        work: impl FnOnce(&mut ArchivePart) -> Result<Vec<u8>, Error> + Send + 'static,
    ) -> Result<Vec<u8>, Error> {
        let broken_off = || Error::BrokenOff("an archive whose writing failed goes no further".to_owned());
        let mut part = self.part.take().ok_or_else(broken_off)?;
        let (part, bytes) = aside(move || {
            let bytes = work(&mut part);
            (part, bytes)
        })
        .await?;
        self.tasks = part.tasks();
        self.part = Some(part);
        bytes
    }

    async fn write(&mut self, bytes: Vec<u8>) -> Result<(), Error> {
        self.bytes += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.upload.write(bytes).await
    }

    async fn publish(mut self, objects: &Objects) -> Result<(Path, Written), Error> {
        let bytes = self.build(ArchivePart::end).await?;
        self.write(bytes).await?;
        self.upload.finish().await?;
        let broken_off = || Error::BrokenOff("an archive has ended twice".to_owned());
        let part = self.part.take().ok_or_else(broken_off)?;
        let (_, data) = self.stem.rsplit_once('/').unwrap_or(("", &self.stem));
        let data = format!("{data}{DATA}");
        let index = aside(move || part.index(data)).await?;
        let bytes = self.bytes + u64::try_from(index.len()).unwrap_or(u64::MAX);
        let object = Path::from(format!("{}{INDEX}", self.stem));
        objects.create(&object, index).await?;
        Ok((object, Written { tasks: self.tasks, archives: 1, bytes }))
    }
}

pub(super) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Error::BrokenOff(error.to_string()))
}

/// `shard-0003/2026-11-14/<first due, ms>-<random>`: by the day, for people and for rules that delete what is old. The
/// random part makes it another name than that of any other writer.
fn stem(shard: u16, first_due_at: Millis) -> String {
    let day = jiff::Timestamp::from_millisecond(first_due_at.0).unwrap_or_default().strftime("%Y-%m-%d");
    let random = RandomState::new().hash_one(first_due_at.0);
    format!("shard-{shard:04}/{day}/{}-{random:016x}", first_due_at.0)
}
