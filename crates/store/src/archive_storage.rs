//! Archives of finished tasks, outside the database: a directory or an object store. Archived tasks can be read by
//! reference or by the caller's id, completely, as long as the archives exist; docs/archive.md describes how people
//! read them without this program. Must never answer "no such task" for an archive that it cannot read, and never
//! change or remove one.
//!
//! An archive is two objects: `….tasks.zst`, lines of JSON in compressed blocks, and `….index`, made of pages, of which
//! a search reads a few. Which archives there are is read once, and again by `refresh`.

mod block;
mod error;
mod format;
mod lookup;
pub(crate) mod objects;
mod pages;
mod part;
pub(crate) mod place;
mod record;
mod write;

use format::ArchiveLookup;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use hashbrown::HashMap;
use lookup::{Archived, Reading};
use object_store::path::Path;
use objects::Objects;
use pages::Pages;
use parking_lot::RwLock;
use punctual_domain::{
    name::Name,
    place::{Partition, TaskRef},
    task::Task,
    time::Millis,
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{
            AtomicU32, AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
};

pub use error::Error;
pub use write::{ArchiveSource, Written};

/// Archives that are asked at the same time: object stores answer late, and many at once.
const AT_ONCE: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchiveStorageOptions {
    /// Memory for pages of indexes.
    pub cache_bytes: usize,
    /// An archive ends after this many tasks, and another begins: writing one holds 32 bytes a task in memory.
    pub tasks_per_archive: u64,
}

impl Default for ArchiveStorageOptions {
    fn default() -> Self {
        Self { cache_bytes: 64 * 1_048_576, tasks_per_archive: 1_000_000 }
    }
}

/// See the module.
#[derive(Debug)]
pub struct ArchiveStorage {
    objects: Objects,
    pages: Pages,
    options: ArchiveStorageOptions,
    known: RwLock<Arc<Known>>,
    /// Listings that were begun. One at a time; inside, the number of the last that succeeded.
    listings: AtomicU64,
    listing: tokio::sync::Mutex<u64>,
    next_number: AtomicU32,
}

/// The archives there are.
#[derive(Debug, Default)]
struct Known {
    archives: Vec<Arc<Archived>>,
    /// Archives that this program cannot read: their tasks cannot be reported as missing.
    unreadable: Vec<Path>,
}

/// An archive, as an operator sees it. Ranges are inclusive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveInfo {
    /// Name of its index.
    pub index: String,
    pub data: String,
    pub writer: String,
    pub shard: u16,
    pub tasks: u64,
    pub data_bytes: u64,
    pub partitions: (u16, u16),
    pub due_at: (Millis, Millis),
    pub exported_at: Millis,
}

impl ArchiveStorage {
    /// `file:///path`, or `s3://bucket/prefix` where that was built in. Archives that cannot be read are no error
    /// here, but of every search that they could have answered.
    ///
    /// # Errors
    /// When the place cannot be used or not be listed.
    pub async fn open(url: &str, options: ArchiveStorageOptions) -> Result<Self, Error> {
        Self::over(Objects::open(url)?, options).await
    }

    /// The same; `variables`, such as `AWS_ENDPOINT`, stand in place of the environment's.
    ///
    /// # Errors
    /// Fails like `open`.
    pub async fn open_with(
        url: &str,
        variables: &[(&str, &str)],
        options: ArchiveStorageOptions,
    ) -> Result<Self, Error> {
        Self::over(Objects::open_with(url, variables)?, options).await
    }

    async fn over(objects: Objects, options: ArchiveStorageOptions) -> Result<Self, Error> {
        let storage = Self {
            objects,
            pages: Pages::new(options.cache_bytes),
            options: ArchiveStorageOptions { tasks_per_archive: options.tasks_per_archive.max(1), ..options },
            known: RwLock::default(),
            listings: AtomicU64::new(0),
            listing: tokio::sync::Mutex::default(),
            next_number: AtomicU32::new(0),
        };
        storage.refresh().await?;
        Ok(storage)
    }

    /// Lists the archives that exist now. Everything that was published before the call is found after it.
    ///
    /// # Errors
    /// When the storage cannot be listed.
    pub async fn refresh(&self) -> Result<(), Error> {
        let begun = self.listings.load(SeqCst);
        let mut last = self.listing.lock().await;
        if *last > begun {
            // One that others began after this call.
            return Ok(());
        }
        let number = self.listings.fetch_add(1, SeqCst) + 1;
        let names = self.objects.list(write::INDEX).await?;
        let old = Arc::clone(&*self.known.read());
        let old: HashMap<&Path, &Arc<Archived>> =
            old.archives.iter().map(|archive| (archive.index(), archive)).collect();
        let opened = |name: Path| {
            let known = old.get(&name).map(|archived| Arc::clone(archived));
            self.opened(name, known)
        };
        let opening: Vec<_> = names.into_iter().map(opened).collect();
        let mut found = Known::default();
        let mut opened = stream::iter(opening).buffered(AT_ONCE);
        while let Some(one) = opened.next().await {
            match one? {
                Opened::Readable(readable) => found.archives.push(readable),
                Opened::Unreadable(name) => found.unreadable.push(name),
                Opened::Gone => {}
            }
        }
        drop(opened);
        *self.known.write() = Arc::new(found);
        *last = number;
        Ok(())
    }

    async fn opened(&self, name: Path, known: Option<Arc<Archived>>) -> Result<Opened, Error> {
        if let Some(known) = known {
            return Ok(Opened::Readable(known));
        }
        let number = self.next_number.fetch_add(1, Relaxed);
        match Archived::open(&self.objects, name.clone(), number).await {
            Ok(Some(archived)) => Ok(Opened::Readable(Arc::new(archived))),
            Ok(None) => Ok(Opened::Gone),
            // Not this archive's fault, so none would be better off.
            Err(error @ Error::Objects { .. }) => Err(error),
            Err(error) => {
                tracing::error!(%error, "an archive cannot be read; searches that find nothing elsewhere will fail");
                Ok(Opened::Unreadable(name))
            }
        }
    }

    /// The archives that are known, in the order of their names.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub async fn list(&self) -> Result<Vec<ArchiveInfo>, Error> {
        let known = Arc::clone(&*self.known.read());
        self.all_readable(&known).await?;
        Ok(known.archives.iter().map(|archive| ArchiveInfo::of(archive)).collect())
    }

    /// Reads the task that was issued under a reference.
    ///
    /// # Errors
    /// When an archive that may have it cannot be read.
    pub async fn read(&self, place: TaskRef) -> Result<Option<Task>, Error> {
        let TaskRef { partition, due_at, id } = place;
        let wanted = ArchiveLookup::Id { id, partition, place_due_at: due_at.0 };
        let is_it = |task: &Task| task.place == place;
        Ok(latest(self.search(&wanted).await?.into_iter().filter(is_it)).into_values().next())
    }

    /// Reads all tasks of a caller's id, the highest version first, and the newest copy of one version before the
    /// others; at most `limit`. `partition` is the one that the id belongs to, if that is known: the others need not
    /// be searched.
    ///
    /// # Errors
    /// When an archive that may have one cannot be read.
    pub async fn find(
        &self,
        partition: Option<Partition>,
        namespace: &Name,
        task_id: i64,
        limit: usize,
    ) -> Result<Vec<Task>, Error> {
        let wanted = ArchiveLookup::TaskId { partition, namespace: namespace.clone(), task_id };
        let mut found: Vec<Task> = latest(self.search(&wanted).await?.into_iter()).into_values().collect();
        found.sort_unstable_by_key(|task| std::cmp::Reverse((task.ask.task_version, task.place.id)));
        found.truncate(limit);
        Ok(found)
    }

    /// Reads an archive from beginning to end and compares it with its checksums: how many tasks it has.
    ///
    /// # Errors
    /// Fails if the archive is incomplete.
    pub async fn verify(&self, index: &str) -> Result<u64, Error> {
        let index = Path::from(index);
        let number = self.next_number.fetch_add(1, Relaxed);
        let missing = || Error::damaged(index.as_ref(), "there is no such archive");
        let opened = Archived::open(&self.objects, index.clone(), number).await?.ok_or_else(missing)?;
        let tasks = opened.count(self.reading()).await?;
        if tasks == opened.header.tasks {
            return Ok(tasks);
        }
        let problem = format!("it has {tasks} tasks, and should have {}", opened.header.tasks);
        Err(Error::damaged(opened.data().as_ref(), problem))
    }

    /// Pages of indexes that were read from storage so far: what searches cost.
    #[must_use]
    pub fn pages_read(&self) -> u64 {
        self.pages.read()
    }

    async fn check_whole(&self, index: &Path, tasks: u64) -> Result<(), Error> {
        let found = self.verify(index.as_ref()).await?;
        if found == tasks {
            return Ok(());
        }
        Err(Error::damaged(index.as_ref(), format!("it has {found} tasks, and {tasks} were written")))
    }

    fn objects(&self) -> &Objects {
        &self.objects
    }

    fn options(&self) -> ArchiveStorageOptions {
        self.options
    }

    fn reading(&self) -> Reading<'_> {
        Reading { objects: &self.objects, pages: &self.pages }
    }

    /// All copies, of all archives.
    async fn search(&self, wanted: &ArchiveLookup) -> Result<Vec<Task>, Error> {
        let mut known = Arc::clone(&*self.known.read());
        let mut found = self.search_in(&known, wanted).await?;
        if found.is_empty() && !known.unreadable.is_empty() {
            self.refresh().await?;
            known = Arc::clone(&*self.known.read());
            found = self.search_in(&known, wanted).await?;
            if found.is_empty() {
                self.all_readable(&known).await?;
            }
        }
        Ok(found)
    }

    async fn search_in(&self, known: &Known, wanted: &ArchiveLookup) -> Result<Vec<Task>, Error> {
        let reading = self.reading();
        let archives = known.archives.iter().filter(|archive| wanted.may_be_in(&archive.header));
        let searches: Vec<_> = archives.map(|archive| archive.search(reading, wanted)).collect();
        let found: Vec<Vec<Task>> = stream::iter(searches).buffer_unordered(AT_ONCE).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Says what is wrong with the first that was not.
    async fn all_readable(&self, known: &Known) -> Result<(), Error> {
        let Some(name) = known.unreadable.first() else { return Ok(()) };
        Archived::open(&self.objects, name.clone(), 0).await?;
        Err(Error::BrokenOff(format!("{name} could not be read a moment ago; ask again")))
    }
}

enum Opened {
    Readable(Arc<Archived>),
    Unreadable(Path),
    Gone,
}

/// The newest copy of each task, by id. If a task was archived more than once (a crash, two writers, a life after the
/// first archive), the copy with the highest fence and the latest change counts.
fn latest(copies: impl Iterator<Item = Task>) -> BTreeMap<i64, Task> {
    let mut latest = BTreeMap::<i64, Task>::new();
    for copy in copies {
        let age = |task: &Task| (task.fence, task.updated_at);
        if latest.get(&copy.place.id).is_none_or(|task| age(task) < age(&copy)) {
            latest.insert(copy.place.id, copy);
        }
    }
    latest
}

impl ArchiveInfo {
    fn of(archived: &Archived) -> Self {
        let header = &archived.header;
        Self {
            index: archived.index().to_string(),
            data: archived.data().to_string(),
            writer: header.writer.clone(),
            shard: header.shard,
            tasks: header.tasks,
            data_bytes: header.data_bytes,
            partitions: header.partitions,
            due_at: (Millis(header.due_at.0), Millis(header.due_at.1)),
            exported_at: Millis(header.exported_at),
        }
    }
}
