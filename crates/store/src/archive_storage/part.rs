//! Builds one archive, data and index, from tasks that come by and by. Knows no storage: it turns tasks into bytes.
//! Holds the keys of its tasks in memory (32 bytes a task), and one block.

use super::{
    Error,
    block::{self, Block, Builder},
    format::{self, BlockRow, Header, IndexEntry},
};
use punctual_domain::{task::Task, time::Millis};
use serde::Serialize;

#[derive(Debug)]
pub(super) struct ArchivePart {
    about: About,
    block: Builder,
    blocks: Vec<BlockRow>,
    entries: Vec<IndexEntry>,
    data_bytes: u64,
    tasks: u64,
    span: Option<Span>,
}

/// The data that is known before the first task.
#[derive(Clone, Debug)]
pub(super) struct About {
    pub(super) shard: u16,
    pub(super) exported_at: Millis,
}

/// Least and greatest of what has been added.
#[derive(Clone, Copy, Debug)]
struct Span {
    partitions: (u16, u16),
    due_at: (i64, i64),
    place_due_at: (i64, i64),
    ids: (i64, i64),
}

/// The first line of the data, for people: what this file is.
#[derive(Serialize)]
struct First<'a> {
    punctual_archive: u32,
    writer: &'a str,
    shard: u16,
    exported_at: i64,
}

/// The last line of the data: without it, something is missing.
#[derive(Serialize)]
struct Last {
    punctual_archive_end: u64,
}

impl ArchivePart {
    pub(super) fn new(about: About) -> Self {
        Self {
            about,
            block: Builder::default(),
            blocks: Vec::new(),
            entries: Vec::new(),
            data_bytes: 0,
            tasks: 0,
            span: None,
        }
    }

    pub(super) fn tasks(&self) -> u64 {
        self.tasks
    }

    /// The bytes with which the data continues.
    pub(super) fn add(&mut self, tasks: &[Task]) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        if self.data_bytes == 0 {
            self.text_frame(&self.first(), &mut bytes)?;
        }
        for task in tasks {
            self.block.add(task);
            self.tasks += 1;
            self.span = Some(self.span.map_or_else(|| Span::of(task), |span| span.with(task)));
            if self.block.is_full() {
                self.end_block(&mut bytes)?;
            }
        }
        Ok(bytes)
    }

    /// The last bytes of the data.
    pub(super) fn end(&mut self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.end_block(&mut bytes)?;
        self.text_frame(&Last { punctual_archive_end: self.tasks }, &mut bytes)?;
        Ok(bytes)
    }

    /// The index of data that has ended and has a task at least.
    pub(super) fn index(mut self, data: String) -> Vec<u8> {
        self.entries.sort_unstable();
        self.entries.dedup();
        let header = self.header(data);
        let mut pages = format::seal(header.text().into_bytes());
        let mut rows = Vec::with_capacity(self.blocks.len() * format::BLOCK_ROW);
        self.blocks.iter().for_each(|block| block.write(&mut rows));
        table(&rows, &mut pages);
        table(&self.filter(header.filter_rows), &mut pages);
        rows.clear();
        self.entries.iter().for_each(|entry| entry.write(&mut rows));
        table(&rows, &mut pages);
        pages
    }

    fn first(&self) -> First<'static> {
        First {
            punctual_archive: format::FORMAT,
            writer: format::WRITER,
            shard: self.about.shard,
            exported_at: self.about.exported_at.0,
        }
    }

    fn text_frame(&mut self, line: &impl Serialize, bytes: &mut Vec<u8>) -> Result<(), Error> {
        let mut text = serde_json::to_vec(line).expect("numbers and strings always have a JSON form");
        text.push(b'\n');
        self.append(&block::compress(&text)?, bytes);
        Ok(())
    }

    fn append(&mut self, frame: &[u8], bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(frame);
        self.data_bytes += u64::try_from(frame.len()).unwrap_or(u64::MAX);
    }

    fn end_block(&mut self, bytes: &mut Vec<u8>) -> Result<(), Error> {
        let Some(Block { frame, text_bytes, hashes }) = self.block.take()? else { return Ok(()) };
        let block = block::length(self.blocks.len())?;
        self.entries.extend(hashes.into_iter().map(|hash| IndexEntry { hash, block }));
        let crc = crc32fast::hash(&frame);
        let frame_bytes = block::length(frame.len())?;
        self.blocks.push(BlockRow { offset: self.data_bytes, bytes: frame_bytes, text_bytes, crc });
        self.append(&frame, bytes);
        Ok(())
    }

    fn header(&self, data: String) -> Header {
        let span = self.span.unwrap_or(Span::NOTHING);
        let entries = u64::try_from(self.entries.len()).unwrap_or(u64::MAX);
        Header {
            writer: format::WRITER.to_owned(),
            exported_at: self.about.exported_at.0,
            shard: self.about.shard,
            data,
            data_bytes: self.data_bytes,
            tasks: self.tasks,
            partitions: span.partitions,
            due_at: span.due_at,
            place_due_at: span.place_due_at,
            ids: span.ids,
            blocks: u32::try_from(self.blocks.len()).unwrap_or(u32::MAX),
            filter_rows: format::filter_rows(entries),
            entries,
        }
    }

    fn filter(&self, rows: u32) -> Vec<u8> {
        let at = |row: u32| usize::try_from(row).unwrap_or(usize::MAX).saturating_mul(format::FILTER_ROW);
        let mut filter = vec![0; at(rows)];
        for entry in &self.entries {
            let from = at(format::filter_row(entry.hash, rows));
            if let Some(row) = filter.get_mut(from..from + format::FILTER_ROW) {
                format::filter_set(row, entry.hash);
            }
        }
        filter
    }
}

fn table(rows: &[u8], pages: &mut Vec<u8>) {
    for room in rows.chunks(format::PAGE_ROOM) {
        pages.append(&mut format::seal(room.to_vec()));
    }
}

impl Span {
    /// Within which nothing is.
    const NOTHING: Self = Self { partitions: (1, 0), due_at: (1, 0), place_due_at: (1, 0), ids: (1, 0) };

    fn of(task: &Task) -> Self {
        let twice = |due_at| (due_at, due_at);
        Self {
            partitions: (task.place.partition.0, task.place.partition.0),
            due_at: twice(task.due_at.0),
            place_due_at: twice(task.place.due_at.0),
            ids: twice(task.place.id),
        }
    }

    fn with(self, task: &Task) -> Self {
        let one = Self::of(task);
        Self {
            partitions: wider(self.partitions, one.partitions),
            due_at: wider(self.due_at, one.due_at),
            place_due_at: wider(self.place_due_at, one.place_due_at),
            ids: wider(self.ids, one.ids),
        }
    }
}

fn wider<T: Ord>(pair: (T, T), other: (T, T)) -> (T, T) {
    (pair.0.min(other.0), pair.1.max(other.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive_storage::record;
    use punctual_domain::{
        name::{Name, QueueKey},
        place::{Partition, TaskRef},
        state::State,
        task::NewTask,
    };

    fn task(id: i64) -> Task {
        let name = Name::new("n").unwrap();
        let queue = QueueKey { namespace: name.clone(), queue: name.clone() };
        Task {
            place: TaskRef { partition: Partition(2), due_at: Millis(5), id },
            ask: NewTask { task_id: Some(id), ..NewTask::new(queue, name, Millis(5)) },
            state: State::Dead,
            fence: 1,
            attempt: 1,
            due_at: Millis(5),
            fired_at: None,
            created_at: Millis(1),
            updated_at: Millis(6),
            keep_until: Some(Millis(7)),
            lease: None,
            progress: None,
            log: None,
            result: None,
            last_error: None,
            history: Vec::new(),
        }
    }

    #[test]
    fn the_data_is_a_text_that_any_tool_unpacks_with_a_line_for_each_task() {
        let mut part = ArchivePart::new(About { shard: 4, exported_at: Millis(9) });
        let tasks: Vec<Task> = (0..2_500).map(task).collect();
        let mut data = part.add(&tasks[..1_700]).unwrap();
        data.append(&mut part.add(&tasks[1_700..]).unwrap());
        data.append(&mut part.end().unwrap());
        let text = String::from_utf8(zstd::stream::decode_all(&data[..]).unwrap()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2_502);
        assert!(lines[0].starts_with(r#"{"punctual_archive":1,"writer":"punctual-store "#), "{}", lines[0]);
        assert_eq!(lines[2_501], r#"{"punctual_archive_end":2500}"#);
        let read: Vec<Task> = lines[1..2_501].iter().map(|line| record::read(line).unwrap()).collect();
        assert_eq!(read, tasks);
    }

    #[test]
    fn a_line_is_pinned_because_archives_are_read_for_ever() {
        let mut line = Vec::new();
        record::write(&task(8), &mut line);
        let expected = concat!(
            r#"{"ref":"t0008000000002g000000000008","id":8,"partition":2,"place_due_at":5,"namespace":"n","queue":"n","#,
            r#""task_id":8,"task_version":0,"kind":"n","priority":3,"state":"dead","execute_at":5,"due_at":5,"#,
            r#""created_at":1,"updated_at":6,"keep_until":7,"fence":1,"attempt":1,"max_attempts":5,"retry":"#,
            r#"{"strategy":"exponential","delay_ms":1000,"factor":2.0,"max_delay_ms":600000,"jitter":0.2},"#,
            r#""payload":{"is_json":false,"text":""},"history":[]}"#,
            "\n"
        );
        assert_eq!(String::from_utf8(line).unwrap(), expected);
        let future = expected.replace(r#""fence":1"#, r#""fence":1,"invented_later":[1]"#);
        assert_eq!(record::read(&future).unwrap(), task(8));
    }
}
