//! A Redis that is too small for the pending tasks: tasks due soon are loaded, the others wait in the store,
//! and those that do not fit when due fire from there.

use super::site::OutagesSite;

/// Thousandths; the preloader stops at 800, and the rest is for tasks that are due soon.
const PRELOADED_MAX: u32 = 900;

#[tokio::test(flavor = "multi_thread")]
async fn far_tasks_that_do_not_fit_wait_in_the_store_and_near_ones_fire_from_redis() {
    let site = OutagesSite::new(&["--maxmemory", "8mb"]).await;
    let crew = site.crew(2).await;
    // Several times what fits, all within the horizon of an hour.
    crew.insert(30_000, 1_200_000..3_000_000).await;
    let mut fullest = 0;
    for _ in 0..12 {
        crew.insert(50, 300..1_000).await;
        let (came, engine) = (crew.came(), crew.engine());
        crew.have_come(came + 50).await;
        fullest = fullest.max(engine.hot_fullness());
    }
    crew.preloads_again(2).await;
    fullest = fullest.max(crew.engine().hot_fullness());
    eprintln!("Redis of 8 MiB, 30,000 far tasks: fullness {fullest} of 1000");
    assert!((500..=PRELOADED_MAX).contains(&fullest), "{fullest}");
    assert_eq!(
        site.redis.command(&["CONFIG", "GET", "maxmemory-policy"]).await,
        "maxmemory-policy\nnoeviction"
    );
    let past_redis = usize::try_from(crew.fired_from_store()).unwrap() + crew.swept();
    assert!(2 * past_redis < crew.came(), "{past_redis} of {} did not come out of Redis", crew.came());
    crew.near_ones("near tasks beside a full Redis").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_fits_is_due_at_once_and_all_of_it_fires() {
    let site = OutagesSite::new(&["--maxmemory", "4mb"]).await;
    let crew = site.crew(2).await;
    // Far enough ahead that all of it is accepted before the first of it fires, also on a busy machine.
    crew.insert(20_000, 14_000..14_500).await;
    // What is asked for by itself and not by the engines tells that it does not fit.
    let stats = site.redis.command(&["INFO", "errorstats"]).await;
    assert!(stats.contains("errorstat_OOM"), "all of it fits, after {} ms: {stats}", crew.elapsed_ms());
    crew.finish("20,000 due at once in a Redis of 4 MiB", 20_000).await;
}
