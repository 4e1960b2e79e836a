//! The options of a store in SQLite, and the activity of its writer. Must not open anything.

/// Rows of a large call that one job takes, so that urgent work gets between them: half a millisecond. What is no longer than
/// this is urgent itself, unless it inserts.
pub(super) const CHUNK_ROWS: usize = 10;

/// The options of a store. The number of partitions counts only when the file is created.
#[derive(Clone, Debug)]
pub struct Options {
    /// 1 to 65,535.
    pub partitions: u16,
    /// Page cache of the writer, in KiB.
    pub cache_kib: u32,
    /// Page cache of each reader, in KiB.
    pub reader_cache_kib: u32,
    /// Threads that read, at least 1.
    pub readers: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { partitions: 8, cache_kib: 64 << 10, reader_cache_kib: 16 << 10, readers: 2 }
    }
}

/// The writer's activity since it was opened; all zero in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    pub transactions: u64,
    /// Calls, and chunks of large inserts.
    pub jobs: u64,
    /// Length of the write-ahead log, in pages of 4 KiB.
    pub log_pages: u64,
}
