//! The cost of one pass of retention while few tasks wait, and while millions do: equally many tasks end in
//! both. Then the cost of the end of successes, which are stopped first and deleted later, among millions of
//! finished ones that are kept.

use crate::{
    bounds::fire,
    rig::{BenchKind, DAY, HOUR, LapseRig, START, rss_mib},
};
use punctual_contract::store::{Applied, Change, Step};
use punctual_domain::{history::Note, place::TaskRef, time::Millis};
use std::time::{Duration, Instant};

/// That end in each pass.
const ENDING: i64 = 10_000;
/// When they end, in the first pass and in the second.
const OVER: [Millis; 2] = [Millis(START.0 + DAY), Millis(START.0 + 2 * DAY)];

#[derive(Debug)]
pub(crate) struct Costs {
    rows: i64,
    /// Nothing ends: (nothing waits, all wait).
    idle: [Duration; 2],
    /// `ENDING` end.
    ending: [Duration; 2],
    kept: i64,
    /// `ENDING` successes are stopped, and deleted, among those that are kept.
    successes: [RetentionPass; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct RetentionPass {
    took: Duration,
    /// Of tasks, by the server. None: there is none.
    rows_read: Option<i64>,
}

impl Costs {
    pub(crate) fn summary(&self) -> String {
        let ms = |idle: &[Duration; 2]| idle.map(|duration| duration.as_secs_f64() * 1_000.0);
        let ([idle, idle_full], [ending, full]) = (ms(&self.idle), ms(&self.ending));
        format!(
            "a pass in which nothing ends: {idle:.1} ms, with {rows} rows that wait {idle_full:.1} ms\n\
             a pass in which {ENDING} end: {ending:.0} ms, with {rows} rows that wait {full:.0} ms\n\
             among {kept} finished ones that are kept, {ENDING} successes are stopped: {stopped}; and deleted: {deleted}",
            rows = self.rows,
            kept = self.kept,
            stopped = self.successes[0].words(),
            deleted = self.successes[1].words(),
        )
    }
}

impl RetentionPass {
    fn words(&self) -> String {
        let read = self.rows_read.map_or_else(|| "-".to_owned(), |rows_read| rows_read.to_string());
        format!("{:.0} ms, {read} rows read", self.took.as_secs_f64() * 1_000.0)
    }
}

pub(crate) async fn run(
    kind: BenchKind,
    (rows, kept): (i64, i64),
    buffer_pool: &str,
    say: impl Fn(String),
) -> Costs {
    // Without archives: retention deletes.
    let rig = LapseRig::new(kind, (1, buffer_pool), false).await;
    let before = pass(&rig, 1_000_000_000, OVER[0]).await;
    say(format!("with nothing that waits: {before:?}"));
    let step = (rows / 10).max(1);
    for from in (0..rows).step_by(usize::try_from(step).unwrap_or(1)) {
        let to = (from + step).min(rows);
        // Due in the week after what ends.
        let due = |nth: i64| START.plus(10 * DAY + nth * (7 * DAY) / rows.max(1));
        rig.insert(from..to, due).await;
        say(format!("{to} rows wait; {} MiB", rss_mib()));
    }
    let began = now();
    nothing_ends(&rig, OVER[0].plus(2 * HOUR)).await;
    say(format!("the first look at all of them: {:?}", began.elapsed()));
    let after = pass(&rig, 2_000_000_000, OVER[1]).await;
    say(format!("with {rows} that wait: {after:?}"));
    let successes = successes(&rig, kept, &say).await;
    Costs { rows, idle: [before.0, after.0], ending: [before.1, after.1], kept, successes }
}

async fn nothing_ends(rig: &LapseRig, now: Millis) {
    let retired = rig.retire(now).await;
    assert_eq!((retired.stopped, retired.deleted), (0, 0));
}

/// Successes end in an hour of the fifth day, among others of the days before and after that are kept for years.
async fn successes(rig: &LapseRig, kept: i64, say: &impl Fn(String)) -> [RetentionPass; 2] {
    let (first, step) = (3_000_000_000, (kept / 10).max(1));
    let due = |nth: i64| START.plus(2 * DAY + (nth - first) * (5 * DAY) / kept.max(1));
    for from in (first..first + kept).step_by(usize::try_from(step).unwrap_or(1)) {
        let to = (from + step).min(first + kept);
        rig.insert(from..to, due).await;
        fire(rig, due(to - 1), START.plus(3_650 * DAY)).await;
        say(format!("{} finished ones are kept; {} MiB", to - first, rss_mib()));
    }
    let (from, until) = (4_000_000_000, START.plus(8 * DAY));
    rig.insert(from..from + ENDING, |nth| START.plus(7 * DAY + (nth - from) * HOUR / ENDING)).await;
    let fired = fire(rig, until, until.plus(HOUR)).await;
    assert_eq!(fired, ENDING.unsigned_abs(), "what is kept has fired before");
    // New rows are read once.
    nothing_ends(rig, until.plus(HOUR - 1)).await;
    let stopped = counted(rig, until.plus(2 * HOUR), (ENDING, 0)).await;
    let deleted = counted(rig, until.plus(12 * HOUR), (0, ENDING)).await;
    [stopped, deleted]
}

async fn counted(rig: &LapseRig, now: Millis, ends: (i64, i64)) -> RetentionPass {
    let (began, before) = (self::now(), rig.rows_read().await);
    let retired = rig.retire(now).await;
    let took = began.elapsed();
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    assert_eq!((count(retired.stopped), count(retired.deleted)), ends);
    let rows_read = rig.rows_read().await.zip(before).map(|(after, before)| after - before);
    RetentionPass { took, rows_read }
}

#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn now() -> Instant {
    Instant::now()
}

/// How long it takes before anything ends, and when `ENDING` do.
async fn pass(rig: &LapseRig, first: i64, over: Millis) -> (Duration, Duration) {
    let store = rig.store();
    let due = |nth: i64| START.plus(HOUR + (nth * 7_919).rem_euclid(HOUR));
    rig.insert(first..first + ENDING, due).await;
    let mut places: Vec<TaskRef> = Vec::new();
    for partition in (0..store.partitions()).map(punctual_domain::place::Partition) {
        let scan = punctual_contract::store::Scan {
            partition,
            until: START.plus(3 * HOUR),
            after: None,
            limit: usize::try_from(ENDING).unwrap_or(usize::MAX),
        };
        places.extend(store.scan(scan).await.expect("a scan").iter().map(|entry| entry.row()));
    }
    let cancel = |place: &TaskRef| Step {
        place: *place,
        fence: None,
        change: Change::Cancel { keep_until: over },
        note: Note::default(),
        fired_at: None,
        known: None,
    };
    for some in places.chunks(1_000) {
        let applied = store.apply(some.iter().map(cancel).collect(), START).await.expect("moves");
        assert!(applied.iter().all(|stepped| *stepped == Applied::Moved));
    }
    // New rows are read once.
    rig.retire(over.plus(-1)).await;
    let began = now();
    nothing_ends(rig, over.plus(-1)).await;
    let idle = began.elapsed();
    let began = now();
    let retired = rig.retire(over.plus(HOUR)).await;
    assert_eq!((retired.stopped, retired.deleted), (0, usize::try_from(ENDING).unwrap_or(0)));
    (idle, began.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn what_ends_goes_while_others_wait_in_a_file() {
        let costs = run(BenchKind::Sqlite, (500, 300), "128M", drop).await;
        assert_eq!((costs.rows, costs.successes[0].rows_read), (500, None));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_ends_goes_while_others_wait_in_a_database() {
        let costs = run(BenchKind::Mysql, (500, 300), "128M", drop).await;
        let read = costs.successes.map(|successes| successes.rows_read.unwrap());
        assert!(read.iter().all(|value| (ENDING..100 * ENDING).contains(value)), "{costs:?}");
    }
}
