//! A database that is unavailable: an operation continues in the others, reports what it waits for, and
//! finishes there once the database is back. On two databases of a private MariaDB, the second behind a proxy
//! that is cut.

use super::{
    crashing::{is_whole, later},
    rig::{HOUR_MS, Rig, START, bulk},
};
use punctual_contract::{Store as _, bulk::StoredBulk};
use punctual_domain::{
    bulk::{Bulk, BulkState, Tally},
    task::Task,
};
use punctual_testkit::servers::{Proxy, Way};

const TASKS: i64 = 100;

/// Runs the operation, second by second, until it has changed `count` tasks. A run may fail when it cannot
/// reach a database.
async fn until_done(rig: &Rig, id: i64, count: u64) -> StoredBulk {
    for _ in 0..200 {
        drop(rig.runner.run_once(rig.now()).await);
        let stored = rig.get(id).await;
        if stored.progress.tally.done >= count {
            return stored;
        }
        rig.clock.advance_ms(1_000);
    }
    panic!("it does not go on: {:?}", rig.get(id).await);
}

struct DatabasesSite {
    rig: Rig,
    second: Proxy,
    tasks: Vec<Task>,
    id: i64,
}

impl DatabasesSite {
    async fn new(rate: u32) -> Self {
        let (rig, second) = Rig::two_databases().await;
        let tasks = rig.insert("mail", TASKS).await;
        let id = rig.confirmed(Bulk { rate, ..bulk(later().0, "mail") }).await.id;
        Self { rig, second, tasks, id }
    }

    fn of(&self, part: usize) -> Vec<&Task> {
        let is_there = |task: &&Task| self.rig.store.part_of(task.place.partition) == part;
        self.tasks.iter().filter(is_there).collect()
    }

    /// All reachable tasks are changed; then the database is available again.
    async fn goes_on_and_is_whole_in_the_end(&self) {
        let reached = self.of(0);
        assert!((10..90).contains(&reached.len()), "{}", reached.len());
        let before = self.rig.get(self.id).await.progress.tally.done;
        let mut wanted = u64::try_from(reached.len()).unwrap();
        if before > 0 {
            // Some of the second were done before it was cut.
            wanted = wanted.max(before);
        }
        let stored = until_done(&self.rig, self.id, wanted).await;
        for _ in 0..300 {
            // Five minutes: longer than anything that can be reached is tried.
            drop(self.rig.runner.run_once(self.rig.now()).await);
            self.rig.clock.advance_ms(1_000);
        }
        for task in reached {
            assert_eq!(
                self.rig.task(task).await.ask.execute_at,
                START.plus(2 * HOUR_MS),
                "it was changed, and once"
            );
        }
        assert_eq!(stored.state, BulkState::Running);
        let stored = self.rig.get(self.id).await;
        assert_eq!((stored.state, stored.progress.tally.failed), (BulkState::Running, 0), "it is waited for");
        let waits_for = stored.progress.waits_for().unwrap();
        assert!(waits_for.contains(&self.second.port().to_string()), "{waits_for}");
        self.second.set(Way::Open);
        // By another engine.
        let other = self.rig.beside();
        let ended = other.until_the_end(self.id).await;
        assert_eq!(ended.progress.tally, Tally { done: 100, skipped: 0, failed: 0 });
        is_whole(&other, &self.tasks, &ended, later().1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_others_tasks_go_on_while_a_database_is_away_from_the_beginning() {
    let site = DatabasesSite::new(100_000).await;
    site.second.set(Way::Cut);
    site.goes_on_and_is_whole_in_the_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_others_tasks_go_on_when_a_database_goes_away_in_the_middle_of_a_batch() {
    let site = DatabasesSite::new(30).await;
    site.rig.run().await;
    let stored = site.rig.get(site.id).await;
    assert!(!stored.progress.batch.is_empty() && stored.progress.tally.done > 0, "{stored:?}");
    site.second.set(Way::Cut);
    site.goes_on_and_is_whole_in_the_end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_and_goes_loses_nothing_and_doubles_nothing() {
    let site = DatabasesSite::new(30).await;
    for _ in 0..4 {
        site.second.set(Way::Cut);
        for _ in 0..2 {
            drop(site.rig.runner.run_once(site.rig.now()).await);
            site.rig.clock.advance_ms(1_000);
        }
        site.second.set(Way::Open);
        drop(site.rig.runner.run_once(site.rig.now()).await);
        site.rig.clock.advance_ms(1_000);
    }
    let ended = site.rig.until_the_end(site.id).await;
    is_whole(&site.rig, &site.tasks, &ended, later().1).await;
}
