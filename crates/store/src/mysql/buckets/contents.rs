//! The contents of an old bucket, and the decision that follows. Must not read a database.

/// Tasks that are always few enough to be carried over.
const CARRY_FEW: u64 = 100;
/// The maximum fraction of a bucket to move: moving one row costs about as much as keeping ten.
const CARRY_PART: u64 = 10;

/// The contents of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BucketContents {
    pub(super) rows: u64,
    /// Tasks that are not finished.
    pub(super) unfinished: u64,
    /// Finished, and their times are not over.
    pub(super) retained: u64,
    /// Successes whose time is over, which retention has not come to yet.
    pub(super) stopping: u64,
}

impl BucketContents {
    pub(super) fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.unfinished += other.unfinished;
        self.retained += other.retained;
        self.stopping += other.stopping;
    }

    pub(super) const fn needed(&self) -> u64 {
        self.unfinished + self.retained
    }

    /// The decision about the bucket.
    pub(super) fn verdict(&self, carry_rows: u32) -> BucketVerdict {
        let most = (self.rows / CARRY_PART).max(CARRY_FEW).min(carry_rows.into());
        match (self.rows, self.stopping, self.needed()) {
            (0, ..) => BucketVerdict::Empty,
            (_, 1.., _) => BucketVerdict::Stopping,
            (_, 0, 0) => BucketVerdict::AllOver,
            (_, 0, needed) if needed <= most => BucketVerdict::Carry,
            _ => BucketVerdict::Needed,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BucketVerdict {
    Empty,
    /// All tasks are finished and their times are over.
    AllOver,
    /// All but so few that they can be moved to the present.
    Carry,
    /// It stays for now: retention has not come to it yet.
    Stopping,
    /// It stays: too many of its tasks are needed.
    Needed,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(rows: u64, unfinished: u64, retained: u64, stopping: u64) -> BucketContents {
        BucketContents { rows, unfinished, retained, stopping }
    }

    #[test]
    fn few_are_carried_over_and_many_keep_their_bucket() {
        for (contents, verdict) in [
            (contents(0, 0, 0, 0), BucketVerdict::Empty),
            (contents(10_000_000, 0, 0, 0), BucketVerdict::AllOver),
            (contents(10_000_000, 1, 0, 0), BucketVerdict::Carry),
            (contents(10_000_000, 40_000, 10_000, 0), BucketVerdict::Carry),
            (contents(10_000_000, 40_000, 10_001, 0), BucketVerdict::Needed),
            (contents(5_000, 500, 0, 0), BucketVerdict::Carry),
            (contents(5_000, 400, 101, 0), BucketVerdict::Needed),
            (contents(100, 0, 100, 0), BucketVerdict::Carry),
            (contents(101, 0, 101, 0), BucketVerdict::Needed),
            (contents(1_000, 1, 0, 1), BucketVerdict::Stopping),
        ] {
            assert_eq!(contents.verdict(50_000), verdict, "{contents:?}");
        }
    }
}
