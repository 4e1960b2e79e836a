//! Searches one archive for tasks: the filter excludes nearly everything that is not there, at the price of one page;
//! the entries name the block; the block is read, and nothing else of the data.

use super::{
    Error, block,
    format::{self, ArchiveLookup, BlockRow, Header, IndexEntry, Layout},
    objects::Objects,
    pages::{self, IndexObject, Pages},
    record::SearchKey,
    write::aside,
};
use bytes::Bytes;
use object_store::path::Path;
use punctual_domain::task::Task;

/// An archive that exists.
#[derive(Debug)]
pub(super) struct Archived {
    number: u32,
    index: Path,
    data: Path,
    pub(super) header: Header,
    layout: Layout,
}

/// The sources from which a search reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading<'a> {
    pub(super) objects: &'a Objects,
    pub(super) pages: &'a Pages,
}

impl Archived {
    /// Opens an index by its first page. `None` if the index was removed.
    pub(super) async fn open(objects: &Objects, index: Path, number: u32) -> Result<Option<Self>, Error> {
        let first = match pages::read(objects, &index, 0).await {
            // Before checksum or length are blamed: another format may have others.
            Err(error) => {
                check_format(objects, &index).await?;
                return Err(error);
            }
            other => other?,
        };
        let Some(first) = first else { return Ok(None) };
        let header = Header::read(index.as_ref(), &first)?;
        let data = sibling(&index, &header.data);
        Ok(Some(Self { number, index, data, layout: header.layout(), header }))
    }

    pub(super) fn index(&self) -> &Path {
        &self.index
    }

    pub(super) fn data(&self) -> &Path {
        &self.data
    }

    /// All copies of what is wanted; nothing if the archive was removed meanwhile.
    pub(super) async fn search(
        &self,
        reading: Reading<'_>,
        wanted: &ArchiveLookup,
    ) -> Result<Vec<Task>, Error> {
        if !wanted.may_be_in(&self.header) {
            return Ok(Vec::new());
        }
        let hash = wanted.hash();
        if !self.may_have(reading, hash).await? {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for number in self.blocks_of(reading, hash).await? {
            found.append(&mut self.in_block(reading, number, wanted).await?);
        }
        Ok(found)
    }

    async fn page(&self, reading: Reading<'_>, page: u64) -> Result<Option<Bytes>, Error> {
        let index = IndexObject { number: self.number, name: &self.index, pages: self.layout.end };
        reading.pages.page(reading.objects, index, page).await
    }

    /// The row of a table. `None` if the archive is gone.
    async fn row(
        &self,
        reading: Reading<'_>,
        table: u64,
        row: u64,
        row_bytes: usize,
    ) -> Result<Option<Bytes>, Error> {
        let per_page = format::rows_per_page(row_bytes);
        let Some(page) = self.page(reading, table + row / per_page).await? else { return Ok(None) };
        let from = usize::try_from(row % per_page).unwrap_or_default() * row_bytes;
        Ok(Some(page.slice(from..from + row_bytes)))
    }

    async fn may_have(&self, reading: Reading<'_>, hash: u64) -> Result<bool, Error> {
        let row = format::filter_row(hash, self.header.filter_rows);
        let row = self.row(reading, self.layout.filter, row.into(), format::FILTER_ROW).await?;
        Ok(row.is_some_and(|row| format::filter_may_have(&row, hash)))
    }

    /// Hashes are spread evenly: the page is guessed, and nearly always it or its neighbour is the right one.
    async fn blocks_of(&self, reading: Reading<'_>, hash: u64) -> Result<Vec<u32>, Error> {
        let pages = self.layout.end - self.layout.entries;
        let per_page = format::rows_per_page(format::ENTRY_ROW);
        let mut nth = (guess(hash, self.header.entries) / per_page).min(pages.saturating_sub(1));
        // Entries of one hash may begin on the page before.
        while nth > 0 && self.entries(reading, nth).await?.first().is_none_or(|entry| entry.hash >= hash) {
            nth -= 1;
        }
        let mut blocks = Vec::new();
        while nth < pages {
            let entries = self.entries(reading, nth).await?;
            blocks.extend(entries.iter().filter(|entry| entry.hash == hash).map(|entry| entry.block));
            if entries.last().is_none_or(|entry| entry.hash > hash) {
                break;
            }
            nth += 1;
        }
        blocks.dedup();
        Ok(blocks)
    }

    /// Reads the entries of one page of their table.
    async fn entries(&self, reading: Reading<'_>, nth: u64) -> Result<Vec<IndexEntry>, Error> {
        let Some(page) = self.page(reading, self.layout.entries + nth).await? else { return Ok(Vec::new()) };
        let per_page = format::rows_per_page(format::ENTRY_ROW);
        let count = self.header.entries.saturating_sub(nth * per_page).min(per_page);
        let rows = page.chunks_exact(format::ENTRY_ROW).take(usize::try_from(count).unwrap_or_default());
        Ok(rows.filter_map(IndexEntry::read).collect())
    }

    async fn in_block(
        &self,
        reading: Reading<'_>,
        number: u32,
        wanted: &ArchiveLookup,
    ) -> Result<Vec<Task>, Error> {
        let Some(text) = self.text(reading, number).await? else { return Ok(Vec::new()) };
        let (object, wanted) = (self.data.to_string(), wanted.clone());
        aside(move || block::matching(&object, &text, |key| is(key, &wanted))).await?
    }

    async fn block_row(&self, reading: Reading<'_>, number: u32) -> Result<Option<BlockRow>, Error> {
        if number >= self.header.blocks {
            return Err(Error::damaged(self.index.as_ref(), format!("it names block {number}")));
        }
        let row = self.row(reading, self.layout.blocks, number.into(), format::BLOCK_ROW).await?;
        Ok(row.as_deref().and_then(BlockRow::read))
    }

    /// The text of a block. `None` if the archive is gone, index and all; without its data alone it is damaged.
    async fn text(&self, reading: Reading<'_>, number: u32) -> Result<Option<String>, Error> {
        let Some(row) = self.block_row(reading, number).await? else { return Ok(None) };
        let range = row.offset..row.offset.saturating_add(row.bytes.into());
        let Some(frame) = reading.objects.read(&self.data, range).await? else {
            return Err(Error::damaged(self.data.as_ref(), "it is missing, and its index is there"));
        };
        let object = self.data.to_string();
        aside(move || block::text(&object, &frame, row)).await?.map(Some)
    }

    /// Reads every block. Answers how many tasks there are.
    pub(super) async fn count(&self, reading: Reading<'_>) -> Result<u64, Error> {
        let mut tasks = 0;
        for number in 0..self.header.blocks {
            let gone = || Error::damaged(self.index.as_ref(), "it is missing");
            let text = self.text(reading, number).await?.ok_or_else(gone)?;
            tasks += u64::try_from(text.lines().count()).unwrap_or(u64::MAX);
        }
        Ok(tasks)
    }
}

async fn check_format(objects: &Objects, index: &Path) -> Result<(), Error> {
    let bytes = objects.size(index).await?;
    if bytes == 0 {
        return Err(Error::damaged(index.as_ref(), "it is empty"));
    }
    let start = objects.read(index, 0..bytes.min(64)).await?.unwrap_or_default();
    let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
    format::check_format(index.as_ref(), &String::from_utf8_lossy(line))
}

fn sibling(index: &Path, data: &str) -> Path {
    let directory = index.as_ref().rsplit_once('/').map_or("", |parts| parts.0);
    Path::from(format!("{directory}/{data}"))
}

fn guess(hash: u64, entries: u64) -> u64 {
    let nth = (u128::from(hash) * u128::from(entries)) >> 64;
    u64::try_from(nth).unwrap_or_default()
}

fn is(key: &SearchKey<'_>, wanted: &ArchiveLookup) -> bool {
    match wanted {
        ArchiveLookup::Id { id, .. } => key.id == *id,
        ArchiveLookup::TaskId { namespace, task_id, .. } => {
            key.task_id == Some(*task_id) && key.namespace == namespace.as_str()
        }
    }
}
