//! Measures what the store can do on this machine, on a file: bulk inserts, whole lives of tasks, single inserts
//! from many callers, and the bare price of a statement. Prints one table; asserts nothing.
//!
//! `cargo run --release -p punctual-store --example store_bench [-- <directory> [<tasks>]]`
#![expect(clippy::disallowed_methods, reason = "a stopwatch, and tasks that nobody supervises")]
#![expect(clippy::print_stdout, reason = "its purpose")]
#![expect(clippy::unwrap_used, reason = "a broken measurement should stop")]

use punctual_contract::{
    Store,
    store::{Change, Grant, Scan, Step},
};
use punctual_domain::{
    history::Note,
    name::{Name, QueueKey},
    place::Partition,
    task::{Content, NewTask, Task, TaskResult},
    time::Millis,
};
use punctual_store::{Options, SqliteStore};
use std::{
    env,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

const NOW: Millis = Millis(1_900_000_000_000);
const BATCH: usize = 1_000;
const CALLERS: usize = 64;
/// Whether tasks become due in another order than they were inserted in: then each step touches rows far apart.
static SHUFFLED: AtomicBool = AtomicBool::new(false);

fn main() {
    let mut args = env::args().skip(1);
    let dir = args.next().map_or_else(env::temp_dir, PathBuf::from);
    let tasks: usize = args.next().map_or(200_000, |arg| arg.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    println!("{:<58} {:>12} {:>10} {:>10}", "what", "per second", "us each", "CPU us");
    runtime.block_on(async {
        for (bytes, tasks) in [(200, tasks), (1_000, tasks / 4), (10_000, tasks / 10)] {
            lives(&dir, bytes, tasks).await;
        }
        println!("due in another order than inserted");
        SHUFFLED.store(true, Relaxed);
        lives(&dir, 200, tasks).await;
        println!("in memory, 200 bytes: the same without a medium and without threads");
        life(&SqliteStore::in_memory(&Options::default()).unwrap(), 200, tasks / 2).await;
        singles(&dir, tasks / 4).await;
    });
    bare_statements(&dir);
    open_in_memory();
}

/// A stopwatch that also counts the processor time of all threads: what remains comparable on a busy machine.
struct BenchWatch {
    started: Instant,
    cpu: Duration,
}

impl BenchWatch {
    fn start() -> Self {
        Self { started: Instant::now(), cpu: cpu() }
    }

    fn line(&self, what: &str, count: usize) {
        self.line_without(what, count, Duration::ZERO);
    }

    fn line_without(&self, what: &str, count: usize, other: Duration) {
        let count = f64::from(u32::try_from(count).unwrap());
        let each = (self.started.elapsed() - other).as_secs_f64() / count;
        let cpu = (cpu() - self.cpu).as_secs_f64() / count;
        println!("{what:<58} {:>12.0} {:>10.2} {:>10.2}", 1.0 / each, each * 1e6, cpu * 1e6);
    }
}

/// Of all threads, by Linux; zero elsewhere.
fn cpu() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let spent = |entry: std::fs::DirEntry| -> Option<u64> {
        let text = std::fs::read_to_string(entry.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok()
    };
    Duration::from_nanos(threads.filter_map(spent).sum())
}

/// A new file that is gone when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(dir: &Path) -> Self {
        let scratch = Self(dir.join(format!("store_bench_{}.db", std::process::id())));
        scratch.clear();
        scratch
    }

    fn clear(&self) {
        for end in ["", "-wal", "-shm", ".lock"] {
            drop(std::fs::remove_file(format!("{}{end}", self.0.display())));
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.clear();
    }
}

fn ask(bytes: usize, nth: usize) -> NewTask {
    let queue = QueueKey {
        namespace: Name::default_namespace(),
        queue: Name::new(if nth.is_multiple_of(2) { "mail" } else { "sms" }).unwrap(),
    };
    let spread =
        i64::try_from(if SHUFFLED.load(Relaxed) { (nth * 1_000_003) % 3_600_000 } else { nth }).unwrap();
    let mut task = NewTask::new(queue, Name::new("greet").unwrap(), NOW.plus(spread));
    task.payload = Content::json("x".repeat(bytes));
    task
}

async fn lives(dir: &Path, bytes: usize, tasks: usize) {
    let file = Scratch::new(dir);
    let store = SqliteStore::open(&file.0, &Options::default()).unwrap();
    life(&store, bytes, tasks).await;
    println!("  {:?}", store.activity());
    let closing = BenchWatch::start();
    store.close();
    println!(
        "  closed in {:?}, file {} MB",
        closing.started.elapsed(),
        std::fs::metadata(&file.0).unwrap().len() >> 20
    );
}

async fn life(store: &SqliteStore, bytes: usize, tasks: usize) {
    let asks: Vec<NewTask> = (0..tasks).map(|nth| ask(bytes, nth)).collect();
    let batches: Vec<Vec<NewTask>> = asks.chunks(BATCH).map(<[NewTask]>::to_vec).collect();
    let whole = BenchWatch::start();
    let mut rows: Vec<Task> = Vec::with_capacity(tasks);
    for batch in batches {
        rows.extend(
            store.insert(batch, "bench", NOW).await.unwrap().into_iter().map(|inserted| inserted.task),
        );
    }
    whole.line(&format!("insert, {BATCH} a call, {bytes} bytes"), tasks);
    // As an engine meets them.
    rows.sort_by_key(|task| task.due_at);
    let scanned = BenchWatch::start();
    scan_all(store, tasks).await;
    scanned.line("  scan for what is due, all partitions", tasks);
    let scanning = scanned.started.elapsed();
    moves(store, &rows, Change::Claim, "  claim").await;
    let tokens = dispatch(store, &rows).await;
    succeed(store, &rows, &tokens).await;
    whole.line_without(&format!("whole life, {bytes} bytes"), tasks, scanning);
}

async fn scan_all(store: &SqliteStore, tasks: usize) {
    let mut seen = 0;
    for partition in (0..store.partitions()).map(Partition) {
        let mut after = None;
        loop {
            let page = store.scan(Scan { partition, until: Millis::MAX, after, limit: BATCH }).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(last.key());
            seen += page.len();
        }
    }
    assert_eq!(seen, tasks);
}

async fn moves(store: &SqliteStore, rows: &[Task], change: Change, what: &str) {
    let started = BenchWatch::start();
    for batch in rows.chunks(BATCH) {
        let note = Note { by: "bench".to_owned(), ..Note::default() };
        let step = |task: &Task| Step {
            place: task.place,
            fence: Some(task.fence),
            change: change.clone(),
            note: note.clone(),
            fired_at: None,
            known: None,
        };
        store.apply(batch.iter().map(step).collect(), NOW).await.unwrap();
    }
    started.line(what, rows.len());
}

async fn dispatch(store: &SqliteStore, rows: &[Task]) -> Vec<i64> {
    let started = BenchWatch::start();
    let mut tokens = Vec::with_capacity(rows.len());
    for batch in rows.chunks(BATCH) {
        let grant = |task: &Task| Grant {
            place: task.place,
            fence: task.fence,
            fired_at: NOW,
            lease_until: NOW.plus(30_000),
            executor: "executor-1".to_owned(),
            namespace: punctual_domain::name::Name::default_namespace(),
            has_begun: false,
            known: None,
        };
        let given = store.dispatch(batch.iter().map(grant).collect(), NOW).await.unwrap();
        tokens.extend(given.into_iter().map(|dispatched| dispatched.made().unwrap().fence));
    }
    started.line("  dispatch", rows.len());
    tokens
}

async fn succeed(store: &SqliteStore, rows: &[Task], tokens: &[i64]) {
    let started = BenchWatch::start();
    let result = TaskResult { status_code: 200, status_msg: "ok".to_owned(), content: None };
    let change = Change::Succeed { result, keep_until: NOW.plus(86_400_000) };
    let paired: Vec<_> = rows.iter().zip(tokens).collect();
    for batch in paired.chunks(BATCH) {
        let note = Note { by: "executor-1".to_owned(), ..Note::default() };
        let step = |pair: &(&Task, &i64)| Step {
            place: pair.0.place,
            fence: Some(*pair.1),
            change: change.clone(),
            note: note.clone(),
            fired_at: None,
            known: None,
        };
        store.apply(batch.iter().map(step).collect(), NOW).await.unwrap();
    }
    started.line("  succeed", rows.len());
}

async fn singles(dir: &Path, tasks: usize) {
    let file = Scratch::new(dir);
    let store = Arc::new(SqliteStore::open(&file.0, &Options::default()).unwrap());
    let started = BenchWatch::start();
    let caller = |nth: usize| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for number in 0..tasks / CALLERS {
                store.insert(vec![ask(200, number * CALLERS + nth)], "bench", NOW).await.unwrap();
            }
        })
    };
    let callers: Vec<_> = (0..CALLERS).map(caller).collect();
    for caller in callers {
        caller.await.unwrap();
    }
    started.line(&format!("insert, 1 a call, {CALLERS} callers"), tasks);
    let alone = BenchWatch::start();
    for nth in 0..2_000 {
        store.insert(vec![ask(200, nth)], "bench", NOW).await.unwrap();
    }
    alone.line("insert, 1 a call, 1 caller", 2_000);
    println!("  {:?}", store.activity());
}

/// What decision 0001 rests on: a prepared statement called directly, against one that is sent to a thread of its
/// own and awaited, one at a time; both in one transaction on a file.
fn bare_statements(dir: &Path) {
    const ROWS: usize = 100_000;
    let file = Scratch::new(dir);
    let conn = rusqlite::Connection::open(&file.0).unwrap();
    conn.execute_batch(
        "PRAGMA journal_mode = WAL; CREATE TABLE t (id INTEGER PRIMARY KEY, state INTEGER, body BLOB)",
    )
    .unwrap();
    let insert = |conn: &rusqlite::Connection, id: usize| {
        let mut statement = conn.prepare_cached("INSERT INTO t VALUES (?1, 1, ?2)").unwrap();
        statement.execute((i64::try_from(id).unwrap(), [0_u8; 200].as_slice())).unwrap();
    };
    let update = |conn: &rusqlite::Connection, id: usize| {
        let mut statement =
            conn.prepare_cached("UPDATE t SET state = 2 WHERE id = ?1 AND state = 1").unwrap();
        statement.execute([i64::try_from(id).unwrap()]).unwrap();
    };
    conn.execute_batch("BEGIN IMMEDIATE").unwrap();
    let started = BenchWatch::start();
    (0..ROWS).for_each(|nth| insert(&conn, nth));
    started.line("bare insert, direct call", ROWS);
    let started = BenchWatch::start();
    (0..ROWS).for_each(|nth| update(&conn, nth));
    started.line("bare guarded update, direct call", ROWS);
    conn.execute_batch("COMMIT; UPDATE t SET state = 1; BEGIN IMMEDIATE").unwrap();
    let (ask, asked) = std::sync::mpsc::channel::<(usize, tokio::sync::oneshot::Sender<()>)>();
    let thread = std::thread::spawn(move || {
        for (id, done) in asked {
            update(&conn, id);
            done.send(()).unwrap();
        }
        conn.execute_batch("COMMIT").unwrap();
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let started = BenchWatch::start();
    let (send, hops) = (ask, ROWS / 5);
    let awaiting = async move {
        for id in 0..hops {
            let (done, answer) = tokio::sync::oneshot::channel();
            send.send((id, done)).unwrap();
            answer.await.unwrap();
        }
    };
    runtime.block_on(awaiting);
    started.line("bare guarded update, one hop to a thread each", hops);
    thread.join().unwrap();
}

fn open_in_memory() {
    let started = BenchWatch::start();
    for _ in 0..500 {
        drop(SqliteStore::in_memory(&Options::default()).unwrap());
    }
    started.line("open in memory", 500);
}
