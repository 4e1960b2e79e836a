//! Estimates how long a new insert would wait for the store. The estimate is the number of rows of running inserts divided by
//! the recent rate. It is at least the time in which the store has accepted nothing beyond what those rows need. An insert
//! that would wait too long is refused with a retry time. Decides nothing about a running insert.

use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_domain::{name::Name, task::NewTask};
use std::time::Duration;
use tokio::time::Instant;

/// With fewer waiting rows, the rate is not measured. The store commits concurrent rows together, so a few
/// rows show how long a commit takes, not how many rows fit into a second.
const CROWD: usize = 64;
/// The rate is measured over at least this long.
const WINDOW: Duration = Duration::from_millis(200);
/// Rows a second, until it is known.
const PACE_AT_FIRST: f64 = 20_000.0;

#[derive(Debug, Default)]
pub(crate) struct Backlog(Mutex<PendingInserts>);

/// Rows of inserts that are under way.
#[derive(Debug, Default)]
struct PendingInserts {
    rows: usize,
    namespaces: HashMap<Name, usize>,
    pace: Pace,
    /// The instant at which the store last stored a row, or, if that precedes all running inserts, at which the first
    /// of them began. `None` if none is running.
    idle_since: Option<Instant>,
}

#[derive(Debug, Default)]
struct Pace {
    rows_per_second: Option<f64>,
    /// The measurement since a crowd waits.
    window: Option<Window>,
}

/// Measures how long the store takes for as many rows as waited when the window opened. A single row that is
/// stored beside a large batch says nothing about the rate.
#[derive(Debug)]
struct Window {
    began: Instant,
    waited: usize,
    taken: usize,
}

impl Window {
    fn open(rows: usize, now: Instant) -> Option<Self> {
        (rows >= CROWD).then_some(Self { began: now, waited: rows, taken: 0 })
    }
}

impl Pace {
    fn get(&self) -> f64 {
        self.rows_per_second.unwrap_or(PACE_AT_FIRST).max(1.0)
    }

    /// `rows` wait now.
    fn look(&mut self, rows: usize, taken: usize, now: Instant) {
        let Some(window) = &mut self.window else {
            self.window = Window::open(rows, now);
            return;
        };
        window.taken += taken;
        let took = now.saturating_duration_since(window.began);
        if took >= WINDOW && window.taken >= window.waited {
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            let lately = window.taken as f64 / took.as_secs_f64();
            self.rows_per_second = Some(
                self.rows_per_second.map_or(lately, |rows_per_second| f64::midpoint(rows_per_second, lately)),
            );
            self.window = Window::open(rows, now);
        } else if rows < CROWD {
            self.window = None;
        }
    }
}

impl PendingInserts {
    /// The time after which the next insert of a namespace is stored. Namespaces take turns at the store: before that
    /// insert, its own rows are stored, and at most as many of each other namespace. A namespace without running
    /// inserts may try at once.
    fn wait(&self, namespace: &Name, now: Instant) -> Duration {
        let own = self.namespaces.get(namespace).copied().unwrap_or(0);
        if own == 0 {
            return Duration::ZERO;
        }
        let before: usize = self.namespaces.values().map(|namespace| (*namespace).min(own)).sum();
        // Its pace falls by a third now and then while one waits (a checkpoint of the file, seen with `loadtest overload`).
        let needed = if own < CROWD { Duration::ZERO } else { self.needed(before + before / 2) };
        needed.max(self.stall(now))
    }

    fn needed(&self, rows: usize) -> Duration {
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let seconds = rows as f64 / self.pace.get();
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// The time for which the store has stored nothing, beyond the time that all waiting rows need. One unavailable
    /// database of many is no stall: the others store rows.
    fn stall(&self, now: Instant) -> Duration {
        let idle = self.idle_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        idle.saturating_sub(self.needed(self.rows))
    }

    fn begin(&mut self, namespace: &Name, rows: usize, now: Instant) {
        self.idle_since.get_or_insert(now);
        self.rows += rows;
        *self.namespaces.entry(namespace.clone()).or_default() += rows;
    }

    fn end(&mut self, namespace: &Name, rows: usize) {
        self.rows = self.rows.saturating_sub(rows);
        if let Some(left) = self.namespaces.get_mut(namespace) {
            *left = left.saturating_sub(rows);
            if *left == 0 {
                self.namespaces.remove(namespace);
            }
        }
    }
}

/// Counted as long as it lives.
#[derive(Debug)]
pub(crate) struct Inserting<'a> {
    backlog: &'a Backlog,
    namespaces: Vec<(Name, usize)>,
    is_stored: bool,
}

impl Inserting<'_> {
    /// The store has stored the rows.
    pub(crate) fn stored(mut self) {
        self.is_stored = true;
    }
}

impl Drop for Inserting<'_> {
    fn drop(&mut self) {
        let mut waiting = self.backlog.0.lock();
        self.namespaces.iter().for_each(|(namespace, rows)| waiting.end(namespace, *rows));
        let taken =
            if self.is_stored { self.namespaces.iter().map(|namespace| namespace.1).sum() } else { 0 };
        let (rows, now) = (waiting.rows, Instant::now());
        waiting.pace.look(rows, taken, now);
        if waiting.rows == 0 {
            waiting.idle_since = None;
        } else if self.is_stored {
            waiting.idle_since = Some(now);
        }
    }
}

impl Backlog {
    pub(crate) fn begin(&self, tasks: &[NewTask]) -> Inserting<'_> {
        let same = tasks.chunk_by(|a, b| a.queue.namespace == b.queue.namespace);
        let namespaces: Vec<(Name, usize)> =
            same.filter_map(|tasks| Some((tasks.first()?.queue.namespace.clone(), tasks.len()))).collect();
        let now = Instant::now();
        let mut waiting = self.0.lock();
        namespaces.iter().for_each(|(namespace, rows)| waiting.begin(namespace, *rows, now));
        let rows = waiting.rows;
        waiting.pace.look(rows, 0, now);
        drop(waiting);
        Inserting { backlog: self, namespaces, is_stored: false }
    }

    pub(crate) fn wait(&self, namespace: &Name) -> Duration {
        self.0.lock().wait(namespace, Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_domain::name::QueueKey;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn tasks(namespace: &str, count: usize) -> Vec<NewTask> {
        let queue = QueueKey { namespace: name(namespace), queue: name("q") };
        vec![NewTask::new(queue, name("k"), punctual_domain::time::Millis(0)); count]
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_is_what_waits_by_the_pace_of_late() {
        let backlog = Backlog::default();
        let first = backlog.begin(&tasks("a", 5_000));
        assert_eq!(backlog.wait(&name("a")), Duration::from_millis(375), "by the pace at first");
        tokio::time::advance(Duration::from_secs(5)).await;
        first.stored();
        assert_eq!(backlog.wait(&name("a")), Duration::ZERO);
        let _second = backlog.begin(&tasks("a", 500));
        assert_eq!(backlog.wait(&name("a")), Duration::from_millis(750), "a thousand a second, as was seen");
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_one_namespace_is_nobody_elses_wait() {
        let backlog = Backlog::default();
        let _flood = backlog.begin(&tasks("a", 50_000));
        let _other = backlog.begin(&tasks("b", 100));
        assert_eq!(backlog.wait(&name("b")), Duration::from_millis(15), "its own, and as much of the other");
        assert_eq!(backlog.wait(&name("c")), Duration::ZERO);
        assert!(backlog.wait(&name("a")) > Duration::from_secs(2));
    }

    /// A single caller that waits for each of its commits shows the duration of a commit.
    #[tokio::test(start_paused = true)]
    async fn singles_one_after_the_other_say_nothing_of_the_pace() {
        let backlog = Backlog::default();
        for _ in 0..100 {
            let single = backlog.begin(&tasks("a", 1));
            tokio::time::advance(Duration::from_millis(20)).await;
            single.stored();
        }
        let _burst: Vec<_> = (0..1_000).map(|_| backlog.begin(&tasks("a", 1))).collect();
        assert_eq!(
            backlog.wait(&name("a")),
            Duration::from_millis(75),
            "the pace at first, and not 50 a second"
        );
    }

    /// Seen in a browser beside a busy machine: a single insert got a retry time of a minute.
    #[tokio::test(start_paused = true)]
    async fn a_single_that_is_taken_beside_a_large_batch_says_nothing_of_the_pace() {
        let backlog = Backlog::default();
        let batch = backlog.begin(&tasks("a", 300));
        let single = backlog.begin(&tasks("a", 1));
        tokio::time::advance(Duration::from_secs(1)).await;
        single.stored();
        assert_eq!(backlog.wait(&name("a")), Duration::from_micros(22_500), "by the pace at first");
        tokio::time::advance(Duration::from_secs(1)).await;
        batch.stored();
        let _next = backlog.begin(&tasks("a", 301));
        assert_eq!(
            backlog.wait(&name("a")).as_secs_f64().round().to_bits(),
            3.0_f64.to_bits(),
            "301 in two seconds"
        );
    }

    /// However few wait, and whatever the rate was before.
    #[tokio::test(start_paused = true)]
    async fn a_store_that_takes_nothing_makes_wait_for_as_long_as_it_has() {
        let backlog = Backlog::default();
        let first = backlog.begin(&tasks("a", 1));
        let _others: Vec<_> = (0..9).map(|_| backlog.begin(&tasks("a", 1))).collect();
        tokio::time::advance(Duration::from_secs(3)).await;
        let about = |wait: Duration| wait.as_millis() / 100 * 100 + 100;
        assert_eq!(about(backlog.wait(&name("a"))), 3_000);
        assert_eq!(backlog.wait(&name("b")), Duration::ZERO, "one may see whether it takes anything");
        first.stored();
        assert_eq!(backlog.wait(&name("a")), Duration::ZERO, "it does");
        let batch = backlog.begin(&tasks("a", 20_000));
        tokio::time::advance(Duration::from_millis(900)).await;
        let wait = backlog.wait(&name("a"));
        assert!((1_500..1_600).contains(&wait.as_millis()), "{wait:?}: a long batch is no stall");
        drop(batch);
        assert!(backlog.wait(&name("a")) > Duration::from_millis(800), "what failed was not taken");
    }

    #[tokio::test(start_paused = true)]
    async fn where_nothing_is_under_way_nothing_stalls() {
        let backlog = Backlog::default();
        let alone = backlog.begin(&tasks("a", 1));
        tokio::time::advance(Duration::from_secs(3)).await;
        drop(alone);
        let _next = backlog.begin(&tasks("a", 1));
        assert_eq!(backlog.wait(&name("a")), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn what_failed_was_not_taken_and_is_counted_no_more() {
        let backlog = Backlog::default();
        let failed = backlog.begin(&tasks("a", 5_000));
        tokio::time::advance(Duration::from_secs(1)).await;
        drop(failed);
        let waiting = backlog.0.lock();
        assert_eq!((waiting.rows, waiting.namespaces.len(), waiting.pace.rows_per_second), (0, 0, None));
    }
}
