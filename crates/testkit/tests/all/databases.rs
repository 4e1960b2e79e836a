//! One database of two is unavailable, cut off or silent under load: the other's tasks are all handed out
//! meanwhile, none is dead without an attempt, its leases end and its overdue rows are swept. And connections
//! that are killed around changes: "nothing was done" is never answered after a change. On a private MariaDB,
//! the second database behind a proxy, and Redis.

mod changes;
mod limited;
mod reach;
mod site;

use punctual_contract::{Store, store::Query};
use punctual_domain::state::State;
use punctual_testkit::{patience::until, servers::Way};
use site::ShardedSite;

/// So many of the other database's tasks come before the first is back.
const MEANWHILE: usize = 60;

async fn goes_on(engines: usize, way: Way) {
    goes_on_at(ShardedSite::new(engines).await, way).await;
}

async fn goes_on_at(site: ShardedSite, way: Way) {
    let engines = site.nodes.len();
    site.insert(400, 1_500..11_500).await;
    site.have_come(40).await;
    site.second.set(way);
    let (left, from) = (site.left_of_the_first(), site.now());
    // It is known, and is no reason to send no more callers here.
    until("one database is said", || async { site.engine().write_problems().len() == 1 }).await;
    site.engine().can_write().unwrap();
    let to = site.now();
    site.until("tasks of the database that is well come meanwhile", async || {
        let came = left.iter().filter(|task| site.has_come(**task)).count();
        came >= MEANWHILE && site.missing_of_the_first(from, to) == 0
    })
    .await;
    let (median, p99, worst) = site.late_of_the_first(from, to).figures();
    site.second.set(Way::Open);
    site::say(&format!(
        "{engines} engines, second database {way:?}: tasks of the first late by {median} ms at the median, {p99} p99, {worst} at worst"
    ));
    site.finish(400).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_engine_goes_on_while_the_second_database_is_cut() {
    goes_on(1, Way::Cut).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_engine_goes_on_while_the_second_database_is_silent() {
    goes_on(1, Way::Silent).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_engines_go_on_while_the_second_database_is_cut() {
    goes_on(2, Way::Cut).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_engines_go_on_while_the_second_database_is_silent() {
    goes_on(2, Way::Silent).await;
}

/// Each executor receives tasks that fire while it waits: an executor with a task of the silent database does
/// not wait for that one alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn executors_go_on_with_the_others_tasks_before_a_silent_database_is_known_to_be_silent() {
    goes_on_at(ShardedSite::without_leases_ahead().await, Way::Silent).await;
}

/// The answers to leases are lost on the way: the attempts are returned, and each task still has its only
/// attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_attempt_is_spent_by_a_lease_whose_answer_was_lost() {
    let site = ShardedSite::new(1).await;
    site.insert(400, 1_000..5_000).await;
    for _ in 0..6 {
        let come = site.come();
        site.have_come(come + 20).await;
        site.second.set_open(Way::AnswersLost);
        // The first database continues, so executors ask for more meanwhile.
        site.have_come(site.come() + 5).await;
        site.second.set_open(Way::Cut);
    }
    site.finish(400).await;
}

async fn is_repaired(way: Way) {
    let site = ShardedSite::new(1).await;
    let held = site.leased_by_one_who_dies(40).await;
    let first: Vec<_> = held.into_iter().filter(|place| site.is_in_first(*place)).collect();
    assert!(first.len() > 5, "{}", first.len());
    site.second.set(way);
    // Committed, and known to no engine: only the sweep finds them.
    let unseen = site.insert_behind_the_back(40).await;
    assert!(unseen.len() > 5, "{}", unseen.len());
    site.until("leases of the first database have ended", async || {
        let tasks = site.store.read(&first).await.unwrap();
        tasks.into_iter().flatten().all(|task| task.state != State::Dispatched)
    })
    .await;
    site.until("overdue rows of the first database were found", async || {
        let tasks = site.store.read(&unseen).await.unwrap();
        tasks.into_iter().flatten().all(|task| task.state != State::Scheduled)
    })
    .await;
    site.second.set(Way::Open);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn leases_end_and_rows_are_swept_while_the_second_database_is_cut() {
    is_repaired(Way::Cut).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn leases_end_and_rows_are_swept_while_the_second_database_is_silent() {
    is_repaired(Way::Silent).await;
}

/// A batch over both: each task has an answer of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_a_batch_what_the_first_database_has_stored_is_said() {
    let site = ShardedSite::new(1).await;
    site.second.set(Way::Cut);
    let answers = site.insert_each(60).await;
    let stored: Vec<_> = answers.iter().flatten().map(|answer| answer.task.place).collect();
    assert!(!stored.is_empty() && stored.len() < answers.len(), "{} of {}", stored.len(), answers.len());
    assert!(stored.iter().all(|place| site.is_in_first(*place)));
    site.second.set(Way::Open);
}

/// A call for all tasks returns all, or an error; a call for tasks of the first database alone succeeds.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_would_be_incomplete_is_an_error() {
    let site = ShardedSite::new(1).await;
    let inserted = site.insert_each(60).await.into_iter().map(|result| result.unwrap().task.place);
    let (first, second): (Vec<_>, Vec<_>) = inserted.partition(|place| site.is_in_first(*place));
    assert!(!first.is_empty() && !second.is_empty());
    let all = Query { limit: 100, ..Query::default() };
    for way in [Way::Cut, Way::Silent] {
        site.second.set(way);
        assert!(site.store.list(&all).await.is_err(), "{way:?}: a search");
        assert!(site.store.books().await.is_err(), "{way:?}: the books");
        assert!(site.store.audit().await.is_err(), "{way:?}: a count");
        assert!(site.store.read(&second).await.is_err(), "{way:?}: tasks that are there");
        let read = site.store.read(&first).await.unwrap();
        assert!(read.iter().all(Option::is_some), "{way:?}: tasks that are not");
        site.second.set(Way::Open);
        site.until("all is known again", async || {
            site.store.list(&all).await.is_ok_and(|page| page.tasks.len() == 60)
        })
        .await;
    }
}
