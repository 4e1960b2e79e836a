//! A journal at work: calls are gathered, written together and synced once; records that are done are removed, and
//! when nothing waits the file is emptied. One thread at a time uses the medium. Must not answer before the sync, and
//! must never leave in the file, as far as the medium allows, what it has refused.

use super::{
    directory::free_files,
    frame::{self, HEADER_LEN, Mark, Owner},
    index::{Frame, Index},
    medium::Medium,
};
use async_trait::async_trait;
use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::{
    Journal,
    journal::{AppendResult, AttemptKey, JournalError, JournalSize, KeptRecord, NewRecord},
};
use std::{io, path::PathBuf, sync::Arc};
use tokio::sync::oneshot;

/// A journal in one file.
#[derive(Clone, Debug)]
pub struct FileJournal {
    inner: Arc<FileJournalState>,
}

/// Locks are taken in the order of the fields.
#[derive(Debug)]
struct FileJournalState {
    place: Mutex<FileTail>,
    state: Mutex<FileState>,
    of: Of,
}

/// The owner and the limits of a journal.
#[derive(Debug)]
pub(super) struct Of {
    pub(super) owner: Owner,
    pub(super) bytes_max: u64,
    /// The directory with the journals of other engines.
    pub(super) directory: Option<PathBuf>,
}

#[derive(Debug)]
struct FileTail {
    medium: Box<dyn Medium>,
    /// The end of the valid content. Content after it was refused, and could not be removed yet.
    good_len: u64,
    is_torn: bool,
}

#[derive(Debug, Default)]
struct FileState {
    index: Index,
    calls: Vec<AppendCall>,
    /// True if a thread writes, and checks for more calls before it ends.
    is_led: bool,
}

#[derive(Debug)]
struct AppendCall {
    records: Vec<NewRecord>,
    answer: oneshot::Sender<Result<Vec<AppendResult>, JournalError>>,
}

/// The answer to a call.
type Answer =
    (oneshot::Sender<Result<Vec<AppendResult>, JournalError>>, Result<Vec<AppendResult>, JournalError>);

/// Calls that are written together.
#[derive(Default)]
struct AppendGroup {
    bytes: Vec<u8>,
    frames: Vec<Frame>,
    digests: HashMap<AttemptKey, u64>,
}

impl FileJournal {
    /// Creates a journal over the frames that were found in the medium up to `good_len`.
    pub(super) fn new(medium: Box<dyn Medium>, good_len: u64, found: Vec<Frame>, of: Of) -> Self {
        let mut index = Index::default();
        found.into_iter().for_each(|frame| index.add(frame));
        let place = Mutex::new(FileTail { medium, good_len, is_torn: false });
        let state = Mutex::new(FileState { index, ..FileState::default() });
        Self { inner: Arc::new(FileJournalState { place, state, of }) }
    }

    /// Adopts journals of ended engines. Returns the number of records. Waits for the disk.
    pub(super) fn take_over_now(&self) -> io::Result<usize> {
        self.inner.take_over()
    }

    #[cfg(test)]
    pub(super) fn has_free_memory(&self) -> bool {
        self.inner.state.try_lock().is_some()
    }

    /// True if no thread works for the journal.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        Arc::strong_count(&self.inner) == 1
    }

    /// Runs work in a thread that may wait for the disk.
    async fn at_the_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&FileJournalState) -> T + Send + 'static,
    ) -> Option<T> {
        let inner = Arc::clone(&self.inner);
        tokio::task::spawn_blocking(move || work(&inner)).await.ok()
    }
}

/// Resets the leader, also after a panic: the next caller finds no stale leader.
struct Led(Arc<FileJournalState>);

impl Drop for Led {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.in_memory(|state| {
                state.calls.clear();
                state.is_led = false;
            });
        }
    }
}

impl FileJournalState {
    /// Callers that must not wait for the disk take this lock: nothing waits for a disk under it.
    fn in_memory<T>(&self, work: impl FnOnce(&mut FileState) -> T) -> T {
        work(&mut self.state.lock())
    }

    /// Leads the writes. When the last call is answered, no leader is at work: if no other handle of the journal
    /// exists, its file is free, and the next start finds all that was acknowledged.
    fn lead(self: Arc<Self>) {
        let led = Led(self);
        loop {
            let mut place = led.0.place.lock();
            let calls = led.0.in_memory(|state| std::mem::take(&mut state.calls));
            let answers = led.0.write(&mut place, calls);
            let goes_on = led.0.in_memory(|state| {
                state.is_led = !state.calls.is_empty();
                state.is_led
            });
            drop(place);
            if !goes_on {
                drop(led);
                return send_answers(answers);
            }
            send_answers(answers);
        }
    }

    fn write(&self, place: &mut FileTail, calls: Vec<AppendCall>) -> Vec<Answer> {
        let mut group = AppendGroup::default();
        let resolved: Vec<_> = calls
            .into_iter()
            .map(|call| {
                let answer = self.resolve(place.good_len, &mut group, &call.records);
                (call.answer, answer)
            })
            .collect();
        let written = if group.frames.is_empty() { Ok(()) } else { self.write_group(place, &group) };
        if written.is_ok() {
            self.in_memory(|state| group.frames.into_iter().for_each(|frame| state.index.add(frame)));
        }
        let answer = |answer: Result<Vec<AppendResult>, JournalError>| match &written {
            // What was there before may be of this very group.
            Err(error) => answer.and_then(|_| Err(JournalError::Unwritable(error.to_string()))),
            Ok(()) => answer,
        };
        resolved.into_iter().map(|(to, resolved)| (to, answer(resolved))).collect()
    }

    /// Prepares the answers for the time when the group is durable. A call that does not fit leaves nothing in the
    /// group.
    fn resolve(
        &self,
        good_len: u64,
        group: &mut AppendGroup,
        records: &[NewRecord],
    ) -> Result<Vec<AppendResult>, JournalError> {
        let (state, mark) = (self.state.lock(), frame::mark_of(self.of.owner));
        let (bytes_before, frames_before) = (group.bytes.len(), group.frames.len());
        let mut kept = Vec::with_capacity(records.len());
        for record in records {
            let before =
                state.index.digest_of(record.key).or_else(|| group.digests.get(&record.key).copied());
            if let Some(digest) = before {
                kept.push(if digest == record.digest {
                    AppendResult::Before
                } else {
                    AppendResult::Otherwise
                });
                continue;
            }
            let at = good_len + len_of(&group.bytes);
            let NewRecord { key, digest, body } = record;
            let written = frame::write(&mut group.bytes, Mark(&mark), *key, *digest, body);
            let bytes = state.index.bytes() + len_of(&group.bytes);
            let Some(head) = written.filter(|_| bytes <= self.of.bytes_max) else {
                group.bytes.truncate(bytes_before);
                for frame in group.frames.drain(frames_before..) {
                    group.digests.remove(&frame.head.key);
                }
                let asked = records.iter().map(|record| len_of(&record.body)).sum();
                let (bytes, bytes_max) = (state.index.bytes(), self.of.bytes_max);
                return Err(JournalError::Full { bytes, bytes_max, asked });
            };
            group.frames.push(Frame { at, head });
            group.digests.insert(record.key, record.digest);
            kept.push(AppendResult::New);
        }
        Ok(kept)
    }

    fn write_group(&self, place: &mut FileTail, group: &AppendGroup) -> io::Result<()> {
        place.mend()?;
        let written = place.medium.append(&group.bytes).and_then(|()| place.medium.sync());
        match written {
            Ok(()) => {
                place.good_len += len_of(&group.bytes);
                Ok(())
            }
            Err(error) => {
                tracing::warn!(%error, "outcomes could not be journalled; nothing of them is acknowledged");
                place.is_torn = true;
                drop(place.mend());
                Err(error)
            }
        }
    }

    fn done(&self, numbers: &[u64]) {
        let mut place = self.place.lock();
        let is_empty = self.in_memory(|state| {
            state.index.done(numbers);
            state.index.is_empty()
        });
        let header_len = u64::try_from(HEADER_LEN).unwrap_or(u64::MAX);
        let tidied = if is_empty {
            place.empty(header_len)
        } else if place.good_len >= self.of.bytes_max.saturating_mul(2) {
            self.compact(&mut place)
        } else {
            Ok(())
        };
        if let Err(error) = tidied {
            tracing::warn!(%error, "the journal of outcomes could not be shortened; it is tried again");
        }
    }

    /// Order: the other's records are durable here, then they are removed there. A crash between the two leaves them in both files,
    /// and of an attempt with two records the first counts.
    fn take_over(&self) -> io::Result<usize> {
        let Some(directory) = &self.of.directory else { return Ok(0) };
        let (mut place, mut taken) = (self.place.lock(), 0);
        for mut other in free_files(directory, self.of.owner)? {
            if other.frames.is_empty() {
                continue;
            }
            let mut group = AppendGroup::default();
            for frame in &other.frames {
                let at = place.good_len + len_of(&group.bytes);
                group.bytes.extend(other.file.read(frame.at, frame.head.frame_len())?);
                group.frames.push(Frame { at, head: frame.head });
            }
            taken += group.frames.len();
            self.write_group(&mut place, &group)?;
            self.in_memory(|state| group.frames.into_iter().for_each(|frame| state.index.add(frame)));
            other.file.cut(u64::try_from(HEADER_LEN).unwrap_or(u64::MAX))?;
        }
        Ok(taken)
    }

    /// Only what waits stays in the file. Nothing is added or done meanwhile: that needs the place.
    fn compact(&self, place: &mut FileTail) -> io::Result<()> {
        let header = frame::header(self.of.owner);
        let range = |frame: &Frame| (frame.at, frame.head.frame_len());
        let ranges: Vec<_> = self.in_memory(|state| state.index.frames().map(range).collect());
        place.medium.rewrite(&header, &ranges)?;
        self.in_memory(|state| state.index.moved(len_of(&header)));
        place.good_len = place.medium.len()?;
        place.is_torn = false;
        Ok(())
    }

    fn read(&self, after: u64, bytes: usize) -> Result<Vec<KeptRecord>, JournalError> {
        let (place, mark) = (self.place.lock(), frame::mark_of(self.of.owner));
        let page = self.in_memory(|state| state.index.page(after, bytes));
        let (mut records, mut damaged) = (Vec::with_capacity(page.len()), Vec::new());
        for (number, frame) in page {
            let unreadable = |error: io::Error| JournalError::Unreadable(error.to_string());
            let read = place.medium.read(frame.at, frame.head.frame_len()).map_err(unreadable)?;
            match frame::read(Mark(&mark), &read) {
                Some((head, body)) if head == frame.head => {
                    records.push(KeptRecord { number, key: head.key, body: body.to_vec() });
                }
                _ => {
                    let AttemptKey { task, fence } = frame.head.key;
                    tracing::error!(task, fence, "an outcome in the journal is damaged; its task runs again");
                    damaged.push(number);
                }
            }
        }
        self.in_memory(|state| state.index.done(&damaged));
        Ok(records)
    }
}

/// The caller may have gone.
fn send_answers(answers: Vec<Answer>) {
    answers.into_iter().for_each(|(to, answer)| drop(to.send(answer)));
}

impl FileTail {
    /// Takes back what was refused.
    fn mend(&mut self) -> io::Result<()> {
        if self.is_torn {
            self.medium.cut(self.good_len)?;
            self.is_torn = false;
        }
        Ok(())
    }

    fn empty(&mut self, len: u64) -> io::Result<()> {
        if self.good_len > len || self.is_torn {
            self.medium.cut(len)?;
            self.good_len = len;
            self.is_torn = false;
        }
        Ok(())
    }
}

fn len_of(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

#[async_trait]
impl Journal for FileJournal {
    async fn keep(&self, records: Vec<NewRecord>) -> Result<Vec<AppendResult>, JournalError> {
        let (answer, answered) = oneshot::channel();
        let leads = self.inner.in_memory(|state| {
            state.calls.push(AppendCall { records, answer });
            !std::mem::replace(&mut state.is_led, true)
        });
        if leads {
            let inner = Arc::clone(&self.inner);
            // To its end, whatever becomes of this caller.
            drop(tokio::task::spawn_blocking(move || inner.lead()));
        }
        let ended = || Err(JournalError::Unwritable("the engine is ending".to_owned()));
        answered.await.unwrap_or_else(|_| ended())
    }

    async fn waiting(&self, after: u64, bytes: usize) -> Result<Vec<KeptRecord>, JournalError> {
        if self.inner.in_memory(|state| state.index.is_empty()) {
            return Ok(Vec::new());
        }
        let read = self.at_the_disk(move |inner| inner.read(after, bytes)).await;
        read.unwrap_or_else(|| Err(JournalError::Unreadable("the engine is ending".to_owned())))
    }

    async fn done(&self, numbers: Vec<u64>) {
        if !numbers.is_empty() {
            self.at_the_disk(move |inner| inner.done(&numbers)).await;
        }
    }

    async fn take_over(&self) -> Result<usize, JournalError> {
        let taken = self.at_the_disk(FileJournalState::take_over).await;
        let ended = || Err(io::Error::other("the engine is ending"));
        taken.unwrap_or_else(ended).map_err(|error| JournalError::Unreadable(error.to_string()))
    }

    fn digest_of(&self, key: AttemptKey) -> Option<u64> {
        self.inner.in_memory(|state| state.index.digest_of(key))
    }

    fn size(&self) -> JournalSize {
        let (records, bytes) = self.inner.in_memory(|state| (state.index.len(), state.index.bytes()));
        JournalSize { records, bytes, bytes_max: self.inner.of.bytes_max }
    }
}
