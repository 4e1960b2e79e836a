//! The options of buckets, and the report of a run. Must not read a database.

use punctual_domain::time::Span;
use std::{fmt, time::Duration};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketOptions {
    /// The maximum width of buckets near the present, in hours: at least 1. Existing buckets stay as they are.
    pub width_hours: u32,
    /// The same of those that are made first, before it is known how many tasks come: narrow ones cost little while they are
    /// empty, and what is in a wide one cannot be cut any more.
    pub first_hours: u32,
    /// The target number of tasks of a bucket: where more arrive, by the measured rate, buckets have an integer
    /// fraction of the width.
    pub rows: u64,
    /// The horizon within which buckets have this width. Beyond it they are wider, up to a quarter of their distance,
    /// and are split as they come near.
    pub ahead_hours: u32,
    /// The minimum age of the latest task of a bucket that is dropped. Retention of single tasks applies in addition.
    /// At least 1.
    pub keep_hours: u32,
    /// The maximum number of needed tasks of an old bucket that are moved to the present so that the bucket can be
    /// dropped; and no more than a tenth of it, or a hundred. With more of them the bucket stays.
    pub carry_rows: u32,
    /// Tasks that are settled in one transaction.
    pub batch_rows: u32,
    /// Transactions of one run, in each database.
    pub batches_per_run: u32,
    /// A bucket with more tasks is not cut: they would be copied while no engine can write, 10,000 in less than half a second.
    pub cut_rows: u32,
}

impl Default for BucketOptions {
    fn default() -> Self {
        Self {
            width_hours: 24,
            first_hours: 4,
            rows: 10_000_000,
            ahead_hours: 8 * 24,
            keep_hours: 7 * 24,
            carry_rows: 100_000,
            batch_rows: 1_000,
            batches_per_run: 2_000,
            cut_rows: 10_000,
        }
    }
}

/// The result of a run, over all databases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BucketReport {
    pub made: usize,
    /// Old enough to be dropped.
    pub looked: usize,
    pub dropped: usize,
    /// Tasks that were moved to the present, because they are still needed and their bucket was dropped.
    pub carried: u64,
    /// Tasks in flight that got the entry by which the end of their lease is found: they had none. 0, unless something
    /// went wrong before.
    pub rewatched: u64,
    /// Tasks that were written to archive storage.
    pub archived: u64,
    /// The number of bytes in archive storage: data and indexes.
    pub archived_bytes: u64,
    /// The number of databases whose archives could not be written, so that nothing of them was deleted: the reason
    /// is in the log.
    pub not_archived: usize,
    /// Tasks whose registry entries, bodies and account are settled.
    pub forgotten: u64,
    /// Old buckets that stay, because too many tasks in them are needed, or retention has not come to them yet.
    pub kept: usize,
    /// Rows of dropped buckets, or pieces of old ones, were left for the next run.
    pub is_unfinished: bool,
    /// Databases left alone, because another works on their buckets, or statements were under way for too long.
    pub busy: usize,
    /// Rows in the last buckets, which have no end, where these had to be cut; in each database counted no further than
    /// one more than a cut may copy.
    pub far_rows: u64,
    /// Buckets that stay wider than they should be, because too many tasks stand in them.
    pub wide: usize,
    /// The number of databases whose last bucket could not be split for that reason: new tasks are inserted into it.
    pub uncut: usize,
    /// The smallest width of new buckets near the present, in hours; 0 if none had to be created.
    pub narrowest_hours: u32,
    /// The longest duration of a change of the tasks' table, in which tasks wait: a new bucket, a swap, a drop.
    pub longest_change: Duration,
}

/// Describes the results that are not zero, counted over all databases.
impl fmt::Display for BucketReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let counts = [
            (of(self.made), "made"),
            (of(self.dropped), "dropped"),
            (of(self.kept), "old ones kept"),
            (of(self.wide), "too wide"),
            (self.carried, "tasks carried to the present"),
            (self.rewatched, "leases watched again"),
            (self.archived, "tasks archived"),
            (self.archived_bytes, "bytes archived"),
            (self.forgotten, "tasks forgotten"),
            (self.far_rows, "tasks in the last bucket"),
            (of(self.busy), "databases busy"),
            (of(self.not_archived), "databases without an archive"),
            (of(self.uncut), "databases whose last bucket is too full to cut"),
        ];
        for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, "{count} {what}, ")?;
        }
        if self.narrowest_hours > 0 {
            write!(f, "{} h wide, ", self.narrowest_hours)?;
        }
        let (change, left) = (Span::of(self.longest_change), self.is_unfinished);
        write!(f, "longest change {change}{}", if left { ", more is left for the next run" } else { "" })
    }
}

impl BucketReport {
    /// True if nothing was done, and nothing is wrong.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let Self { looked, kept, wide, narrowest_hours, .. } = *self;
        *self == Self { looked, kept, wide, narrowest_hours, ..Self::default() }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.made += other.made;
        self.looked += other.looked;
        self.dropped += other.dropped;
        self.carried += other.carried;
        self.rewatched += other.rewatched;
        self.archived += other.archived;
        self.archived_bytes += other.archived_bytes;
        self.not_archived += other.not_archived;
        self.forgotten += other.forgotten;
        self.kept += other.kept;
        self.is_unfinished |= other.is_unfinished;
        self.busy += other.busy;
        self.far_rows += other.far_rows;
        self.wide += other.wide;
        self.uncut += other.uncut;
        let widths = [self.narrowest_hours, other.narrowest_hours].into_iter().filter(|width| *width > 0);
        self.narrowest_hours = widths.min().unwrap_or_default();
        self.longest_change = self.longest_change.max(other.longest_change);
    }
}

pub(super) fn hours(hours: u32) -> i64 {
    i64::from(hours) * 3_600_000
}
