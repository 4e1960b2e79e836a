//! What several engines, callers that hang up, and connections that are lost may do to the store.

use super::{NOW, ask, fresh, name, open, sql};
use punctual_contract::{
    Happened, Store,
    store::{Applied, Change, Grant, Scan, Step},
};
use punctual_domain::{
    history::Note,
    insert::Decision,
    place::Partition,
    task::{ENGINE_TASK_ID_BASE, NewTask, Task},
    time::Millis,
};
use punctual_store::MysqlStore;
use punctual_testkit::{conformance::store::balanced, patience::until, servers::MariaDb};
use std::{collections::HashSet, future::Future, pin::pin, sync::Arc, task::Poll};
use tokio::task::JoinSet;

fn claim(task: &Task) -> Step {
    let note = Note { by: "test".to_owned(), ..Note::default() };
    Step {
        place: task.place,
        fence: Some(task.fence),
        change: Change::Claim,
        note,
        fired_at: None,
        known: None,
    }
}

async fn insert(store: &MysqlStore, asks: Vec<NewTask>) -> Vec<Task> {
    let inserted = store.insert(asks, "test", NOW).await.unwrap();
    inserted.into_iter().map(|inserted| inserted.task).collect()
}

/// Polls a call some times, then drops it.
async fn begun<T>(call: impl Future<Output = T>, polls: usize) {
    let mut call = pin!(call);
    for _ in 0..polls {
        let now = std::future::poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
        if now.is_ready() {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_call_that_is_dropped_runs_to_its_end_and_leaves_no_transaction_open() {
    let urls = fresh(2).await;
    let store = Arc::new(open(&urls).await);
    let standing = insert(&store, (0..200).map(ask).collect()).await;
    let mut rng = fastrand::Rng::with_seed(1);
    let mut callers = JoinSet::new();
    for nth in 0..200_i64 {
        let (store, polls, task) =
            (Arc::clone(&store), rng.usize(1..40), standing[usize::try_from(nth).unwrap()].clone());
        callers.spawn(async move {
            match nth % 4 {
                0 => {
                    let asks = (0..20).map(|number| ask(1_000 + nth * 20 + number)).collect();
                    begun(store.insert(asks, "test", NOW), polls).await;
                }
                1 => begun(store.apply(vec![claim(&task)], NOW), polls).await,
                2 => begun(store.read(&[task.place]), polls).await,
                _ => begun(store.audit(), polls).await,
            }
        });
    }
    callers.join_all().await;
    // Behind all that was begun, in every line.
    insert(&store, (100_000..101_000).map(ask).collect()).await;
    let moved = standing.iter().map(|task| task.place).collect::<Vec<_>>();
    let steps = standing.iter().map(claim).collect();
    let applied = store.apply(steps, NOW).await.unwrap();
    for (nth, (applied, task)) in applied.into_iter().zip(store.read(&moved).await.unwrap()).enumerate() {
        let was_claimed = nth % 4 == 1;
        assert_eq!(applied == Applied::Lost, was_claimed, "{nth}");
        assert_eq!(task.unwrap().history.len(), 2, "{nth}");
    }
    let books = store.books().await.unwrap();
    assert_eq!(books.accepted, 200 + 50 * 20 + 1_000, "every insert that was begun is there, wholly");
    balanced(&*store).await;
    let store = Arc::into_inner(store).unwrap();
    store.close().await;
    for url in &urls {
        let left = format!("SELECT COUNT(*) FROM information_schema.processlist WHERE db = '{}'", name(url));
        assert_eq!(sql(url, &left).await, "1", "nothing but who asks");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_connection_waits_inside_a_transaction() {
    let urls = fresh(1).await;
    let store = Arc::new(open(&urls).await);
    let standing = insert(&store, (0..100).map(ask).collect()).await;
    let mut rng = fastrand::Rng::with_seed(2);
    for nth in 0..300 {
        let polls = rng.usize(1..12);
        match nth % 3 {
            0 => begun(store.insert(vec![ask(1_000 + nth)], "test", NOW), polls).await,
            1 => {
                begun(store.apply(vec![claim(&standing[usize::try_from(nth).unwrap() % 100])], NOW), polls)
                    .await
            }
            _ => begun(store.audit(), polls).await,
        }
    }
    // Behind all that was begun, in every line and among the searches.
    insert(&store, (100_000..101_000).map(ask).collect()).await;
    store.apply(standing.iter().map(claim).collect(), NOW).await.unwrap();
    balanced(&*store).await;
    // A session between two statements continues and ends its transaction. The server ends one that waits for 3 s, with its
    // session: where a session is gone, its transaction was abandoned.
    let lines = async |text: String| -> HashSet<String> {
        sql(&urls[0], &text).await.lines().map(str::to_owned).collect()
    };
    let sessions = format!("SELECT id FROM information_schema.processlist WHERE db = '{}'", name(&urls[0]));
    let waiting = format!(
        "SELECT CONCAT(p.id, ' ', t.trx_started) FROM information_schema.innodb_trx t \
         JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id \
         WHERE p.db = '{}' AND p.command = 'Sleep'",
        name(&urls[0])
    );
    let met = lines(waiting.clone()).await;
    until("none of them waits any more", || async { lines(waiting.clone()).await.is_disjoint(&met) }).await;
    let there = lines(sessions).await;
    let gone: Vec<&String> =
        met.iter().filter(|met| !there.contains(met.split(' ').next().unwrap())).collect();
    assert!(gone.is_empty(), "abandoned transactions: {gone:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_engines_that_insert_the_same_ids_at_once_store_each_once() {
    let urls = fresh(2).await;
    let engines = [Arc::new(open(&urls).await), Arc::new(open(&urls).await)];
    for round in 0..10_i64 {
        let mut callers = JoinSet::new();
        for caller in 0..8_usize {
            let engine = Arc::clone(&engines[caller % 2]);
            let mut asks: Vec<NewTask> = (0..60).map(|nth| ask(round * 100 + nth)).collect();
            fastrand::Rng::with_seed(caller as u64).shuffle(&mut asks);
            callers.spawn(async move { engine.insert(asks, "test", NOW).await.unwrap() });
        }
        let all: Vec<_> = callers.join_all().await.into_iter().flatten().collect();
        assert_eq!(
            all.iter().filter(|inserted| inserted.decision == Decision::Create).count(),
            60,
            "round {round}"
        );
        assert_eq!(all.iter().map(|inserted| inserted.task.place.id).collect::<HashSet<_>>().len(), 60);
        assert_eq!(
            all.iter()
                .map(|inserted| (inserted.task.place.id, inserted.task.fence))
                .collect::<HashSet<_>>()
                .len(),
            480
        );
    }
    balanced(&*engines[0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_engines_give_different_ids_and_pass_over_taken_ones_in_any_version() {
    let urls = fresh(3).await;
    let anonymous = || NewTask { task_id: None, ..ask(0) };
    let engines = [open(&urls).await, open(&urls).await];
    let first = insert(&engines[0], vec![anonymous()]).await.remove(0).task_id();
    let taken: Vec<NewTask> =
        (1..200).map(|number| NewTask { task_version: 7, ..ask(first + number) }).collect();
    assert!(first >= ENGINE_TASK_ID_BASE);
    insert(&engines[1], taken).await;
    let mut ids = HashSet::new();
    for engine in &engines {
        for task in insert(engine, (0..500).map(|_| anonymous()).collect()).await {
            assert!(ids.insert(task.task_id()), "given twice");
            assert!(!(first..first + 200).contains(&task.task_id()), "taken by a caller");
        }
    }
    balanced(&engines[0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn connections_that_the_server_ended_are_made_again() {
    let urls = fresh(1).await;
    let store = open(&urls).await;
    let task = insert(&store, vec![ask(1)]).await.remove(0);
    let kill = format!(
        "SELECT GROUP_CONCAT(CONCAT('KILL ', id) SEPARATOR ';') FROM information_schema.processlist \
         WHERE db = '{}' AND id <> CONNECTION_ID()",
        name(&urls[0])
    );
    for round in 2..6 {
        let kill = sql(&urls[0], &kill).await;
        assert!(kill.contains("KILL"), "{kill}");
        sql(&urls[0], &kill).await;
        insert(&store, vec![ask(round)]).await;
        assert_eq!(store.read(&[task.place]).await.unwrap(), [Some(task.clone())]);
    }
    balanced(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_closed_store_refuses_and_says_that_nothing_happened() {
    let urls = fresh(1).await;
    let store = open(&urls).await;
    let task = insert(&store, vec![ask(1)]).await.remove(0);
    store.close().await;
    let refused = store.apply(vec![claim(&task)], NOW).await.unwrap_err();
    assert_eq!(refused.happened, Happened::No);
    assert_eq!(store.insert(vec![ask(2)], "test", NOW).await.unwrap_err().happened, Happened::No);
    assert_eq!(store.read(&[task.place]).await.unwrap_err().happened, Happened::No);
}

/// A statement that is closed instead of kept costs 40 ms, because the driver does not switch Nagle's delay off.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_repeated_statement_is_closed_and_waits_for_nagle() {
    let server = MariaDb::own().await;
    let store = open(&[server.fresh_database().await]).await;
    let counted =
        async |what| server.sql("mysql", &format!("SHOW GLOBAL STATUS LIKE 'Com_stmt_{what}'")).await;
    let before = counted("close").await;
    for nth in 0..15 {
        let tasks = insert(&store, (0..7).map(|number| ask(nth * 100 + number)).collect()).await;
        insert(&store, vec![ask(nth * 100)]).await;
        store.apply(tasks[1..].iter().map(claim).collect(), NOW).await.unwrap();
        let grant = |task: &Task| Grant {
            place: task.place,
            fence: task.fence,
            fired_at: NOW,
            lease_until: NOW.plus(30_000),
            executor: "test".to_owned(),
            namespace: punctual_domain::name::Name::default_namespace(),
            has_begun: false,
            known: None,
        };
        store.dispatch(tasks[1..].iter().map(grant).collect(), NOW).await.unwrap();
        let scan = Scan { partition: Partition(0), until: Millis::MAX, after: None, limit: 9 };
        store.scan(scan).await.unwrap();
        store.read(&tasks.iter().map(|task| task.place).collect::<Vec<_>>()).await.unwrap();
        store.books().await.unwrap();
        assert_eq!(counted("close").await, before, "in round {nth}");
    }
    let executed = counted("execute").await;
    let executed: u64 = executed.split_whitespace().last().unwrap().parse().unwrap();
    assert!(executed > 15 * 7, "{executed}: statements are prepared at all");
}
