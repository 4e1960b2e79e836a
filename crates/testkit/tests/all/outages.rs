//! The operator's bad day, on a private Redis and a private MariaDB: Redis flushed, restarted empty, stopped, frozen and
//! full, and MySQL stopped, while thousands of tasks are pending and some fire. Each time: nothing lost, nothing early,
//! nothing completed twice, and a bound for how late. What was measured is printed.

mod apart;
mod behind;
mod full;
mod silence;
mod site;
mod stranger;

use site::{Site, Worst};
use std::time::Duration;

/// Past the moment when some have come and most have not.
const SOME: usize = 400;

#[tokio::test(flavor = "multi_thread")]
async fn redis_is_flushed_while_thousands_wait_and_some_fire() {
    let site = Site::new(&[]).await;
    let crew = site.crew(2).await;
    crew.insert(4_500, 14_000..26_000).await;
    // From now on all of it is in Redis, and no preloader will come upon it again.
    crew.preloads_again(2).await;
    crew.have_come(SOME).await;
    site.redis.command(&["FLUSHALL"]).await;
    let flushed_ms = crew.elapsed_ms();
    let worst = crew.finish("Redis flushed", 4_500).await;
    worst.is_at_most(5_000);
    worst.most_of_those_due_after_are_within(flushed_ms + 3_000, 1_000);
    worst.is_at_most_of_those_due_after(flushed_ms + 3_000, 2_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_dies_and_starts_again_empty() {
    let site = Site::new(&[]).await;
    let crew = site.crew(2).await;
    crew.insert(4_000, 14_000..26_000).await;
    crew.preloads_again(2).await;
    crew.have_come(SOME).await;
    site.redis.kill();
    site.redis.start_again().await;
    let back_ms = crew.elapsed_ms();
    let worst = crew.finish("Redis restarted empty", 4_000).await;
    worst.is_at_most(6_000);
    worst.most_of_those_due_after_are_within(back_ms + 3_000, 1_000);
    worst.is_at_most_of_those_due_after(back_ms + 3_000, 2_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_is_away_for_ten_seconds_and_firing_goes_on() {
    let site = Site::new(&[]).await;
    let crew = site.crew(2).await;
    crew.insert(6_000, 14_000..36_000).await;
    crew.preloads_again(2).await;
    crew.have_come(SOME).await;
    site.redis.kill();
    let from_ms = crew.elapsed_ms();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let to_ms = crew.elapsed_ms();
    // What fell due in its absence, but for the time that it takes to see that it is away and to look at the store.
    let fell_due = crew.due_between(from_ms, to_ms - 3_000);
    let missing = fell_due - crew.came_of_those_due_between(from_ms, to_ms - 3_000);
    assert!(fell_due > 1_000 && missing == 0, "{missing} of {fell_due} have not come");
    assert!(crew.fired_from_store() > 0);
    site.redis.start_again().await;
    let back_ms = crew.elapsed_ms();
    let worst = crew.finish("Redis away for 10 s", 6_000).await;
    worst.is_at_most(5_000);
    worst.most_of_those_due_after_are_within(back_ms + 3_000, 1_000);
    worst.is_at_most_of_those_due_after(back_ms + 3_000, 2_000);
}

/// Connections stay open, and nothing answers: what was on its way waits for its timeout, 5 s.
#[tokio::test(flavor = "multi_thread")]
async fn redis_freezes_for_eight_seconds_and_firing_goes_on() {
    let site = Site::new(&[]).await;
    let crew = site.crew(2).await;
    crew.insert(4_000, 1_500..15_000).await;
    crew.have_come(SOME).await;
    site.redis.pause();
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert!(crew.fired_from_store() > 0);
    site.redis.resume();
    let worst = crew.finish("Redis frozen for 8 s", 4_000).await;
    worst.is_at_most(9_000);
}

/// Nothing can be handed over without a lease in the store; what has fired waits, and so do outcomes.
#[tokio::test(flavor = "multi_thread")]
async fn mysql_is_stopped_for_some_seconds() {
    let site = Site::new(&[]).await;
    let crew = site.crew(2).await;
    crew.insert(4_000, 1_500..9_500).await;
    crew.have_come(SOME).await;
    let from_ms = crew.elapsed_ms();
    site.mysql.kill();
    tokio::time::sleep(Duration::from_secs(3)).await;
    site.mysql.start_again().await;
    let away_ms = crew.elapsed_ms() - from_ms;
    let worst = crew.finish("MySQL stopped", 4_000).await;
    worst.is_at_most(away_ms + 5_000);
}

impl Worst {
    fn is_at_most(&self, bound_ms: i64) {
        let worst = self.late.iter().map(|it| it.1).max().unwrap_or(0);
        assert!(worst <= bound_ms, "the worst was {worst} ms late; the bound is {bound_ms} ms");
    }

    /// Beyond the worst of what was due well before and after that instant, in ms from the first insert on: what this machine
    /// makes late by itself is none of the fault's doing.
    fn is_later_by_at_most(&self, at_ms: i64, bound_ms: i64) {
        const AROUND_MS: std::ops::Range<i64> = -1_000..4_000;
        let worst = |is_around| {
            let those = self.late.iter().filter(|it| AROUND_MS.contains(&(it.0 - at_ms)) == is_around);
            those.map(|it| it.1).max().unwrap_or(0)
        };
        let (with, without) = (worst(true), worst(false));
        assert!(
            with <= without + bound_ms,
            "the worst was {with} ms late, and {without} ms without the fault"
        );
    }

    /// `due_ms`: from the first insert on.
    fn is_at_most_of_those_due_after(&self, due_ms: i64, bound_ms: i64) {
        let worst = self.late.iter().filter(|it| it.0 > due_ms).map(|it| it.1).max().unwrap_or(0);
        assert!(worst <= bound_ms, "after it was over, the worst was {worst} ms late");
    }

    /// 19 of 20 of them: a single one may wait for a processor. `due_ms`: from the first insert on.
    fn most_of_those_due_after_are_within(&self, due_ms: i64, bound_ms: i64) {
        let mut late: Vec<i64> = self.late.iter().filter(|it| it.0 > due_ms).map(|it| it.1).collect();
        late.sort_unstable();
        let most = late.get(late.len() * 19 / 20).copied().unwrap_or(0);
        assert!(most <= bound_ms, "after it was over, one in 20 was over {most} ms late: {late:?}");
    }
}
