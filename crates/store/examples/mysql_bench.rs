//! Measures what the store can do on one or more MySQL databases: bulk inserts, claims, dispatches, outcomes, single
//! inserts from many callers. Prints one table; asserts nothing. The databases must be empty or of an earlier run.
//!
//! `cargo run --release -p punctual-store --example mysql_bench -- <tasks> <url> [<url> ...]`
//!
//! The last column is the processor time of the database server, if it runs on this machine as `mariadbd` or `mysqld`.
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
use punctual_store::{MysqlOptions, MysqlStore};
use std::{
    env, fs,
    sync::Arc,
    time::{Duration, Instant},
};

const BATCH: usize = 1_000;
/// Calls that are under way at the same time.
const DEPTH: usize = 4;
const CALLERS: usize = 64;
/// Two seconds of due times an insert batch, as a steady stream has them.
const PER_SECOND: usize = 20_000;

fn main() {
    let mut args = env::args().skip(1);
    let tasks: usize = args.next().expect("how many tasks").parse().unwrap();
    let urls: Vec<String> = args.collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    println!("{:<52} {:>10} {:>9} {:>9} {:>9}", "what", "per second", "us each", "CPU us", "server us");
    runtime.block_on(async {
        let store = Arc::new(MysqlStore::open(&urls, MysqlOptions::default()).await.unwrap());
        let run = i64::from(std::process::id()) << 24;
        life(&store, "ids of the engine", Times::Spread, tasks, None).await;
        life(&store, "ids of callers", Times::Spread, tasks, Some(run)).await;
        life(&store, "all due at one instant", Times::OneInstant, tasks / 2, None).await;
        singles(&store, tasks / 4).await;
        store.close().await;
    });
}

#[derive(Clone, Copy)]
enum Times {
    Spread,
    OneInstant,
}

/// A stopwatch that also counts the processor time of this process and of the server.
struct Watch {
    started: Instant,
    own: Duration,
    server: Duration,
}

impl Watch {
    fn start() -> Self {
        Self { started: Instant::now(), own: cpu("self"), server: server_cpu() }
    }

    fn line(&self, what: &str, count: usize) {
        let count = f64::from(u32::try_from(count).unwrap());
        let each = |duration: Duration| duration.as_secs_f64() / count * 1e6;
        let wall = each(self.started.elapsed());
        let (own, server) = (each(cpu("self") - self.own), each(server_cpu() - self.server));
        println!("{what:<52} {:>10.0} {wall:>9.2} {own:>9.2} {server:>9.2}", 1e6 / wall);
    }
}

/// Of all threads, those that ended included, by Linux; zero elsewhere.
fn cpu(process: &str) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let after_name = stat.rsplit_once(')').map_or("", |parts| parts.1);
    let ticks = after_name.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<u64>().ok());
    Duration::from_millis(ticks.sum::<u64>() * 10)
}

fn server_cpu() -> Duration {
    let is_server = |pid: &String| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        matches!(name.trim(), "mariadbd" | "mysqld")
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|process| process.file_name().into_string().ok());
    pids.filter(is_server).map(|pid| cpu(&pid)).sum()
}

fn now() -> Millis {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Millis(i64::try_from(since.as_millis()).unwrap())
}

fn ask(nth: usize, from: Millis, times: Times, task_id: Option<i64>) -> NewTask {
    let queue = QueueKey {
        namespace: Name::default_namespace(),
        queue: Name::new(if nth.is_multiple_of(2) { "mail" } else { "sms" }).unwrap(),
    };
    let after = match times {
        Times::Spread => nth * 1_000 / PER_SECOND,
        Times::OneInstant => 0,
    };
    let mut task =
        NewTask::new(queue, Name::new("greet").unwrap(), from.plus(60_000 + i64::try_from(after).unwrap()));
    task.task_id = task_id.map(|task_id| task_id + i64::try_from(nth).unwrap());
    task.payload = Content::json("x".repeat(200));
    task
}

/// Calls of `BATCH` items, some of them at a time, as a busy engine makes them. Answers in order.
async fn batches<T, A, F>(
    store: &Arc<MysqlStore>,
    items: Vec<T>,
    call: impl Fn(Arc<MysqlStore>, Vec<T>) -> F,
) -> Vec<A>
where
    A: Send + 'static,
    F: Future<Output = Vec<A>> + Send + 'static,
{
    let (mut running, mut answers) = (std::collections::VecDeque::new(), Vec::with_capacity(items.len()));
    let mut rest = items.into_iter();
    loop {
        let batch: Vec<T> = rest.by_ref().take(BATCH).collect();
        if batch.is_empty() {
            break;
        }
        running.push_back(tokio::spawn(call(Arc::clone(store), batch)));
        if running.len() == DEPTH {
            answers.extend(running.pop_front().unwrap().await.unwrap());
        }
    }
    for handle in running {
        answers.extend(handle.await.unwrap());
    }
    answers
}

async fn life(store: &Arc<MysqlStore>, what: &str, times: Times, tasks: usize, ids: Option<i64>) {
    println!("{what}, {BATCH} a call, {DEPTH} calls at a time, 200 bytes");
    let from = now();
    let asks: Vec<NewTask> = (0..tasks).map(|nth| ask(nth, from, times, ids)).collect();
    let whole = Watch::start();
    let insert = |store: Arc<MysqlStore>, asks| async move {
        let inserted = store.insert(asks, "bench", now()).await.unwrap();
        inserted.into_iter().map(|inserted| inserted.task).collect::<Vec<Task>>()
    };
    let mut rows: Vec<Task> = batches(store, asks, insert).await;
    whole.line("  insert", tasks);
    rows.sort_by_key(|task| task.due_at);
    let places: Vec<Step> = rows.iter().map(|task| step(task, task.fence, Change::Claim)).collect();
    let watch = Watch::start();
    scan_all(store).await;
    watch.line("  scan of all that waits, each", tasks);
    moves(store, "  claim", places).await;
    let grants: Vec<Grant> = rows.iter().map(grant).collect();
    let watch = Watch::start();
    let dispatch =
        |store: Arc<MysqlStore>, grants| async move { store.dispatch(grants, now()).await.unwrap() };
    let given = batches(store, grants, dispatch).await;
    watch.line("  dispatch", tasks);
    let result = TaskResult { status_code: 200, status_msg: "ok".to_owned(), content: None };
    let done = Change::Succeed { result, keep_until: now().plus(86_400_000) };
    let outcomes = rows
        .iter()
        .zip(given)
        .map(|(row, dispatched)| step(row, dispatched.made().unwrap().fence, done.clone()))
        .collect();
    moves(store, "  outcome", outcomes).await;
    whole.line("  whole life", tasks);
}

fn step(task: &Task, fence: i64, change: Change) -> Step {
    let note = Note { by: "bench".to_owned(), ..Note::default() };
    Step { place: task.place, fence: Some(fence), change, note, fired_at: None, known: None }
}

fn grant(task: &Task) -> Grant {
    Grant {
        place: task.place,
        fence: task.fence,
        fired_at: task.due_at,
        lease_until: now().plus(30_000),
        executor: "executor-1".to_owned(),
        namespace: punctual_domain::name::Name::default_namespace(),
        has_begun: false,
        known: None,
    }
}

async fn moves(store: &Arc<MysqlStore>, what: &str, steps: Vec<Step>) {
    let (watch, count) = (Watch::start(), steps.len());
    let apply = |store: Arc<MysqlStore>, steps| async move { store.apply(steps, now()).await.unwrap() };
    let applied = batches(store, steps, apply).await;
    assert!(applied.iter().all(|stepped| *stepped == punctual_contract::store::Applied::Moved));
    watch.line(what, count);
}

async fn scan_all(store: &MysqlStore) -> usize {
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
    seen
}

async fn singles(store: &Arc<MysqlStore>, tasks: usize) {
    let watch = Watch::start();
    let caller = |nth: usize| {
        let store = Arc::clone(store);
        tokio::spawn(async move {
            for number in 0..tasks / CALLERS {
                let asks = vec![ask(number * CALLERS + nth, now(), Times::Spread, None)];
                store.insert(asks, "bench", now()).await.unwrap();
            }
        })
    };
    let callers: Vec<_> = (0..CALLERS).map(caller).collect();
    for caller in callers {
        caller.await.unwrap();
    }
    watch.line(&format!("insert, 1 a call, {CALLERS} callers"), tasks);
    let alone = Watch::start();
    for nth in 0..2_000 {
        store.insert(vec![ask(nth, now(), Times::Spread, None)], "bench", now()).await.unwrap();
    }
    alone.line("insert, 1 a call, 1 caller", 2_000);
}
