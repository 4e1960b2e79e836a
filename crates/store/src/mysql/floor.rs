//! The floor of a partition: the instant from which its unfinished tasks begin. A search for overdue tasks would
//! otherwise read all the finished tasks of days, every second: no index marks them as finished. A floor is only
//! remembered, never stored, and rests on what no engine can undo: a finished task waits again only at a later time,
//! and no row appears far behind the present. Passed unfinished tasks are remembered one by one. Must never pass a
//! row that may still appear. Most reads begin further on, at a second floor, which trusts that rows appear within
//! seconds; once a minute one does not, and finds what was committed later than that by an engine that died before it
//! could load it. Nor do reads trust it while a database has just been silent: what it commits when it continues may
//! have been due long before.

use super::{
    late_commits::LateCommits,
    parameters::wanted,
    row,
    statements::{sql, with_numbers},
};
use parking_lot::Mutex;
use punctual_domain::{
    place::{Partition, TaskRef},
    time::Millis,
};
use sqlx::{MySqlConnection, Row as _, mysql::MySqlRow};
use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
};

/// The maximum delay of a new row: more than the wait for a moving partition, a transaction, and clock skew.
const LATE_MS: i64 = 60_000;
/// The time after which nearly every row has appeared. Most reads trust in that, and skip what was finished since.
const SOON_MS: i64 = 4_000;
/// Unfinished tasks that are remembered in one partition; a floor stays where there are more.
const LEFT_MAX: usize = 1_000;
/// The same maximum for the floor of most reads: a look-up of each costs as much as ten rows that are read in order.
const LEFT_SOON_MAX: usize = 50;
/// Rows of one statement, and of one walk: the first one after a start has days before it.
const CHUNK_ROWS: i64 = 2_000;
const CHUNKS_MAX: usize = 200;
/// A walk over no more than this is one statement, whose answer has only what is unfinished.
const SHORT_MS: i64 = 10_000;
/// Calls that are made side by side may say times that differ by this much.
const BACK_MS: i64 = 2_000;
/// One of this many reads trusts in nothing that is less than a minute old: one read a second.
const LOOKS: u32 = 60;
/// The pause after which a read does not trust. Less than `SOON_MS`: a database that was silent so long has no reads.
const STALE_MS: i64 = 3_000;
/// The time after a silence in which rows may appear behind the second floor: a running transaction may be as old.
const DOUBT_MS: i64 = 10_000;
/// The interval, meanwhile, of reads that do not trust: they read a minute's rows, which a slow database must bear.
const DOUBTED_EVERY_MS: i64 = 3_000;

pub(crate) type Key = (Millis, i64);

/// The floors of all partitions.
#[derive(Debug, Default)]
pub(crate) struct Floors {
    floors: Mutex<AllKept>,
    /// The latest time of the engine's clock since it last went back, in milliseconds; 0 if it is not known yet.
    present: AtomicI64,
    late: Arc<LateCommits>,
}

#[derive(Debug, Default)]
struct AllKept {
    kept: HashMap<Partition, Watermarks>,
    /// The number of resets: what was read before a reset must not be stored.
    beginnings: u64,
}

#[derive(Clone, Debug, Default)]
struct Watermarks {
    floor: Floor,
    /// Further on: no row appears behind it unless it was committed long after it was due.
    soon: Floor,
    looks: u32,
    looked_at: Millis,
    /// The time of the last read that trusted in nothing that was less than a minute old.
    wholly_at: Millis,
    /// The second floor is doubted until then: no read was possible for a while.
    doubted_until: Millis,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Floor {
    /// Everything up to here is finished, or is `left`. `None` if nothing is known.
    pub(crate) passed: Option<Key>,
    /// Unfinished when they were passed.
    pub(crate) left: BTreeSet<Key>,
}

/// A running read from the beginning.
#[derive(Debug)]
pub(crate) struct FullScan {
    partition: Partition,
    kept: Watermarks,
    beginnings: u64,
    present: Millis,
    /// It moves the second floor, and begins there.
    trusts: bool,
    bounds: Bounds,
}

impl FullScan {
    const fn moving(&mut self) -> &mut Floor {
        if self.trusts { &mut self.kept.soon } else { &mut self.kept.floor }
    }

    fn moved(&mut self) {
        if !self.trusts {
            self.kept.soon = self.kept.floor.clone();
            (self.kept.looks, self.kept.wholly_at) = (0, self.present);
        }
    }

    /// The floor where the read begins, once it is moved.
    pub(crate) const fn begins_at(&self) -> &Floor {
        &self.kept.soon
    }

    /// Moves the floor by statements of its own.
    pub(crate) async fn walk(&mut self, conn: &mut MySqlConnection) -> sqlx::Result<()> {
        let (partition, bounds) = (self.partition, self.bounds);
        self.moving().walk(conn, partition, bounds).await?;
        self.moved();
        Ok(())
    }

    /// The walk as a part of a text of several statements, if it is a short one: the statement walk_unfinished.
    pub(crate) fn short_walk(&mut self) -> Option<String> {
        let (number, bounds) = (i64::from(row::partition_no(self.partition)), self.bounds);
        let floor = self.moving();
        let (due_at, id) = floor.short_from(bounds)?;
        let limit = i64::try_from(floor.room(bounds) + 1).unwrap_or(i64::MAX);
        let values = [number, due_at.0, bounds.until.0, number, due_at.0, id, limit];
        Some(with_numbers(sql!(scan, walk_unfinished), &values))
    }

    /// The position of the floor if the short walk leaves room: the rows after it can be read together with the walk.
    pub(crate) const fn after_short_walk(&self) -> Key {
        self.bounds.end()
    }

    /// The answer to the short walk. False if the floor does not come as far as `after_short_walk`.
    pub(crate) fn walked(&mut self, rows: &[MySqlRow]) -> sqlx::Result<bool> {
        let keys: sqlx::Result<Vec<Key>> = rows.iter().map(key).collect();
        let (keys, bounds, end) = (keys?, self.bounds, self.after_short_walk());
        let floor = self.moving();
        floor.pass_short(&keys, bounds);
        let is_there = floor.passed == Some(end);
        self.moved();
        Ok(is_there)
    }
}

/// The limits that a floor does not pass.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    until: Millis,
    left_max: usize,
}

impl Bounds {
    /// The last key that may be passed.
    const fn end(self) -> Key {
        (Millis(self.until.0 - 1), i64::MAX)
    }
}

impl Floors {
    pub(crate) fn new(late: Arc<LateCommits>) -> Self {
        Self { late, ..Self::default() }
    }

    /// Records the time of the engine. If it goes back, no floor is valid any more: rows may appear behind it.
    pub(crate) fn observe_time(&self, now: Millis) {
        let before = self.present.fetch_max(now.0, Relaxed);
        if before.saturating_sub(now.0) > BACK_MS {
            self.present.store(now.0, Relaxed);
            tracing::warn!(back_ms = before - now.0, "time went back: what is finished is looked up again");
            let mut floors = self.floors.lock();
            floors.beginnings += 1;
            floors.kept.clear();
        }
    }

    /// Begins a read from the beginning: decides which floor is moved before it, and how far.
    pub(crate) fn begin(&self, partition: Partition) -> FullScan {
        let present = Millis(self.present.load(Relaxed));
        let (mut kept, beginnings) = {
            let floors = self.floors.lock();
            (floors.kept.get(&partition).cloned().unwrap_or_default(), floors.beginnings)
        };
        if kept.is_stale(present) {
            kept.doubted_until = present.plus(DOUBT_MS);
        }
        let trusts = kept.trusts(present, self.late.are_recent());
        let bounds = if trusts {
            Bounds { until: present.plus(-SOON_MS), left_max: LEFT_SOON_MAX }
        } else {
            Bounds { until: present.plus(-LATE_MS), left_max: LEFT_MAX }
        };
        FullScan { partition, kept, beginnings, present, trusts, bounds }
    }

    /// Stores the result of a read that has ended, if the database had its partition until then. Tasks that another
    /// read has removed meanwhile are not stored.
    pub(crate) fn keep(&self, look: FullScan) {
        let FullScan { partition, mut kept, beginnings, present, .. } = look;
        kept.looks += 1;
        kept.looked_at = present;
        let mut floors = self.floors.lock();
        if floors.beginnings == beginnings {
            floors.kept.insert(partition, kept);
        }
    }

    /// The certain floor, for a read that continues where another stopped.
    pub(crate) fn of(&self, partition: Partition) -> Floor {
        self.floors.lock().kept.get(&partition).map(|kept| kept.floor.clone()).unwrap_or_default()
    }

    /// Most of what is due by then is finished.
    pub(crate) fn is_past(&self, due_at: Millis) -> bool {
        due_at.0 < self.present.load(Relaxed)
    }

    /// Removes tasks that are finished or have another time now.
    pub(crate) fn forget(&self, partition: Partition, over: &BTreeSet<Key>) {
        if let Some(Watermarks { floor, soon, .. }) = self.floors.lock().kept.get_mut(&partition) {
            floor.left.retain(|pair| !over.contains(pair));
            soon.left.retain(|pair| !over.contains(pair));
        }
    }
}

/// A row that a walk meets.
#[derive(Clone, Copy, Debug)]
struct Met {
    key: Key,
    is_finished: bool,
}

impl Watermarks {
    /// True if there was no read for a while: the database was silent, or this engine did not have the partition.
    fn is_stale(&self, present: Millis) -> bool {
        present.since(self.looked_at).abs() > STALE_MS
    }

    /// True if the next read begins at the second floor. `are_late` states that transactions of this engine took long
    /// lately.
    fn trusts(&self, present: Millis, are_late: bool) -> bool {
        let is_doubted = are_late || present.0 < self.doubted_until.0;
        let is_due = is_doubted && present.since(self.wholly_at).abs() >= DOUBTED_EVERY_MS;
        self.looks > 0 && self.looks < LOOKS && !self.is_stale(present) && !is_due
    }
}

impl Floor {
    async fn walk(
        &mut self,
        conn: &mut MySqlConnection,
        partition: Partition,
        bounds: Bounds,
    ) -> sqlx::Result<()> {
        let number = row::partition_no(partition);
        if let Some((due_at, id)) = self.short_from(bounds) {
            let limit = self.room(bounds) + 1;
            let walk =
                sqlx::query(sql!(scan, walk_unfinished)).bind(number).bind(due_at.0).bind(bounds.until.0);
            let walk = walk.bind(number).bind(due_at.0).bind(id);
            let met = walk.bind(i64::try_from(limit).unwrap_or(i64::MAX)).fetch_all(conn).await?;
            let keys: sqlx::Result<Vec<Key>> = met.iter().map(key).collect();
            self.pass_short(&keys?, bounds);
            return Ok(());
        }
        for _ in 0..CHUNKS_MAX {
            let (due_at, id) = self.passed.unwrap_or((Millis(-1), i64::MAX));
            let walk = sqlx::query(sql!(scan, walk)).bind(number).bind(due_at.0).bind(bounds.until.0);
            let walk = walk.bind(number).bind(due_at.0).bind(id).bind(CHUNK_ROWS);
            let met: sqlx::Result<Vec<Met>> = walk.fetch_all(&mut *conn).await?.iter().map(met).collect();
            if self.pass_chunk(&met?, bounds) {
                break;
            }
        }
        Ok(())
    }

    /// The next rows before the bound, in order. Whether the walk ends with them.
    fn pass_chunk(&mut self, met: &[Met], bounds: Bounds) -> bool {
        let passed = self.pass(met, bounds);
        if passed < met.len() {
            return true;
        }
        let is_last = met.len() < usize::try_from(CHUNK_ROWS).unwrap_or(usize::MAX);
        if is_last {
            self.passed = self.passed.max(Some(bounds.end()));
        }
        is_last
    }

    /// The beginning of a walk that is one statement.
    fn short_from(&self, bounds: Bounds) -> Option<Key> {
        self.passed.filter(|passed| bounds.until.since(passed.0) <= SHORT_MS)
    }

    /// The number of further tasks that may be left behind.
    fn room(&self, bounds: Bounds) -> usize {
        bounds.left_max.saturating_sub(self.left.len())
    }

    /// Adds the unfinished tasks between the floor and the bound, in order: all of them, or one more than there is
    /// room for.
    fn pass_short(&mut self, unfinished: &[Key], bounds: Bounds) {
        let room = self.room(bounds);
        // The clock may have gone back, to before the floor.
        let unfinished = unfinished.split_at(unfinished.partition_point(|pair| pair.0 < bounds.until)).0;
        self.left.extend(unfinished.iter().take(room));
        let passed = match unfinished.get(room) {
            Some((due_at, id)) => (*due_at, id - 1),
            None => bounds.end(),
        };
        self.passed = self.passed.max(Some(passed));
    }

    /// Rows in order. Answers how many it passed.
    fn pass(&mut self, met: &[Met], bounds: Bounds) -> usize {
        let mut passed = 0;
        for met in met {
            let is_old = met.key.0 < bounds.until;
            if !is_old || (!met.is_finished && self.left.len() >= bounds.left_max) {
                break;
            }
            if !met.is_finished {
                self.left.insert(met.key);
            }
            self.passed = self.passed.max(Some(met.key));
            passed += 1;
        }
        passed
    }

    /// Reads the tasks that were left behind and come after a key: rows with the columns of `scan` in scan.sql, in
    /// order, and the keys that are over.
    pub(crate) async fn behind(
        &self,
        conn: &mut MySqlConnection,
        partition: Partition,
        after: Option<Key>,
    ) -> sqlx::Result<(Vec<MySqlRow>, BTreeSet<Key>)> {
        let mut over: BTreeSet<Key> =
            self.left.iter().copied().filter(|pair| after.is_none_or(|after| *pair > after)).collect();
        if over.is_empty() {
            return Ok((Vec::new(), over));
        }
        let place = |pair: &Key| TaskRef { partition, due_at: pair.0, id: pair.1 };
        let places: Vec<TaskRef> = over.iter().map(place).collect();
        let mut rows = Vec::new();
        for row in sqlx::query(sql!(scan, read_unfinished)).bind(wanted(&places)).fetch_all(conn).await? {
            let key = (row::millis(&row, 2)?, row.try_get(0)?);
            over.remove(&key);
            rows.push((key, row));
        }
        rows.sort_unstable_by_key(|row| row.0);
        Ok((rows.into_iter().map(|row| row.1).collect(), over))
    }
}

/// Columns of `walk_unfinished` in scan.sql, the first of `walk` in scan.sql.
fn key(row: &MySqlRow) -> sqlx::Result<Key> {
    Ok((row::millis(row, 0)?, row.try_get(1)?))
}

/// Columns of `walk` in scan.sql.
fn met(row: &MySqlRow) -> sqlx::Result<Met> {
    Ok(Met { key: key(row)?, is_finished: row.try_get(2)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000_000;

    fn until(present: i64) -> Bounds {
        Bounds { until: Millis(present).plus(-LATE_MS), left_max: LEFT_MAX }
    }

    fn met(due_at: i64, id: i64, is_finished: bool) -> Met {
        Met { key: (Millis(due_at), id), is_finished }
    }

    #[test]
    fn finished_rows_are_passed_up_to_the_time_at_which_new_ones_may_appear() {
        let mut floor = Floor::default();
        let rows =
            [met(1, 1, true), met(1, 2, true), met(NOW - LATE_MS - 1, 3, true), met(NOW - LATE_MS, 4, true)];
        assert_eq!(floor.pass(&rows, until(NOW)), 3);
        assert_eq!(floor.passed, Some((Millis(NOW - LATE_MS - 1), 3)));
        assert_eq!(floor.pass(&[], until(i64::MAX)), 0);
        assert_eq!(floor.passed, Some((Millis(NOW - LATE_MS - 1), 3)));
    }

    #[test]
    fn a_walk_that_has_met_all_rows_has_passed_all_there_is_before_its_bound() {
        let (mut floor, bounds) = (Floor { passed: None, ..Floor::default() }, until(NOW));
        assert!(floor.pass_chunk(&[], bounds), "nothing is there");
        assert_eq!(floor.passed, Some(bounds.end()));
        assert!(floor.pass_chunk(&[met(1, 1, true)], until(NOW - 1)), "it never goes back");
        assert_eq!(floor.passed, Some(bounds.end()));
        let mut held = Floor::default();
        let rows: Vec<Met> = (0..=i64::try_from(LEFT_MAX).unwrap()).map(|id| met(id, id, false)).collect();
        assert!(held.pass_chunk(&rows, bounds), "no room for the last one");
        let last = i64::try_from(LEFT_MAX).unwrap() - 1;
        assert_eq!(held.passed, Some((Millis(last), last)));
        let chunk: Vec<Met> = (0..CHUNK_ROWS).map(|id| met(id, id, true)).collect();
        let mut long = Floor::default();
        assert!(!long.pass_chunk(&chunk, bounds), "there may be more");
        assert_eq!(long.passed, Some((Millis(CHUNK_ROWS - 1), CHUNK_ROWS - 1)));
    }

    #[test]
    fn unfinished_rows_are_remembered_and_too_many_hold_the_floor() {
        let mut floor = Floor::default();
        let many = i64::try_from(LEFT_MAX).unwrap();
        let rows: Vec<Met> = (0..many + 5).map(|id| met(id, id, false)).collect();
        assert_eq!(floor.pass(&rows, until(NOW)), LEFT_MAX);
        assert_eq!((floor.left.len(), floor.passed), (LEFT_MAX, Some((Millis(many - 1), many - 1))));
        assert_eq!(floor.pass(&rows[LEFT_MAX..], until(NOW)), 0);
    }

    #[test]
    fn a_short_walk_passes_what_it_was_not_shown_and_stops_where_there_is_no_room() {
        let bounds = Bounds { until: Millis(100), left_max: 2 };
        let mut floor = Floor { passed: Some((Millis(50), 7)), ..Floor::default() };
        floor.pass_short(&[(Millis(60), 1)], bounds);
        assert_eq!(floor.passed, Some((Millis(99), i64::MAX)), "nothing at the bound itself");
        assert_eq!(floor.left, [(Millis(60), 1)].into());
        let bounds = Bounds { until: Millis(200), ..bounds };
        floor.pass_short(&[(Millis(110), 5), (Millis(110), 9)], bounds);
        assert_eq!(floor.passed, Some((Millis(110), 8)), "up to the one for which there is no room");
        assert_eq!(floor.left, [(Millis(60), 1), (Millis(110), 5)].into());
        floor.pass_short(&[], Bounds { until: Millis(90), ..bounds });
        assert_eq!(floor.passed, Some((Millis(110), 8)), "it never goes back");
    }

    #[test]
    fn what_is_forgotten_leaves_the_rest() {
        let floors = Floors::default();
        let mut floor = Floor::default();
        floor.pass(&[met(1, 1, false), met(2, 2, false)], until(NOW));
        floors.floors.lock().kept.insert(Partition(3), Watermarks { floor, ..Watermarks::default() });
        floors.forget(Partition(3), &[(Millis(1), 1)].into());
        assert_eq!(floors.of(Partition(3)).left, [(Millis(2), 2)].into());
        assert_eq!(floors.of(Partition(4)).left, BTreeSet::new());
    }

    #[test]
    fn when_time_goes_back_floors_go_back_and_what_was_read_before_is_not_kept() {
        let floors = Floors::default();
        floors.observe_time(Millis(NOW));
        let mut floor = Floor::default();
        floor.pass(&[met(1, 1, true)], until(NOW));
        floors.floors.lock().kept.insert(Partition(3), Watermarks { floor, ..Watermarks::default() });
        floors.observe_time(Millis(NOW - BACK_MS));
        assert_eq!(floors.of(Partition(3)).passed, Some((Millis(1), 1)), "calls side by side");
        floors.observe_time(Millis(NOW - 2 * BACK_MS - 1));
        assert_eq!(floors.of(Partition(3)).passed, None);
        assert_eq!(floors.floors.lock().beginnings, 1);
    }

    #[test]
    fn a_look_trusts_in_what_is_new_only_for_a_minute_and_only_while_somebody_looks() {
        let mut kept = Watermarks { looked_at: Millis(NOW), ..Watermarks::default() };
        assert!(!kept.trusts(Millis(NOW), false), "the first one");
        kept.looks = 1;
        assert!(kept.trusts(Millis(NOW), false) && kept.trusts(Millis(NOW + STALE_MS), false));
        let beyond = [NOW + STALE_MS + 1, NOW - STALE_MS - 1];
        assert!(beyond.iter().all(|present| !kept.trusts(Millis(*present), false)));
        kept.looks = LOOKS;
        assert!(!kept.trusts(Millis(NOW), false));
    }

    #[test]
    fn while_rows_may_appear_late_a_look_in_three_seconds_trusts_in_nothing() {
        let kept = |doubted_until, wholly_at| Watermarks {
            looks: 1,
            looked_at: Millis(NOW),
            doubted_until: Millis(doubted_until),
            wholly_at: Millis(wholly_at),
            ..Watermarks::default()
        };
        let trusts =
            |doubted_until, wholly_at, are_late| kept(doubted_until, wholly_at).trusts(Millis(NOW), are_late);
        assert!(trusts(NOW, NOW - DOUBTED_EVERY_MS, false), "no longer doubted");
        assert!(!trusts(NOW + 1, NOW - DOUBTED_EVERY_MS, false) && !trusts(0, NOW - DOUBTED_EVERY_MS, true));
        assert!(trusts(NOW + 1, NOW - DOUBTED_EVERY_MS + 1, true), "not more often");
    }
}
