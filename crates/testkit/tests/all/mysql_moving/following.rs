//! Tasks that flow while a partition moves, and the data that moves with it.

use super::*;
use crate::statements;
use punctual_contract::store::{Reply, ReplyKey};
use punctual_testkit::patience::until;
use std::{
    collections::HashSet,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicI64, Ordering::SeqCst},
    },
};
use tokio::task::JoinSet;

/// What those who work at once have seen.
#[derive(Default)]
struct Seen {
    /// By caller's id, the reference that was handed out.
    accepted: Mutex<HashMap<i64, TaskRef>>,
    /// By row, how often an outcome was accepted.
    succeeded: Mutex<HashMap<i64, u32>>,
    /// Hand-overs, by row and fence.
    handed: Mutex<HashSet<(i64, i64)>>,
    stop: AtomicBool,
    clock: AtomicI64,
}

impl Seen {
    fn now(&self) -> Millis {
        NOW.plus(self.clock.fetch_add(1, SeqCst))
    }

    /// Many wait: the test is about moving, not about how many there can be.
    fn is_behind(&self) -> bool {
        let waits = self.accepted.lock().unwrap().len() - self.succeeded.lock().unwrap().len();
        waits > 400 && !self.stop.load(SeqCst)
    }

    fn accept(&self, tasks: &[Task]) {
        let mut accepted = self.accepted.lock().unwrap();
        accepted.extend(tasks.iter().map(|task| (task.ask.task_id.unwrap(), task.place)));
    }
}

async fn insert_on(store: Arc<MysqlStore>, seen: Arc<Seen>, first: i64) {
    let mut next = first;
    while !seen.stop.load(SeqCst) {
        let asks = (next..next + 20).map(ask).collect();
        next += 20;
        let tasks = insert(&store, asks, seen.now()).await;
        seen.accept(&tasks);
        while seen.is_behind() {
            store.books().await.unwrap();
        }
    }
}

/// An engine: hands over waiting tasks, and reports; a third of the tasks is tried twice.
async fn work_on(store: Arc<MysqlStore>, seen: Arc<Seen>) {
    let mut idle = 0;
    while idle < 3 {
        let mut worked = 0;
        for partition in 0..PARTITIONS {
            let now = seen.now();
            let mut entries = waiting(&store, partition, now).await;
            entries.truncate(100);
            let handed = hand_over(&store, &entries, now).await;
            worked += handed.len();
            for lease in &handed {
                assert!(
                    seen.handed.lock().unwrap().insert((lease.place.id, lease.fence)),
                    "handed over twice: {lease:?}"
                );
            }
            let outcome = |lease: &Assignment| {
                let retry = lease.attempt == 1 && lease.task_id % 3 == 0;
                let change =
                    if retry { Change::Retry { due_at: now.plus(50), result: None } } else { success(now) };
                step(lease.place, lease.fence, change)
            };
            // Twice: the second report of an attempt must never be accepted.
            for _ in 0..2 {
                let steps: Vec<Step> = handed.iter().map(outcome).collect();
                let applied = store.apply(steps.clone(), now).await.unwrap();
                for (step, _) in steps.iter().zip(applied).filter(|pair| pair.1 == Applied::Moved) {
                    if matches!(step.change, Change::Succeed { .. }) {
                        *seen.succeeded.lock().unwrap().entry(step.place.id).or_default() += 1;
                    }
                }
            }
        }
        idle = if worked == 0 && seen.stop.load(SeqCst) { idle + 1 } else { 0 };
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn all_partitions_move_there_and_back_under_load_and_each_task_runs_once() {
    let urls = fresh(2).await;
    let engines = [open(&urls).await, open(&urls).await];
    let seen = Arc::new(Seen::default());
    let mut flowing = JoinSet::new();
    for (engine, first) in engines.iter().zip([1, 1_000_000]) {
        flowing.spawn(insert_on(Arc::clone(engine), Arc::clone(&seen), first));
        flowing.spawn(work_on(Arc::clone(engine), Arc::clone(&seen)));
    }
    let operator = open(&urls).await;
    for (partition, to) in [(0, 1), (1, 0), (2, 1), (3, 0), (0, 0), (3, 1), (2, 0), (1, 1)] {
        let moved = move_to(&operator, partition, to).await.unwrap();
        assert_eq!((moved.from, moved.to), (1 - to, to));
        assert!(moved.tasks > 0, "{moved:?}");
    }
    seen.stop.store(true, SeqCst);
    flowing.join_all().await;
    let accepted = seen.accepted.lock().unwrap().clone();
    let succeeded = seen.succeeded.lock().unwrap().clone();
    assert_eq!(succeeded.len(), accepted.len(), "each task has succeeded");
    assert!(succeeded.values().all(|number| *number == 1), "and only once");
    for store in engines.iter().chain([&operator]) {
        each_is_found_once(store, &accepted).await;
    }
    let books = operator.books().await.unwrap();
    assert_eq!(books.accepted, i64::try_from(accepted.len()).unwrap());
    all_is_sound(&operator).await;
    assert_eq!(sql(&urls[0], "SELECT COUNT(DISTINCT partition_no) FROM task").await, "2");
    assert_eq!(sql(&urls[1], "SELECT COUNT(DISTINCT partition_no) FROM task").await, "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn leases_replies_long_payloads_and_rescheduled_tasks_go_with_their_partition() {
    let urls = fresh(2).await;
    let store = open(&urls).await;
    let long = vec![b'x'; 5_000];
    let ids: Vec<i64> = ids_in(0).take(300).collect();
    let asks = ids.iter().map(|id| {
        let payload = Content::binary(if id % 2 == 0 { long.clone() } else { vec![7] });
        NewTask { payload, ..ask(*id) }
    });
    let tasks = insert(&store, asks.collect(), NOW).await;
    let handed = hand_over(&store, &waiting(&store, 0, NOW).await[..100], NOW).await;
    let far = |task: &Task| {
        step(
            task.place,
            task.fence,
            Change::Reschedule {
                execute_at: Some(NOW.plus(500_000)),
                priority: None,
                payload: None,
                queue: None,
            },
        )
    };
    let waits: Vec<Task> = {
        let flies: HashSet<i64> = handed.iter().map(|lease| lease.place.id).collect();
        tasks.iter().filter(|task| !flies.contains(&task.place.id)).cloned().collect()
    };
    let moved = store.apply(waits[..50].iter().map(far).collect(), NOW).await.unwrap();
    assert!(moved.iter().all(|stepped| *stepped == Applied::Moved));
    // A namespace whose replies hang on this partition.
    let namespace = (0..).map(|nth| Name::new(&format!("n{nth}")).unwrap());
    let namespace =
        namespace.into_iter().find(|name| partition_of(name, 0, PARTITIONS) == Partition(0)).unwrap();
    let key = ReplyKey { namespace, key: "k\u{fe}".to_owned() };
    let reply = Reply { request_hash: 7, status: 201, body: vec![0, 255], keep_until: NOW.plus(1_000) };
    store.save_reply(&key, &reply).await.unwrap();
    let before = store.read(&tasks.iter().map(|task| task.place).collect::<Vec<_>>()).await.unwrap();

    let done = move_to(&store, 0, 1).await.unwrap();
    assert_eq!((done.tasks, done.from, done.to), (300, 0, 1));
    assert_eq!(move_to(&store, 0, 1).await, None, "it is there");

    let after = store.read(&tasks.iter().map(|task| task.place).collect::<Vec<_>>()).await.unwrap();
    assert_eq!(before, after, "to the last column");
    assert_eq!(store.load_reply(&key, NOW).await.unwrap(), Some(reply));
    let ended = store.leases_ended(NOW.plus(700_000), 1_000).await.unwrap();
    assert_eq!(ended.len(), 100);
    for table in ["task", "registry", "moved", "body", "reply", "lookup"] {
        let left = sql(&urls[0], &format!("SELECT COUNT(*) FROM {table}")).await;
        assert_eq!(left, "0", "{table}");
    }
    assert_eq!(sql(&urls[1], "SELECT COUNT(*) FROM moved").await, "50");
    all_is_sound(&store).await;
}

/// What an engine that is stopped and continues asks for.
type Call = Box<dyn FnOnce(&MysqlStore, &tokio::runtime::Runtime) + Send>;

/// An engine on a thread of its own, which stops with all its connections whenever it has no call to do, as
/// under SIGSTOP.
struct Zombie {
    calls: std::sync::mpsc::Sender<Call>,
    thread: std::thread::JoinHandle<()>,
}

impl Zombie {
    fn start(urls: Vec<String>) -> Self {
        let (calls, asked) = std::sync::mpsc::channel::<Call>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let store = runtime.block_on(MysqlStore::open(&urls, OPTIONS)).unwrap();
            for call in asked {
                call(&store, &runtime);
            }
            runtime.block_on(store.close());
        });
        Self { calls, thread }
    }

    fn ask<T: Send + 'static>(
        &self,
        call: impl AsyncFnOnce(&MysqlStore) -> T + Send + 'static,
    ) -> tokio::sync::oneshot::Receiver<T> {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let call = move |store: &MysqlStore, runtime: &tokio::runtime::Runtime| {
            drop(answer.send(runtime.block_on(call(store))));
        };
        self.calls.send(Box::new(call)).unwrap();
        answered
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_engine_that_slept_through_the_move_is_refused_by_the_old_database_and_finds_the_new_one() {
    let urls = fresh(2).await;
    let store = open(&urls).await;
    let ids: Vec<i64> = ids_in(0).take(40).collect();
    let (known, late) = ids.split_at(30);
    let (known, late) = (known.to_vec(), late.to_vec());
    let tasks = insert(&store, known.iter().copied().map(ask).collect(), NOW).await;
    let zombie = Zombie::start(urls.clone());
    let entries = zombie.ask(async |store| waiting(store, 0, NOW).await).await.unwrap();
    assert_eq!(entries.len(), 30);

    move_to(&store, 0, 1).await.unwrap();
    // While it slept, another engine took ten of them.
    let taken = hand_over(&store, &entries[..10], NOW).await;
    assert_eq!(taken.len(), 10);
    let remains = "SELECT COUNT(*) FROM task";
    assert_eq!(sql(&urls[0], remains).await, "0");

    let mine = entries.clone();
    let claimed = zombie.ask(async move |store| {
        let claims = mine.iter().map(|entry| step(entry.place, entry.fence, Change::Claim)).collect();
        store.apply(claims, NOW).await.unwrap()
    });
    let claimed = claimed.await.unwrap();
    assert_eq!(
        claimed.iter().filter(|stepped| **stepped == Applied::Moved).count(),
        20,
        "only what nobody has"
    );
    let late_asks: Vec<NewTask> = late.iter().copied().map(ask).collect();
    let created = zombie.ask(async move |store| insert(store, late_asks, NOW).await).await.unwrap();
    let places: Vec<TaskRef> = tasks.iter().map(|task| task.place).collect();
    let read = zombie.ask(async move |store| store.read(&places).await.unwrap()).await.unwrap();
    assert!(read.iter().all(Option::is_some));
    assert_eq!(sql(&urls[0], remains).await, "0", "nothing was written at the old place");
    assert_eq!(sql(&urls[1], remains).await, "40");
    let all = tasks.iter().chain(&created).map(|task| (task.ask.task_id.unwrap(), task.place)).collect();
    each_is_found_once(&store, &all).await;
    all_is_sound(&store).await;
    drop(zombie.calls);
    zombie.thread.join().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_a_sleeping_engine_reads_is_of_the_new_place_also_while_the_old_rows_are_still_there() {
    let urls = fresh(2).await;
    let store = open(&urls).await;
    let tasks = insert(&store, ids_in(0).take(50).map(ask).collect(), NOW).await;
    let zombie = Zombie::start(urls.clone());
    let entries = zombie.ask(async |store| waiting(store, 0, NOW).await).await.unwrap();
    let mut until_opened = |progress: &MoveProgress| {
        if progress.step == MoveStep::Opened { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    store.move_partition(Partition(0), 1, &mut until_opened).await.unwrap_err();
    assert_eq!(sql(&urls[0], "SELECT COUNT(*) FROM task").await, "50", "the old rows are there");
    let cancel =
        |task: &Task| step(task.place, task.fence, Change::Cancel { keep_until: NOW.plus(1_000_000) });
    let cancelled = store.apply(tasks[..20].iter().map(cancel).collect(), NOW).await.unwrap();
    assert!(cancelled.iter().all(|stepped| *stepped == Applied::Moved));
    let seen = zombie.ask(async |store| waiting(store, 0, NOW).await).await.unwrap();
    assert_eq!(seen.len(), 30, "of {} before", entries.len());
    let places: Vec<TaskRef> = tasks.iter().map(|task| task.place).collect();
    let read = zombie.ask(async move |store| store.read(&places).await.unwrap()).await.unwrap();
    assert!(read[..20].iter().all(|task| task.as_ref().unwrap().state == State::Cancelled));
    let books = store.audit().await.unwrap();
    assert_eq!(books, store.books().await.unwrap(), "old rows are not counted");
    drop(zombie.calls);
    zombie.thread.join().unwrap();
    move_to(&store, 0, 1).await.unwrap();
    all_is_sound(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_transaction_under_way_holds_its_partition_until_it_ends() {
    let urls = fresh(2).await;
    let store = open(&urls).await;
    insert(&store, ids_in(0).take(10).map(ask).collect(), NOW).await;
    let open_script = statements::text("mysql", "hosted/begin_on_some");
    let gate = format!("'under way {}'", urls[0].rsplit('/').next().unwrap());
    let text = format!(
        "{}; UPDATE meta SET value = -1 WHERE name = 'walk_id'; DO GET_LOCK({gate}, 120);
         INSERT INTO meta (name, value) SELECT 'seen_closed', COUNT(*) FROM hosted WHERE partition_no = 0 AND state <> 1; COMMIT",
        open_script.replace("{partitions}", "0").trim_end()
    );
    let session = |text: String| {
        let (url, mut sessions) = (urls[0].clone(), JoinSet::new());
        sessions.spawn(async move { sql(&url, &text).await });
        sessions
    };
    let runs = async |like: &str| {
        let running = format!(
            "SELECT id FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND INFO LIKE '{like}'"
        );
        sql(&urls[0], &running).await
    };
    let mut closed = session(format!("DO GET_LOCK({gate}, 0); DO SLEEP(120)"));
    until("the gate is closed", || async { !runs("DO SLEEP(120)").await.is_empty() }).await;
    let under_way = session(text);
    until("it waits at the gate", || async { !runs("DO GET_LOCK(%").await.is_empty() }).await;
    let mover = Arc::clone(&store);
    let mut moving = JoinSet::new();
    moving.spawn(async move { move_to(&mover, 0, 1).await.unwrap() });
    until("the mover waits for it", || async { !runs("UPDATE hosted SET state%").await.is_empty() }).await;
    let sleeper = runs("DO SLEEP(120)").await;
    sql(&urls[0], &format!("KILL {sleeper}")).await;
    assert!(closed.join_next().await.unwrap().is_err(), "it was killed");
    under_way.join_all().await;
    let moved = moving.join_next().await.unwrap().unwrap();
    assert_eq!(sql(&urls[0], "SELECT value FROM meta WHERE name = 'seen_closed'").await, "0");
    assert_eq!(moved.tasks, 10);
    all_is_sound(&store).await;
}
