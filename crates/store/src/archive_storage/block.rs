//! Blocks of the data object: some hundred lines, compressed as one zstd frame with a checksum of its own. Frames one
//! after the other are a stream that every zstd tool reads. Must never grow with the archive: a block is bounded.

use super::{Error, format, record};
use punctual_domain::task::Task;
use zstd::bulk::{Compressor, Decompressor};

/// Tasks of one block: a lookup reads all of them for one.
const TASKS: usize = 1_000;
/// A block ends when its text is longer than this, so that one with long payloads does not become huge.
const TEXT_BYTES: usize = 1_048_576;
/// Beyond it, compressing costs more time than it saves room.
const LEVEL: i32 = 3;

/// Lines that are yet to be compressed.
#[derive(Debug, Default)]
pub(super) struct Builder {
    text: Vec<u8>,
    tasks: usize,
    hashes: Vec<u64>,
}

#[derive(Debug)]
pub(super) struct Block {
    pub(super) frame: Vec<u8>,
    pub(super) text_bytes: u32,
    /// The hashes of the keys of the block's tasks.
    pub(super) hashes: Vec<u64>,
}

impl Builder {
    pub(super) fn add(&mut self, task: &Task) {
        record::write(task, &mut self.text);
        self.tasks += 1;
        self.hashes.push(format::hash_of_id(task.place.id));
        if let Some(task_id) = task.ask.task_id {
            self.hashes.push(format::hash_of_task_id(task.ask.queue.namespace.as_str(), task_id));
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.tasks >= TASKS || self.text.len() >= TEXT_BYTES
    }

    /// Returns `None` if the builder is empty.
    pub(super) fn take(&mut self) -> Result<Option<Block>, Error> {
        let Self { text, tasks, hashes } = std::mem::take(self);
        if tasks == 0 {
            return Ok(None);
        }
        let frame = compress(&text)?;
        Ok(Some(Block { frame, text_bytes: length(text.len())?, hashes }))
    }
}

pub(super) fn length(bytes: usize) -> Result<u32, Error> {
    u32::try_from(bytes).map_err(|_| Error::TooLong { bytes })
}

pub(super) fn compress(text: &[u8]) -> Result<Vec<u8>, Error> {
    let broken = |error: std::io::Error| Error::BrokenOff(error.to_string());
    let mut compressor = Compressor::new(LEVEL).map_err(broken)?;
    compressor.include_checksum(true).map_err(broken)?;
    compressor.compress(text).map_err(broken)
}

/// The text of a frame, whose length is known from the index: a frame that claims more is damaged.
pub(super) fn text(object: &str, frame: &[u8], at: format::BlockRow) -> Result<String, Error> {
    let damaged = |problem: String| Error::damaged(object, format!("block at byte {}: {problem}", at.offset));
    if crc32fast::hash(frame) != at.crc {
        return Err(damaged("its checksum is another one".to_owned()));
    }
    let room = usize::try_from(at.text_bytes).unwrap_or(usize::MAX);
    let unpacked = Decompressor::new().and_then(|mut decompressor| decompressor.decompress(frame, room));
    let bytes = unpacked.map_err(|error| damaged(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| damaged(error.to_string()))
}

/// The tasks of a text that are wanted. Lines that are not are passed over without being built up.
pub(super) fn matching(
    object: &str,
    text: &str,
    is_wanted: impl Fn(&record::SearchKey<'_>) -> bool,
) -> Result<Vec<Task>, Error> {
    let damaged = |problem: String| Error::damaged(object, problem);
    let mut found = Vec::new();
    for line in text.lines() {
        let key: record::SearchKey<'_> =
            serde_json::from_str(line).map_err(|error| damaged(error.to_string()))?;
        if is_wanted(&key) {
            found.push(record::read(line).map_err(damaged)?);
        }
    }
    Ok(found)
}
