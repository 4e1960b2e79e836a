//! The shape of an index object, and the numbers that everything else rests on. A durable format: whatever changes
//! here so that an older program would misread it needs the next `FORMAT`.
//!
//! An index is a row of pages of 16 KiB, each with its own CRC-32 at its end, so that one lookup reads two or three of
//! them and trusts each. Page 0 is text; then come three tables. Rows never cross a page.
//!
//! | table | row | order |
//! |---|---|---|
//! | blocks | `offset u64, length u32, text length u32, CRC-32 u32` of a block in the data object, little-endian | of the data |
//! | filter | 60 bytes, a Bloom filter of 480 bits | by the high half of the hash |
//! | entries | `hash u64, block number u32` | ascending |

use super::Error;
use punctual_domain::{name::Name, place::Partition};
use serde::{Deserialize, Serialize};

pub(super) const FORMAT: u32 = 1;
pub(super) const WRITER: &str = concat!("punctual-store ", env!("CARGO_PKG_VERSION"));
/// The first line of an index is this word and the format.
pub(super) const MAGIC: &str = "punctual-archive-index";

pub(super) const PAGE: usize = 16_384;
/// The bytes of a page before its checksum: a multiple of the row size of each table.
pub(super) const PAGE_ROOM: usize = PAGE - 4;
pub(super) const BLOCK_ROW: usize = 20;
pub(super) const FILTER_ROW: usize = 60;
pub(super) const ENTRY_ROW: usize = 12;
const _: () = assert!(
    PAGE_ROOM.is_multiple_of(BLOCK_ROW)
        && PAGE_ROOM.is_multiple_of(FILTER_ROW)
        && PAGE_ROOM.is_multiple_of(ENTRY_ROW)
);

/// The number of bits of the filter per entry, and of bits that are set for one: one unknown key in a hundred or
/// fewer passes.
const BITS_PER_ENTRY: u64 = 12;
const BITS_SET: u32 = 7;
const FILTER_BITS: u32 = 480;

/// The second line of an index. Ranges are inclusive. `due_at` is the current one of the rows, `place_due_at` that of
/// their references; milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) writer: String,
    pub(super) exported_at: i64,
    pub(super) shard: u16,
    /// Name of the data object, beside the index.
    pub(super) data: String,
    pub(super) data_bytes: u64,
    pub(super) tasks: u64,
    pub(super) partitions: (u16, u16),
    pub(super) due_at: (i64, i64),
    pub(super) place_due_at: (i64, i64),
    pub(super) ids: (i64, i64),
    pub(super) blocks: u32,
    pub(super) filter_rows: u32,
    pub(super) entries: u64,
}

/// The number of the first page of each table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) blocks: u64,
    pub(super) filter: u64,
    pub(super) entries: u64,
    /// Pages in all.
    pub(super) end: u64,
}

impl Header {
    pub(super) fn layout(&self) -> Layout {
        let pages = |rows: u64, row: usize| rows.div_ceil(rows_per_page(row));
        let blocks = 1;
        let filter = blocks + pages(self.blocks.into(), BLOCK_ROW);
        let entries = filter + pages(self.filter_rows.into(), FILTER_ROW);
        Layout { blocks, filter, entries, end: entries + pages(self.entries, ENTRY_ROW) }
    }

    /// The text of page 0.
    pub(super) fn text(&self) -> String {
        let header = serde_json::to_string(self).expect("numbers and strings always have a JSON form");
        format!("{MAGIC} {FORMAT}\n{header}\n")
    }

    /// Reads the header from the content of page 0.
    pub(super) fn read(object: &str, room: &[u8]) -> Result<Self, Error> {
        let text = room.split(|byte| *byte == 0).next().unwrap_or_default();
        let text = str::from_utf8(text).map_err(|error| Error::damaged(object, error.to_string()))?;
        let mut lines = text.lines();
        check_format(object, lines.next().unwrap_or_default())?;
        let header = lines.next().unwrap_or_default();
        serde_json::from_str(header).map_err(|error| Error::damaged(object, format!("its header: {error}")))
    }
}

/// Checks the first line, which every format has, before anything else is trusted.
pub(super) fn check_format(object: &str, line: &str) -> Result<(), Error> {
    let foreign = |problem| Error::Foreign { object: object.to_owned(), problem };
    let found = line.strip_prefix(MAGIC).ok_or_else(|| foreign("its first line names another format"))?;
    match found.trim().parse() {
        Ok(FORMAT) => Ok(()),
        Ok(found) => Err(Error::NewerFormat { object: object.to_owned(), found }),
        Err(_) => Err(foreign("its first line names no format number")),
    }
}

pub(super) fn rows_per_page(row: usize) -> u64 {
    u64::try_from(PAGE_ROOM / row).unwrap_or(u64::MAX)
}

/// Adds the checksum; `room` is filled up with zeros.
pub(super) fn seal(mut room: Vec<u8>) -> Vec<u8> {
    room.resize(PAGE_ROOM, 0);
    let sum = crc32fast::hash(&room);
    room.extend_from_slice(&sum.to_le_bytes());
    room
}

/// The room of a page. `None` if it is not as it was written.
pub(super) fn unseal(page: &[u8]) -> Option<&[u8]> {
    let (room, sum) = page.split_at_checked(PAGE_ROOM)?;
    (sum == crc32fast::hash(room).to_le_bytes()).then_some(room)
}

/// Hashes an id for a search. Ids and keys are in one table, so their hashes differ by a first byte.
pub(super) fn hash_of_id(id: i64) -> u64 {
    hash(b"i".iter().copied().chain(id.to_le_bytes()))
}

pub(super) fn hash_of_task_id(namespace: &str, task_id: i64) -> u64 {
    hash(b"t".iter().copied().chain(namespace.bytes()).chain([0]).chain(task_id.to_le_bytes()))
}

/// FNV-1a, finished with the mixer of splitmix64, because the high bits decide.
fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    let fnv = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let a = (fnv ^ (fnv >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    b ^ (b >> 31)
}

pub(super) fn filter_rows(entries: u64) -> u32 {
    let rows = (entries * BITS_PER_ENTRY).div_ceil(u64::from(FILTER_BITS)).max(1);
    u32::try_from(rows).unwrap_or(u32::MAX)
}

pub(super) fn filter_row(hash: u64, rows: u32) -> u32 {
    let row = ((hash >> 32) * u64::from(rows)) >> 32;
    u32::try_from(row).unwrap_or_default()
}

/// The bits of a row that a hash sets, from its low half: `(a + n * b) mod 480`, `a` its low 16 bits, `b` the next
/// 16, made odd.
pub(super) fn filter_bits(hash: u64) -> impl Iterator<Item = usize> {
    let low = |shift: u32| u32::try_from((hash >> shift) & 0xffff).unwrap_or_default();
    let (a, b) = (low(0), low(16) | 1);
    (0..BITS_SET).map(move |nth| usize::try_from((a + nth * b) % FILTER_BITS).unwrap_or_default())
}

pub(super) fn filter_set(row: &mut [u8], hash: u64) {
    for bit in filter_bits(hash) {
        if let Some(byte) = row.get_mut(bit / 8) {
            *byte |= 1 << (bit % 8);
        }
    }
}

pub(super) fn filter_may_have(row: &[u8], hash: u64) -> bool {
    filter_bits(hash).all(|bit| row.get(bit / 8).is_some_and(|byte| byte & (1 << (bit % 8)) != 0))
}

/// A block of the data object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockRow {
    pub(super) offset: u64,
    pub(super) bytes: u32,
    /// Bytes of its text.
    pub(super) text_bytes: u32,
    /// The checksum of the compressed bytes.
    pub(super) crc: u32,
}

impl BlockRow {
    pub(super) fn write(self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.offset.to_le_bytes());
        for number in [self.bytes, self.text_bytes, self.crc] {
            to.extend_from_slice(&number.to_le_bytes());
        }
    }

    pub(super) fn read(row: &[u8]) -> Option<Self> {
        let (offset, rest) = row.split_first_chunk()?;
        let (bytes, rest) = rest.split_first_chunk()?;
        let (text_bytes, rest) = rest.split_first_chunk()?;
        let number = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes);
        Some(Self {
            offset: u64::from_le_bytes(*offset),
            bytes: number(bytes),
            text_bytes: number(text_bytes),
            crc: number(rest.first_chunk()?),
        })
    }
}

/// A key, and the block that has its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct IndexEntry {
    pub(super) hash: u64,
    pub(super) block: u32,
}

impl IndexEntry {
    pub(super) fn write(self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.hash.to_le_bytes());
        to.extend_from_slice(&self.block.to_le_bytes());
    }

    pub(super) fn read(row: &[u8]) -> Option<Self> {
        let (hash, rest) = row.split_first_chunk()?;
        Some(Self { hash: u64::from_le_bytes(*hash), block: u32::from_le_bytes(*rest.first_chunk()?) })
    }
}

/// A search, of one task by its reference or of all versions of a caller's id.
#[derive(Clone, Debug)]
pub(super) enum ArchiveLookup {
    Id { id: i64, partition: Partition, place_due_at: i64 },
    TaskId { partition: Option<Partition>, namespace: Name, task_id: i64 },
}

impl ArchiveLookup {
    pub(super) fn hash(&self) -> u64 {
        match self {
            Self::Id { id, .. } => hash_of_id(*id),
            Self::TaskId { namespace, task_id, .. } => hash_of_task_id(namespace.as_str(), *task_id),
        }
    }

    /// Checks by the header alone if the archive may have the task; nothing is read for it.
    pub(super) fn may_be_in(&self, header: &Header) -> bool {
        let partition_fits = |partition: Partition| within(partition.0, header.partitions);
        match self {
            Self::Id { id, partition, place_due_at } => {
                within(*id, header.ids)
                    && partition_fits(*partition)
                    && within(*place_due_at, header.place_due_at)
            }
            Self::TaskId { partition, .. } => partition.is_none_or(partition_fits),
        }
    }
}

fn within<T: PartialOrd>(partition: T, (low, high): (T, T)) -> bool {
    low <= partition && partition <= high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_pinned_because_archives_were_written_with_them() {
        let found = [hash_of_id(0), hash_of_id(-1), hash_of_task_id("default", 42)];
        assert_eq!(found.map(|number| format!("{number:016x}")), PINNED);
    }
    const PINNED: [&str; 3] = ["167a3d75722b56e6", "dd8e61dc9f4eea65", "4cf56dea4b8145bc"];

    #[test]
    fn the_filter_has_every_key_and_one_unknown_key_in_fifty_at_most() {
        let keys = 100_000_i64;
        let rows = filter_rows(keys.unsigned_abs());
        let mut filter = vec![0; usize::try_from(rows).unwrap() * FILTER_ROW];
        let row = |hash| usize::try_from(filter_row(hash, rows)).unwrap() * FILTER_ROW;
        for hash in (0..keys).map(hash_of_id) {
            filter_set(&mut filter[row(hash)..][..FILTER_ROW], hash);
        }
        let may_have = |id| filter_may_have(&filter[row(hash_of_id(id))..][..FILTER_ROW], hash_of_id(id));
        assert!((0..keys).all(may_have));
        let passed = (keys..2 * keys).filter(|number| may_have(*number)).count();
        assert!((10..2_000).contains(&passed), "{passed} of {keys}");
    }

    #[test]
    fn a_page_that_changed_in_one_bit_is_not_believed() {
        let page = seal(b"rows".to_vec());
        assert_eq!(page.len(), PAGE);
        assert!(unseal(&page).unwrap().starts_with(b"rows\0"));
        for at in [0, 5, PAGE_ROOM - 1, PAGE - 1] {
            let mut bad = page.clone();
            bad[at] ^= 4;
            assert!(unseal(&bad).is_none(), "{at}");
        }
        assert!(unseal(&page[..PAGE - 1]).is_none());
    }

    #[test]
    fn rows_read_back() {
        let (block, entry) =
            (BlockRow { offset: 1 << 40, bytes: 2, text_bytes: 3, crc: 4 }, IndexEntry { hash: 5, block: 6 });
        let mut rows = Vec::new();
        block.write(&mut rows);
        entry.write(&mut rows);
        assert_eq!(rows.len(), BLOCK_ROW + ENTRY_ROW);
        assert_eq!(BlockRow::read(&rows), Some(block));
        assert_eq!(IndexEntry::read(&rows[BLOCK_ROW..]), Some(entry));
        assert_eq!(BlockRow::read(&rows[..BLOCK_ROW - 1]), None);
    }
}
