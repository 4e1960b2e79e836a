//! The journal over a medium that fails and loses what was not synced, and over files.

mod damaged;

use super::{
    file::{FileJournal, Of},
    frame::{self, HEADER_LEN, Mark},
    index::Frame,
    medium::Medium,
    place::{JournalFindings, JournalOptions},
};
use parking_lot::Mutex;
use punctual_contract::{
    Journal as _,
    journal::{AppendResult, AttemptKey, JournalError, NewRecord},
};
use std::{fs, io, path::Path, sync::Arc, time::Duration};
use tokio::time::timeout;

const OWNER: [u8; 16] = [7; 16];

/// Bytes of which only those that were synced outlive a crash, with room for so many.
#[derive(Debug, Default)]
struct Disk {
    bytes: Vec<u8>,
    synced: Vec<u8>,
    syncs: usize,
    room: Option<usize>,
    sync_fails: bool,
    cut_fails: bool,
    rewrites: usize,
}

#[derive(Clone, Debug, Default)]
struct Shaky {
    disk: Arc<Mutex<Disk>>,
    /// The journal under test: at each call of the disk its memory must be unlocked.
    watched: Arc<Mutex<Option<FileJournal>>>,
}

impl Shaky {
    fn journal(&self, bytes_max: u64) -> FileJournal {
        self.disk.lock().bytes = frame::header(OWNER);
        FileJournal::new(
            Box::new(self.clone()),
            HEADER_LEN as u64,
            Vec::new(),
            Of { owner: OWNER, bytes_max, directory: None },
        )
    }

    fn disk(&self) -> parking_lot::MutexGuard<'_, Disk> {
        assert!(self.watched.lock().as_ref().is_none_or(FileJournal::has_free_memory));
        self.disk.lock()
    }

    fn set(&self, change: impl FnOnce(&mut Disk)) {
        change(&mut self.disk.lock());
    }

    /// The keys of the frames that would be found.
    fn keys(&self) -> Vec<i64> {
        let disk = self.disk.lock();
        let (mut rest, mut keys) = (&disk.bytes[HEADER_LEN..], Vec::new());
        while let Some((head, _)) = frame::read(Mark(&frame::mark_of(OWNER)), rest) {
            keys.push(head.key.task);
            rest = &rest[head.frame_len()..];
        }
        assert!(rest.is_empty(), "torn");
        keys
    }
}

fn full() -> io::Error {
    io::Error::from(io::ErrorKind::StorageFull)
}

impl Medium for Shaky {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.disk();
        let room = disk.room.map_or(bytes.len(), |room| room.saturating_sub(disk.bytes.len()));
        disk.bytes.extend(&bytes[..room.min(bytes.len())]);
        if room < bytes.len() { Err(full()) } else { Ok(()) }
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut disk = self.disk();
        if disk.sync_fails {
            return Err(io::Error::other("a test asked for it"));
        }
        disk.syncs += 1;
        disk.synced = disk.bytes.clone();
        Ok(())
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        if self.disk().cut_fails {
            return Err(io::Error::other("a test asked for it"));
        }
        self.disk().bytes.truncate(usize::try_from(len).unwrap());
        self.sync()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk().bytes.len() as u64)
    }

    fn read(&self, at: u64, len: usize) -> io::Result<Vec<u8>> {
        let at = usize::try_from(at).unwrap();
        let disk = self.disk();
        Ok(disk.bytes[at.min(disk.bytes.len())..(at + len).min(disk.bytes.len())].to_vec())
    }

    fn rewrite(&mut self, begin: &[u8], ranges: &[(u64, usize)]) -> io::Result<()> {
        self.disk().rewrites += 1;
        let kept: Vec<Vec<u8>> = ranges.iter().map(|(at, len)| self.read(*at, *len).unwrap()).collect();
        self.disk().bytes = [begin.to_vec(), kept.concat()].concat();
        self.sync()
    }
}

fn record(task: i64) -> NewRecord {
    NewRecord { key: key(task), digest: 1, body: format!("outcome of {task}").into_bytes() }
}

fn key(task: i64) -> AttemptKey {
    AttemptKey { task, fence: 3 }
}

async fn waiting(journal: &FileJournal) -> Vec<(u64, i64)> {
    let records = journal.waiting(0, usize::MAX).await.unwrap();
    for record in &records {
        assert_eq!(record.body, format!("outcome of {}", record.key.task).into_bytes());
    }
    records.into_iter().map(|record| (record.number, record.key.task)).collect()
}

async fn keep(journal: &FileJournal, tasks: std::ops::Range<i64>) -> Result<Vec<AppendResult>, JournalError> {
    journal.keep(tasks.map(record).collect()).await
}

fn options(directory: &Path) -> JournalOptions {
    JournalOptions { directory: directory.to_owned(), bytes_max: 1 << 20, owner: OWNER, is_alone: false }
}

fn open(directory: &Path) -> (FileJournal, JournalFindings) {
    FileJournal::open(&options(directory)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_kept_is_found_by_the_next_start_in_its_order_until_it_is_done() {
    let directory = tempfile::tempdir().unwrap();
    let (journal, found) = open(directory.path());
    assert_eq!(found, JournalFindings::default());
    assert_eq!(keep(&journal, 0..3).await.unwrap(), [AppendResult::New; 3]);
    keep(&journal, 3..5).await.unwrap();
    assert_eq!(waiting(&journal).await.iter().map(|(_, task)| *task).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    drop(journal);
    let (journal, found) = open(directory.path());
    assert_eq!((found.records, found.torn_bytes), (5, 0));
    let kept = waiting(&journal).await;
    journal.done(kept[1..4].iter().map(|(number, _)| *number).collect()).await;
    assert_eq!(waiting(&journal).await.iter().map(|(_, task)| *task).collect::<Vec<_>>(), [0, 4]);
    assert_eq!((journal.digest_of(key(0)), journal.digest_of(key(1))), (Some(1), None));
    journal.done(vec![kept[0].0, kept[4].0]).await;
    assert_eq!(journal.size().records, 0);
    let file = directory.path().join("outcomes-0.journal");
    assert_eq!(fs::metadata(&file).unwrap().len(), HEADER_LEN as u64, "nothing waits: it is emptied");
    keep(&journal, 9..10).await.unwrap();
    drop(journal);
    assert_eq!(open(directory.path()).1.records, 1);
}

/// Often: a thread that is at work for a moment longer is not met each time.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_answered_has_left_nobody_at_work_who_keeps_the_file_from_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    for task in 0..200 {
        let (journal, found) = open(directory.path());
        assert_eq!(found.records, usize::try_from(task).unwrap());
        keep(&journal, task..task + 1).await.unwrap();
    }
    assert!(!directory.path().join("outcomes-1.journal").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_is_alone_waits_for_the_file_of_the_one_before_it_and_for_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let alone = JournalOptions { is_alone: true, ..options(directory.path()) };
    let another_stores = FileJournal::open(&JournalOptions { owner: [8; 16], ..alone.clone() }).unwrap();
    let (first, found) = FileJournal::open(&alone).unwrap();
    assert_eq!(found, JournalFindings::default());
    keep(&first, 0..2).await.unwrap();
    let mut next = tokio::task::spawn_blocking(move || FileJournal::open(&alone).unwrap());
    assert!(timeout(Duration::from_millis(50), &mut next).await.is_err(), "it waits");
    drop(first);
    let (next, found) = next.await.unwrap();
    assert_eq!((found.records, found.taken_over), (2, 0));
    assert_eq!(waiting(&next).await.len(), 2);
    drop(another_stores);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_torn_end_is_cut_wherever_the_crash_has_torn_it_and_what_is_before_it_stays() {
    let directory = tempfile::tempdir().unwrap();
    keep(&open(directory.path()).0, 0..2).await.unwrap();
    let file = directory.path().join("outcomes-0.journal");
    let whole = fs::read(&file).unwrap();
    keep(&open(directory.path()).0, 2..3).await.unwrap();
    let longer = fs::read(&file).unwrap();
    for len in whole.len() + 1..longer.len() {
        fs::write(&file, &longer[..len]).unwrap();
        let (journal, found) = open(directory.path());
        assert_eq!((found.records, found.torn_bytes), (2, (len - whole.len()) as u64));
        assert_eq!(fs::read(&file).unwrap(), whole);
        assert_eq!(keep(&journal, 2..3).await.unwrap(), [AppendResult::New]);
        drop(journal);
        assert_eq!(fs::read(&file).unwrap(), longer);
    }
    for len in 0..HEADER_LEN {
        fs::write(&file, &whole[..len]).unwrap();
        assert_eq!(open(directory.path()).1, JournalFindings::default(), "a crash while it was made");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_has_one_record_and_the_first_one_stays() {
    let journal = Shaky::default().journal(1 << 20);
    keep(&journal, 1..2).await.unwrap();
    let other = NewRecord { digest: 2, ..record(1) };
    let kept = journal.keep(vec![
        record(1),
        other.clone(),
        record(2),
        record(2),
        NewRecord { digest: 2, ..record(2) },
    ]);
    assert_eq!(
        kept.await.unwrap(),
        [
            AppendResult::Before,
            AppendResult::Otherwise,
            AppendResult::New,
            AppendResult::Before,
            AppendResult::Otherwise
        ]
    );
    assert_eq!(waiting(&journal).await.len(), 2);
    let next = NewRecord { key: AttemptKey { task: 1, fence: 4 }, ..other };
    assert_eq!(journal.keep(vec![next]).await.unwrap(), [AppendResult::New], "another attempt");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_acknowledged_before_it_is_synced_and_one_sync_serves_many() {
    let disk = Shaky::default();
    let journal = disk.journal(1 << 20);
    let calls = (0..200).map(|task| keep(&journal, task..task + 1));
    let answers = futures_util::future::join_all(calls).await;
    assert!(answers.iter().all(|kept| *kept.as_ref().unwrap() == [AppendResult::New]));
    disk.set(|disk| {
        assert_eq!(disk.synced, disk.bytes);
        assert!(disk.syncs < 200, "{}", disk.syncs);
    });
    assert_eq!(disk.keys().len(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_and_leaves_no_part_of_what_was_refused() {
    let disk = Shaky::default();
    let journal = disk.journal(1 << 20);
    keep(&journal, 0..2).await.unwrap();
    let len = disk.disk.lock().bytes.len();
    for room in [len, len + 1, len + 48, len + 70] {
        disk.set(|disk| disk.room = Some(room));
        let refused = keep(&journal, 2..4).await.unwrap_err();
        assert!(matches!(refused, JournalError::Unwritable(_)), "{refused}");
        assert_eq!(disk.keys(), [0, 1]);
        assert_eq!(journal.digest_of(key(2)), None);
    }
    disk.set(|disk| disk.room = None);
    keep(&journal, 2..4).await.unwrap();
    assert_eq!(disk.keys(), [0, 1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_could_not_be_synced_or_taken_back_is_taken_back_before_anything_else_is_written() {
    let disk = Shaky::default();
    let journal = disk.journal(1 << 20);
    keep(&journal, 0..1).await.unwrap();
    disk.set(|disk| (disk.sync_fails, disk.cut_fails) = (true, true));
    keep(&journal, 1..2).await.unwrap_err();
    disk.set(|disk| disk.sync_fails = false);
    keep(&journal, 2..3).await.unwrap_err();
    assert_eq!(disk.keys(), [0, 1], "it is there still, and nothing was written behind it");
    disk.set(|disk| disk.cut_fails = false);
    keep(&journal, 2..3).await.unwrap();
    assert_eq!(disk.keys(), [0, 2]);
    assert_eq!(waiting(&journal).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_its_bound_is_refused_whole_until_some_is_done() {
    let disk = Shaky::default();
    let frame_len = 40 + b"outcome of 0".len() as u64;
    let journal = disk.journal(4 * frame_len);
    keep(&journal, 0..3).await.unwrap();
    let refused = keep(&journal, 3..5).await.unwrap_err();
    assert!(matches!(refused, JournalError::Full { .. }), "{refused}");
    assert!(refused.to_string().contains("journal.max_mib"), "{refused}");
    assert_eq!((journal.size().records, journal.size().bytes), (3, 3 * frame_len));
    keep(&journal, 3..4).await.unwrap();
    // A smaller one beside one that does not fit is kept.
    let (large, known) = tokio::join!(keep(&journal, 4..6), keep(&journal, 0..1));
    assert!(large.is_err());
    assert_eq!(known.unwrap(), [AppendResult::Before]);
    let first = waiting(&journal).await[0].0;
    journal.done(vec![first]).await;
    keep(&journal, 4..5).await.unwrap();
    assert_eq!(disk.keys(), [0, 1, 2, 3, 4], "forgotten late");
    // Twice as large as its bound: only what waits stays.
    for task in 5..9 {
        journal.done(vec![waiting(&journal).await[0].0]).await;
        keep(&journal, task..task + 1).await.unwrap();
    }
    assert_eq!(disk.keys(), [5, 6, 7, 8]);
    assert_eq!(waiting(&journal).await.iter().map(|(_, task)| *task).collect::<Vec<_>>(), [5, 6, 7, 8]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_rewritten_has_its_lock_and_what_waits() {
    let directory = tempfile::tempdir().unwrap();
    let bounds = JournalOptions { bytes_max: 110, ..options(directory.path()) };
    let (journal, _) = FileJournal::open(&bounds).unwrap();
    for task in 0..6 {
        keep(&journal, task..task + 1).await.unwrap();
        if task > 0 {
            journal.done(vec![waiting(&journal).await[0].0]).await;
        }
    }
    let file = directory.path().join("outcomes-0.journal");
    assert!(fs::metadata(&file).unwrap().len() < 200, "it was rewritten");
    let (other, found) = open(directory.path());
    assert_eq!(found, JournalFindings::default(), "another engine takes another file");
    assert!(directory.path().join("outcomes-1.journal").exists());
    drop((journal, other));
    let (journal, found) = open(directory.path());
    assert_eq!((found.records, found.taken_over), (3, 0), "forgotten late");
    assert_eq!(waiting(&journal).await.iter().map(|(_, task)| *task).collect::<Vec<_>>(), [3, 4, 5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_engines_that_are_gone_have_left_is_taken_over_once() {
    let directory = tempfile::tempdir().unwrap();
    let ((first, _), (second, _), (third, _)) =
        (open(directory.path()), open(directory.path()), open(directory.path()));
    keep(&first, 0..2).await.unwrap();
    keep(&second, 2..4).await.unwrap();
    keep(&third, 4..5).await.unwrap();
    let left = fs::read(directory.path().join("outcomes-1.journal")).unwrap();
    drop(second);
    assert_eq!(first.take_over().await.unwrap(), 2, "while it runs");
    assert_eq!(first.take_over().await.unwrap(), 0);
    assert_eq!(waiting(&first).await.iter().map(|(_, task)| *task).collect::<Vec<_>>(), [0, 1, 2, 3]);
    drop(first);
    let (journal, found) = open(directory.path());
    assert_eq!((found.records, found.taken_over), (4, 0), "the third lives");
    drop(journal);
    // As after a crash between the two steps: they are in both files.
    fs::write(directory.path().join("outcomes-1.journal"), left).unwrap();
    let (journal, _) = open(directory.path());
    assert_eq!(waiting(&journal).await.iter().map(|(_, task)| *task).collect::<Vec<_>>(), [0, 1, 2, 3]);
    let all = waiting(&journal).await.into_iter().map(|(number, _)| number).collect();
    journal.done(all).await;
    drop(journal);
    assert_eq!(open(directory.path()).1.records, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_other_stores_and_files_that_are_no_journals_are_left_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let (journal, _) =
        FileJournal::open(&JournalOptions { owner: [8; 16], ..options(directory.path()) }).unwrap();
    keep(&journal, 0..1).await.unwrap();
    drop(journal);
    let (theirs, odd) =
        (directory.path().join("outcomes-0.journal"), directory.path().join("outcomes-1.journal"));
    let before = fs::read(&theirs).unwrap();
    fs::write(&odd, vec![1; 100]).unwrap();
    let (journal, found) = open(directory.path());
    assert_eq!(found, JournalFindings::default());
    keep(&journal, 5..6).await.unwrap();
    assert_eq!((fs::read(&theirs).unwrap(), fs::read(&odd).unwrap()), (before, vec![1; 100]));
    assert!(directory.path().join("outcomes-2.journal").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_is_damaged_while_it_waits_is_left_out() {
    let disk = Shaky::default();
    let journal = disk.journal(1 << 20);
    keep(&journal, 0..3).await.unwrap();
    disk.set(|disk| disk.bytes[HEADER_LEN + 45] ^= 1);
    assert_eq!(waiting(&journal).await.iter().map(|(_, task)| *task).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(journal.digest_of(key(0)), None, "its lease may end");
}

#[test]
fn frames_of_one_attempt_count_once() {
    let mark = frame::mark_of(OWNER);
    let head = |task| frame::write(&mut Vec::new(), Mark(&mark), key(task), 1, b"x").unwrap();
    let mut index = super::index::Index::default();
    for (at, task) in [(28, 1), (61, 1), (94, 2)] {
        index.add(Frame { at, head: head(task) });
    }
    assert_eq!((index.len(), index.bytes()), (2, 82));
}

/// Callers that must not wait for a disk ask memory while the disk is at work.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_waits_for_the_disk_under_the_lock_of_memory() {
    let disk = Shaky::default();
    let journal = disk.journal(110);
    *disk.watched.lock() = Some(journal.clone());
    keep(&journal, 0..1).await.unwrap();
    for task in 1..6 {
        keep(&journal, task..task + 1).await.unwrap();
        journal.done(vec![waiting(&journal).await[0].0]).await;
    }
    let left: Vec<i64> = waiting(&journal).await.into_iter().map(|(_, task)| task).collect();
    assert_eq!(left, [5]);
    assert!(disk.disk.lock().rewrites > 0);
    journal.done(vec![waiting(&journal).await[0].0]).await;
    disk.watched.lock().take();
}
