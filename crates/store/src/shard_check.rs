//! What a check by hand finds of one database, of either back end. Must not read anything itself.

use punctual_contract::{ledger::LedgerCount, store::Books};
use punctual_domain::place::Partition;

/// The account of one database against its rows, of one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardCheck {
    pub shard_no: usize,
    pub books: Books,
    /// Counted from the rows.
    pub counted: Books,
    /// The account lacks the bytes of payloads from before it knew them: they are being counted, or will be by the next engine.
    pub bytes_uncounted: bool,
    /// Entries of the registry that lead to no task.
    pub entries_alone: i64,
    /// Moved places of tasks that are not there.
    pub places_alone: i64,
    /// Partitions that the catalog has here, and this database does not, or the other way round; none of a move that is
    /// not over.
    pub misplaced: Vec<Partition>,
    /// Partitions of which rows are here that are elsewhere: left over from a move that was never finished, or copies of
    /// one that is not over. No reader reads them.
    pub strangers: Vec<Partition>,
    /// Every row against account and register, on a snapshot of its own.
    pub ledger: LedgerCount,
}

impl ShardCheck {
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let Books { accepted, deleted, tallies, pending_bytes } = &self.counted;
        let tasks_agree = (&self.books.accepted, &self.books.deleted) == (accepted, deleted)
            && self.books.tallies == *tallies
            && self.books.unaccounted() == 0;
        let bytes_agree = self.bytes_uncounted || self.books.pending_bytes == *pending_bytes;
        tasks_agree
            && bytes_agree
            && self.ledger.unaccounted() == 0
            && self.entries_alone == 0
            && self.places_alone == 0
            && self.misplaced.is_empty()
    }
}
