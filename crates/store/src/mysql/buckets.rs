//! Keeps the time axis of `task` divided into buckets: creates them ahead of time (`calendar`: wide ones over
//! centuries, which are split as they come near, unless so many tasks are in one that copying them would block all
//! writers), and drops a bucket entirely when all its tasks are over. Must never drop a task that is unfinished or
//! whose retention lasts.
//!
//! One database at a time, under a lock that belongs to the connection which changes the table. The steps of a drop,
//! and what a crash after each leaves:
//!
//! | step | a crash after it leaves | what the next run does |
//! |---|---|---|
//! | 1 look: every task is finished and its time is over, but for a few | nothing | looks again |
//! | 1a carry a batch of those few to the present: lock, move in the key, `moved`, in one transaction | the batches after it, where they were | looks again, carries what is left |
//! | 1b with archive storage: write, read and remove a trial object in its place; where that fails the bucket stays | a trial object, perhaps | tries again |
//! | 2 `gone_to` back to the start, while `task_gone` is empty | nothing | continues with 3 |
//! | 3 swap: the bucket's rows stand in `task_gone`, at once | an empty bucket; registry, moved, body and the account know the tasks still | settles, later drops the empty bucket |
//! | 4 the empty bucket leaves `task` as a table, `task_left` | as 3, without the bucket; a table with nothing in it, or with what came into the bucket since 3 | settles; puts back what is there, drops the table |
//! | 4a with archive storage: archive all that is finished, archive by archive (`export`) | archives up to a mark, perhaps one beyond it | continues at the mark; a task that is archived twice is found once |
//! | 4b count the archives as published, and mark them as whole | readers list them once too often | marks |
//! | 5 settle a batch: account, registry, moved, body and `gone_to`, in one transaction | the batches after it | continues there |
//! | 6 empty `task_gone` | nothing | – |
//!
//! From 3 on no caller changes the tasks any more (with archive storage they can be read all the time), so nothing can bring
//! one back to life while it is forgotten; what was in time to become needed between 1 and 3 is put back by 5. But for an id
//! that is inserted again: the insert takes the row back into `task` and out of `task_gone` in its own transaction, and it
//! and 5 hold the same lock (`gone_to`), so a row is revoked or settled. A storage that fails after 3 leaves the rows in
//! `task_gone`, where they can be read and revoked, until the storage is available again.
//! `unsettled` is what a count of the rows must add meanwhile. A database that has archives (`meta`) is not touched, but
//! for new buckets, by an engine that has none or others.

mod calendar;
mod carry;
mod cleanup;
mod contents;
mod export;
mod look;
mod options;
mod rate;
mod row_key;
mod session;
mod survey;
mod unwatched;

use super::{
    archive::state::place_of,
    connections::Connections,
    ownership::statement::{apart, is_lock},
    timeouts::{LASTING, elsewhere, within},
};
use crate::archive_storage::{self, ArchiveStorage};
use calendar::{Axis, TimeBucket};
use cleanup::Settling;
use contents::BucketVerdict;
use futures_util::future::{BoxFuture, join_all};
use look::Looks;
use options::hours;
use parking_lot::Mutex;
use punctual_contract::{Error, Happened};
use punctual_domain::time::Millis;
use session::{Session, TableChange};
use std::sync::Arc;
use tokio::time::Instant;
use unwatched::Walk;

pub(crate) use calendar::ahead;
pub(crate) use cleanup::{DroppedRows, dropped_rows, unsettled};
pub use options::{BucketOptions, BucketReport};
pub use survey::BucketSurvey;

/// The housekeeping of buckets. One engine is enough; two at once do each other no harm.
#[derive(Debug)]
pub struct Buckets {
    members: Members,
    options: BucketOptions,
    /// The memory of the runs in each database.
    progress: Mutex<Vec<Arc<Mutex<BucketsProgress>>>>,
    archive: Option<(Arc<ArchiveStorage>, i64)>,
}

impl Buckets {
    #[must_use]
    pub(crate) fn new(members: Members, options: BucketOptions) -> Self {
        Self { members, options, progress: Mutex::default(), archive: None }
    }

    /// Deletes nothing that is not archived before. `place` is the number of the storage's place.
    #[must_use]
    pub(crate) fn archiving_to(self, archive_storage: Arc<ArchiveStorage>, place: i64) -> Self {
        Self { archive: Some((archive_storage, place)), ..self }
    }

    /// Reports what the next runs would do with the buckets that are old enough, if they had nothing else to do.
    ///
    /// # Errors
    /// When a database does not answer.
    pub fn survey(&self, now: Millis) -> BoxFuture<'_, Result<Vec<BucketSurvey>, Error>> {
        Box::pin(async move {
            let mut surveyed = Vec::new();
            for (shard_no, pool) in (self.members.0)().into_iter().enumerate() {
                let options = self.options;
                let shard = u16::try_from(shard_no).unwrap_or(u16::MAX);
                let survey = async move { within(LASTING, survey::survey(&pool, options, shard, now)).await };
                surveyed.extend(apart("look at buckets", Happened::No, survey).await?);
            }
            Ok(surveyed)
        })
    }

    /// Every database is tried, at the same time: one that fails or does not answer keeps no other waiting.
    ///
    /// # Errors
    /// The last of those that failed.
    pub fn run_once(&self, now: Millis) -> BoxFuture<'_, Result<BucketReport, Error>> {
        Box::pin(async move { self.run(now, Scope::All).await })
    }

    /// Only makes buckets: before the first task is inserted, so that none has to be copied.
    ///
    /// # Errors
    /// Fails like `run_once`.
    pub fn make_ahead(&self, now: Millis) -> BoxFuture<'_, Result<BucketReport, Error>> {
        Box::pin(async move { self.run(now, Scope::Ahead).await })
    }

    async fn run(&self, now: Millis, scope: Scope) -> Result<BucketReport, Error> {
        let run = |(shard_no, pool): (usize, Connections)| {
            let (progress, options) = (self.progress(shard_no), self.options);
            let shard = u16::try_from(shard_no).unwrap_or(u16::MAX);
            let archive = self.archive.clone();
            let run = async move {
                let run = one((&pool, shard), (options, scope), &progress, archive, now);
                within(LASTING, Box::pin(run)).await
            };
            apart("keep buckets", Happened::Maybe, run)
        };
        let runs = join_all((self.members.0)().into_iter().enumerate().map(run)).await;
        let (mut whole, mut failed) = (BucketReport::default(), None);
        for (shard_no, ran) in runs.into_iter().enumerate() {
            match ran {
                Ok(report) => whole.add(&report),
                Err(error) => {
                    tracing::warn!(%error, shard_no, "the buckets of a database could not be kept; again at the next run");
                    failed = Some(error);
                }
            }
        }
        failed.map_or(Ok(whole), Err)
    }

    fn progress(&self, shard_no: usize) -> Arc<Mutex<BucketsProgress>> {
        let mut progress = self.progress.lock();
        while progress.len() <= shard_no {
            progress.push(Arc::default());
        }
        progress.get(shard_no).map(Arc::clone).unwrap_or_default()
    }
}

/// The progress in one database; if it is lost, the next run begins anew.
#[derive(Debug, Default)]
struct BucketsProgress {
    /// The progress of the scans of old buckets: what was over stays over.
    looks: Looks,
    walk: Walk,
}

/// The scope of a run.
#[derive(Clone, Copy, Debug)]
enum Scope {
    All,
    Ahead,
}

/// Every database of the store, as it is now: it may grow.
pub(crate) struct Members(pub(crate) Box<dyn Fn() -> Vec<Connections> + Send + Sync>);

impl std::fmt::Debug for Members {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Members")
    }
}

/// A run in one database.
async fn one(
    (pool, shard): (&Connections, u16),
    (options, scope): (BucketOptions, Scope),
    progress: &Mutex<BucketsProgress>,
    archive: Option<(Arc<ArchiveStorage>, i64)>,
    now: Millis,
) -> sqlx::Result<BucketReport> {
    let mut report = BucketReport::default();
    let Some(session) = Session::alone(pool).await? else {
        return Ok(BucketReport { busy: 1, ..report });
    };
    let budget = options.batches_per_run;
    let (archive_storage, place) = archive.unzip();
    let began = Instant::now();
    let takes_archives = None;
    let mut work = BucketService {
        session,
        shard,
        options,
        archive_storage,
        place,
        takes_archives,
        now,
        began,
        report: &mut report,
        budget,
    };
    let mut own = std::mem::take(&mut *progress.lock());
    let ran = match scope {
        Scope::All => work.run(&mut own).await,
        Scope::Ahead => work.make_ahead().await,
    };
    *progress.lock() = own;
    work.session.close().await;
    match ran {
        Err(error) if is_lock(&error) => report.busy = 1,
        other => other?,
    }
    Ok(report)
}

struct BucketService<'a> {
    session: Session,
    /// The number of this database.
    shard: u16,
    options: BucketOptions,
    archive_storage: Option<Arc<ArchiveStorage>>,
    /// The number of its place.
    place: Option<i64>,
    /// States if the archives could be written in this run. `None` if that was not tried yet.
    takes_archives: Option<bool>,
    /// The beginning of the run, on two clocks.
    now: Millis,
    began: Instant,
    report: &'a mut BucketReport,
    /// Batches that this run may still do.
    budget: u32,
}

impl BucketService<'_> {
    /// A step that fails keeps none of the others from being done.
    async fn run(&mut self, progress: &mut BucketsProgress) -> sqlx::Result<()> {
        let walked = progress.walk.go_on(&mut self.session, self.now, &mut self.report.rewatched).await;
        let made = self.make_ahead().await;
        let dropped = self.drop_old(&mut progress.looks).await;
        walked.and(made).and(dropped)
    }

    async fn drop_old(&mut self, looks: &mut Looks) -> sqlx::Result<()> {
        let known = place_of(&mut self.session.conn).await?;
        if known != self.place {
            let shard = self.shard;
            tracing::error!(
                shard,
                known,
                ours = self.place,
                "the archives of this database are elsewhere, and nothing of it is dropped; give every engine the same \
                 archive.url"
            );
            self.report.not_archived += 1;
            return Ok(());
        }
        self.session.drop_detached().await?;
        if !self.settle().await? {
            return Ok(());
        }
        let buckets = self.session.buckets().await?;
        looks.keep_only(&buckets);
        let latest_end = self.now.0.saturating_sub(hours(self.options.keep_hours.max(1)));
        for bucket in buckets.iter().filter(|bucket| bucket.ends_at.is_some_and(|end| end <= latest_end)) {
            self.report.looked += 1;
            if !self.drop_if_over(bucket, looks).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Cuts the last bucket, and those that have come near. One with many tasks stays as wide as it is: they would be
    /// copied while no engine can write.
    async fn make_ahead(&mut self) -> sqlx::Result<()> {
        let rate = self.session.measure(self.now).await?;
        let buckets = self.session.buckets().await?;
        let last_end = buckets.iter().rev().find_map(|bucket| bucket.ends_at);
        let widest = match last_end {
            None if !rate.is_known() => self.options.first_hours.min(self.options.width_hours),
            _ => self.options.width_hours,
        };
        let width_hours = rate.width_hours(widest, self.options.rows);
        if width_hours < self.options.width_hours {
            tracing::debug!(shard = self.shard, width_hours, ?rate, "buckets are narrower than asked for");
        }
        self.report.narrowest_hours = width_hours;
        let axis = Axis {
            now: self.now.0,
            until: self.now.plus(hours(self.options.ahead_hours)).0,
            width_ms: hours(width_hours),
        };
        let most = u64::from(self.options.cut_rows);
        for bucket in &buckets {
            let pieces = axis.pieces(bucket, last_end);
            if pieces.is_empty() {
                continue;
            }
            let rows = self.session.rows_upto(bucket, most + 1).await?;
            if bucket.ends_at.is_none() {
                self.report.far_rows = rows;
            }
            if rows <= most {
                self.changed(TableChange::Cut(&bucket.name, &pieces)).await?;
                self.report.made += pieces.len() - 1;
            } else if bucket.ends_at.is_some() {
                self.report.wide += 1;
            } else {
                self.report.uncut += 1;
                tracing::error!(
                    shard = self.shard,
                    most,
                    "too many tasks are in the last bucket, which has no end, and it is not cut: cutting blocks all writes while rows are copied; at a quiet hour: punctual shard archive --cut-rows"
                );
            }
        }
        self.session.keep_wide(self.report.wide).await
    }

    /// False if the budget is spent.
    async fn drop_if_over(&mut self, bucket: &TimeBucket, looks: &mut Looks) -> sqlx::Result<bool> {
        let asked = (self.now, self.options.carry_rows);
        let found = look::look(&mut self.session, bucket, looks, asked, &mut self.budget).await?;
        let is_over = match found {
            Some(BucketVerdict::Stopping | BucketVerdict::Needed) => {
                self.report.kept += 1;
                return Ok(true);
            }
            Some(BucketVerdict::Empty) => {
                self.drop(bucket).await?;
                return Ok(true);
            }
            // Once it is swapped out it waits for its archive, and its tasks cannot be changed meanwhile.
            Some(BucketVerdict::AllOver | BucketVerdict::Carry) if !self.takes_archives().await => {
                self.report.kept += 1;
                return Ok(true);
            }
            Some(BucketVerdict::AllOver) => true,
            Some(BucketVerdict::Carry) => self.carry(bucket, looks).await?,
            None => false,
        };
        if !is_over {
            self.report.is_unfinished = true;
            return Ok(false);
        }
        self.session.prepare_swap().await?;
        self.changed(TableChange::Swap(&bucket.name)).await?;
        self.drop(bucket).await?;
        self.settle().await
    }

    /// Drops a bucket. No caller puts tasks into a bucket of long ago. If one is there nevertheless, it stays, and so
    /// does the bucket; one that arrives at the last moment is moved back.
    async fn drop(&mut self, bucket: &TimeBucket) -> sqlx::Result<()> {
        if !self.session.has_rows(bucket).await? {
            self.changed(TableChange::Drop(&bucket.name)).await?;
            self.session.drop_detached().await?;
            self.report.dropped += 1;
        }
        Ok(())
    }

    /// False if the budget is spent, or nothing can be archived now.
    async fn settle(&mut self) -> sqlx::Result<bool> {
        if !self.session.has_gone_rows().await? {
            return Ok(true);
        }
        if !self.archive().await? {
            self.report.is_unfinished = true;
            return Ok(false);
        }
        let mut settling = Settling::go_on(&mut self.session.conn, self.options.batch_rows, self.now).await?;
        while settling.is_left(&mut self.session.conn).await? {
            if self.budget == 0 {
                self.report.is_unfinished = true;
                return Ok(false);
            }
            self.budget -= 1;
            let Some(forgotten) = settling.batch(&mut self.session.conn).await? else {
                // A partition is closed, because it is about to leave: the account must stand still meanwhile.
                self.report.is_unfinished = true;
                return Ok(false);
            };
            self.report.forgotten += forgotten;
        }
        self.changed(TableChange::Empty).await?;
        Ok(true)
    }

    /// Tried once in a run, before the first bucket is swapped out.
    async fn takes_archives(&mut self) -> bool {
        let Some(archive_storage) = &self.archive_storage else { return true };
        if self.takes_archives.is_none() {
            let tried = elsewhere(archive_storage.try_place(self.shard, self.now)).await;
            if let Err(error) = &tried {
                tracing::error!(%error, shard = self.shard, "archives cannot be written, and old buckets stay; again at the next run");
                self.report.not_archived += 1;
            }
            self.takes_archives = Some(tried.is_ok());
        }
        self.takes_archives.unwrap_or_default()
    }

    /// Returns true if everything that will be deleted is archived.
    async fn archive(&mut self) -> sqlx::Result<bool> {
        let Some(archive_storage) = &self.archive_storage else { return Ok(true) };
        let conn = &mut self.session.conn;
        let settled = cleanup::done_to(conn).await?;
        match export::export(conn, (archive_storage, self.shard), settled, self.now, &mut self.budget).await {
            Ok(exported) => {
                self.report.archived += exported.tasks;
                self.report.archived_bytes += exported.bytes;
                Ok(exported.is_whole)
            }
            Err(archive_storage::Error::Source(error)) => Err(export::database(error)),
            Err(error) => {
                tracing::error!(%error, shard = self.shard, "tasks could not be archived, and are kept; again at the next run");
                self.report.not_archived += 1;
                Ok(false)
            }
        }
    }

    async fn changed(&mut self, change: TableChange<'_>) -> sqlx::Result<()> {
        let began = Instant::now();
        self.session.change(change).await?;
        if matches!(change, TableChange::Empty) {
            // Of a table that no other connection writes.
            return Ok(());
        }
        self.report.longest_change = self.report.longest_change.max(began.elapsed());
        Ok(())
    }
}
