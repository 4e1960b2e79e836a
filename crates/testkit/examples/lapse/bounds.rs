//! Tasks over a month and a few over a hundred years: inserted, and then day after day fired, stopped,
//! archived and dropped. Each of these should stay as fast as at the beginning, however many tasks are
//! stored.

use crate::rig::{BenchKind, DAY, HOUR, Housekeeping, KEPT_DAYS, LapseRig, START, rate, rss_mib};
use punctual_contract::store::{Applied, Books, Change, Dispatched, Grant, Scan, Step};
use punctual_domain::{history::Note, name::Name, place::Partition, task::TaskResult, time::Millis};
use std::time::Instant;

pub(crate) const HEAD: &str =
    "what number_or_day waiting per_s second_per_s third_per_s longest_change_ms rss_mib buckets wide";
const BATCH: usize = 500;
const CENTURY: i64 = 36_525 * DAY;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) tasks: i64,
    pub(crate) far: i64,
    pub(crate) days: i64,
    pub(crate) databases: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Lapse {
    /// Rates, in their order.
    inserted: Vec<u64>,
    fired: Vec<u64>,
    stopped: Vec<u64>,
    archived: Vec<u64>,
    rss_mib: Vec<u64>,
    pub(crate) is_whole: bool,
}

impl Lapse {
    /// Of each, its first and its last, and their ratio in hundredths.
    pub(crate) fn summary(&self) -> String {
        let of = |name: &str, all: &[u64]| match (all.first(), all.last()) {
            (Some(first), Some(last)) => {
                format!("{name}: {first} at first, {last} at last ({} %)", last * 100 / (*first).max(1))
            }
            _ => format!("{name}: none"),
        };
        let lines = [
            of("inserted a second", &self.inserted),
            of("fired a second", &self.fired),
            of("stopped a second", &self.stopped),
            of("archived and dropped a second", &self.archived),
            of("memory of this process, MiB", &self.rss_mib),
        ];
        lines.join("\n")
    }
}

#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn now() -> Instant {
    Instant::now()
}

pub(crate) async fn run(kind: BenchKind, load: Load, buffer_pool: &str, say: impl Fn(String)) -> Lapse {
    let rig = LapseRig::new(kind, (load.databases, buffer_pool), true).await;
    let mut lapse = Lapse::default();
    insert(&rig, load, &mut lapse, &say).await;
    // Includes the days after the last, in which the kept tasks are dropped.
    for day in 1..=load.days + KEPT_DAYS + 1 {
        let line = pass(&rig, day, &mut lapse).await;
        say(line);
    }
    let books = rig.store().books().await.expect("the account");
    let pending = waiting(&rig.store().audit().await.expect("a count"));
    lapse.is_whole = books.unaccounted() == 0 && pending == load.far && books.deleted == load.tasks;
    say(format!(
        "{} of {} are forgotten, {pending} of {} far ones wait",
        books.deleted, load.tasks, load.far
    ));
    lapse
}

fn waiting(books: &Books) -> i64 {
    books.tallies.iter().filter(|tally| tally.state.is_pending()).map(|tally| tally.tasks).sum()
}

async fn insert(rig: &LapseRig, load: Load, lapse: &mut Lapse, say: &impl Fn(String)) {
    let window = load.days * DAY;
    // Far from the order of their times.
    let due = move |nth: i64| START.plus(1 + nth.wrapping_mul(7_919_000_003).rem_euclid(window - 1));
    // After the last day that is reached.
    let far = move |nth: i64| START.plus(window + 30 * DAY + nth * (CENTURY / load.far.max(1)));
    rig.insert(load.tasks..load.tasks + load.far, move |nth| far(nth - load.tasks)).await;
    let step = (load.tasks / 10).max(1);
    for from in (0..load.tasks).step_by(usize::try_from(step).unwrap_or(1)) {
        let (to, began) = ((from + step).min(load.tasks), now());
        rig.insert(from..to, due).await;
        lapse.inserted.push(rate((to - from).unsigned_abs(), began.elapsed()));
        lapse.rss_mib.push(rss_mib());
        let (per_s, rss) = (lapse.inserted.last().copied().unwrap_or(0), rss_mib());
        say(format!("insert {to} {} {per_s} - - - {rss} {} -", to + load.far, buckets(rig).await));
    }
}

/// Tasks due by the end of this day fire and succeed; kept ones are dropped when their time ends.
async fn pass(rig: &LapseRig, day: i64, lapse: &mut Lapse) -> String {
    let end = START.plus(day * DAY);
    let began = now();
    let fired = fire(rig, end, end.plus(HOUR)).await;
    let fired_per_s = rate(fired, began.elapsed());
    let began = now();
    let retired = rig.retire(end.plus(2 * HOUR)).await;
    let stopped = u64::try_from(retired.stopped).unwrap_or(0);
    let stopped_per_s = rate(stopped, began.elapsed());
    let began = now();
    let Housekeeping { archived, forgotten, longest_change, wide } = rig.keep_house(end.plus(4 * HOUR)).await;
    assert_eq!(archived, forgotten, "what is archived goes, and nothing else");
    let archived_per_s = rate(archived, began.elapsed());
    for (all, count, per_s) in [
        (&mut lapse.fired, fired, fired_per_s),
        (&mut lapse.stopped, stopped, stopped_per_s),
        (&mut lapse.archived, archived, archived_per_s),
    ] {
        if count > 0 {
            all.push(per_s);
        }
    }
    lapse.rss_mib.push(rss_mib());
    let waiting = waiting(&rig.store().books().await.expect("the account"));
    let longest_ms = longest_change.as_millis();
    let (rss, buckets) = (rss_mib(), buckets(rig).await);
    format!(
        "day {day} {waiting} {fired_per_s} {stopped_per_s} {archived_per_s} {longest_ms} {rss} {buckets} {wide}"
    )
}

async fn buckets(rig: &LapseRig) -> String {
    rig.buckets().await.map_or_else(|| "-".to_owned(), |buckets| buckets.to_string())
}

/// Hands over tasks due by then, and records their success, which is kept until another instant. Returns how
/// many.
pub(crate) async fn fire(rig: &LapseRig, until: Millis, keep_until: Millis) -> u64 {
    let store = rig.store();
    let mut fired = 0;
    for partition in (0..store.partitions()).map(Partition) {
        let mut after = None;
        loop {
            let scan = Scan { partition, until, after, limit: BATCH };
            let found = store.scan(scan).await.expect("a scan");
            after = found.last().map(|entry| (entry.due_at, entry.place.id));
            let grant = |entry: &punctual_contract::hot::HotEntry| Grant {
                place: entry.row(),
                fence: entry.fence,
                fired_at: until,
                lease_until: until.plus(HOUR),
                executor: "lapse".to_owned(),
                namespace: Name::default_namespace(),
                has_begun: false,
                known: None,
            };
            let leased = store.dispatch(found.iter().map(grant).collect(), until).await.expect("a lease");
            let leased = leased.into_iter().filter_map(Dispatched::made);
            let steps: Vec<Step> = leased.map(|lease| success(&lease, keep_until)).collect();
            let count = steps.len();
            let applied = store.apply(steps, until).await.expect("outcomes");
            assert!(applied.iter().all(|stepped| *stepped == Applied::Moved));
            fired += u64::try_from(count).unwrap_or(0);
            if found.len() < BATCH {
                break;
            }
        }
    }
    fired
}

fn success(lease: &punctual_contract::store::Assignment, keep_until: Millis) -> Step {
    let result = TaskResult { status_code: 0, status_msg: String::new(), content: None };
    Step {
        place: lease.place,
        fence: Some(lease.fence),
        change: Change::Succeed { result, keep_until },
        note: Note { by: "lapse".to_owned(), ..Note::default() },
        fired_at: None,
        known: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    async fn is_whole(kind: BenchKind) {
        let load = Load { tasks: 1_200, far: 20, days: 4, databases: 2 };
        let lapse = run(kind, load, "128M", drop).await;
        assert!(lapse.is_whole, "{lapse:?}");
        assert_eq!((lapse.inserted.len(), lapse.fired.len()), (10, 4), "{lapse:?}");
        assert!(lapse.archived.iter().all(|value| *value > 0) && !lapse.archived.is_empty(), "{lapse:?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_month_of_a_file_ends_with_all_of_it_accounted_for() {
        is_whole(BenchKind::Sqlite).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_month_of_two_databases_ends_with_all_of_it_accounted_for() {
        is_whole(BenchKind::Mysql).await;
    }

    #[test]
    fn a_rate_is_by_the_second() {
        assert_eq!(rate(500, Duration::from_millis(250)), 2_000);
    }
}
