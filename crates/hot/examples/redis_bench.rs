//! What the hot set in Redis costs: tasks per second of each step, in batches of 100 and of 1,000, the
//! processor time that redis-server spends on one, and the memory of a loaded task. Writes under a prefix of
//! its own and removes everything; needs a Redis on the same machine for the processor time.
//!
//! `cargo run --release -p punctual-hot --example redis_bench -- redis://127.0.0.1:6379 [tasks] [bytes of a payload; 0: without]`
#![allow(clippy::print_stdout, reason = "its figures are its purpose")]

use punctual_contract::{
    Ask, Hot,
    hot::{Details, HotEntry},
    ownership::Tenure,
};
use punctual_domain::{
    name::{Name, QueueKey},
    place::{Partition, TaskRef},
    state::State,
    task::{Content, Priority},
    time::Millis,
};
use punctual_hot::{RedisHot, RedisOptions};
use std::{collections::BTreeMap, env, error::Error, future::Future, sync::Arc, time::Duration};
use tokio::time::Instant;

const PARTITIONS: u16 = 64;
const DUE_AT: i64 = 1_800_000_000_000;
/// Callers at the same time, as partitions are fired side by side.
const SIDE_BY_SIDE: usize = 4;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Like most tasks: a payload, attempts, a trace, no labels. None: only the entry is measured.
fn ask(payload: usize, due_at: Millis) -> Option<Arc<Ask>> {
    let ask = |bytes| Ask {
        payload: Content::binary(vec![b'x'; bytes]),
        max_attempts: 5,
        execute_at: due_at,
        timeout_ms: None,
        labels: BTreeMap::new(),
        traceparent: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned()),
    };
    (payload > 0).then(|| Arc::new(ask(payload)))
}

fn entry(id: i64, queue: &Arc<QueueKey>, payload: usize) -> HotEntry {
    let partition = Partition(u16::try_from(id % i64::from(PARTITIONS)).unwrap_or(0));
    // Shuffled over an hour, as due times are.
    let due_at = Millis(DUE_AT + (id * 7_919_333) % 3_600_000);
    HotEntry {
        place: TaskRef { partition, due_at, id: (1 << 40) + id },
        due_at,
        fence: 1,
        queue: Arc::clone(queue),
        priority: Priority::default(),
        task_id: (1 << 52) + id,
        task_version: 0,
        deadline_at: Millis::MAX,
        state: State::Scheduled,
        fired_at: Millis::ZERO,
        attempt: 0,
        details: Arc::new(Details {
            kind: Name::new("charge").ok(),
            ask: ask(payload, due_at),
            ..Details::default()
        }),
    }
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let mut args = env::args().skip(1);
    let url = args.next().ok_or("the first argument is the address: redis://127.0.0.1:6379")?;
    let tasks = args.next().map_or(Ok(200_000), |arg| arg.parse())?;
    let payload = args.next().map_or(Ok(200), |arg| arg.parse())?;
    let prefix = format!("bench-{}", std::process::id());
    let hot = Arc::new(RedisHot::connect(&url, RedisOptions { prefix, ..RedisOptions::default() }).await?);
    let server = Server::of(&url);
    println!(
        "{:>8} {:>7} {:>12} {:>18} {:>10}",
        "step", "batch", "tasks/s", "redis CPU us/task", "bytes/task"
    );
    for batch in [100, 1_000] {
        run(&hot, &server, (tasks, payload), batch).await?;
    }
    Ok(())
}

async fn run(
    hot: &Arc<RedisHot>,
    server: &Server,
    (tasks, payload): (usize, usize),
    batch: usize,
) -> Outcome<()> {
    let queue = QueueKey { namespace: Name::default_namespace(), queue: Name::new("orders")? };
    let queue = Arc::new(queue);
    let bench = Bench { hot: Arc::clone(hot), server, tasks, batch };
    let entries: Vec<HotEntry> = (0..i64::try_from(tasks)?).map(|id| entry(id, &queue, payload)).collect();
    let before = hot.memory().await?.used_bytes;
    bench
        .step("load", entries.chunks(batch).map(<[_]>::to_vec).collect(), async |hot, entries| {
            hot.load(entries).await
        })
        .await?;
    let bytes = (hot.memory().await?.used_bytes - before) / u64::try_from(tasks)?;
    println!("{:>8} {batch:>7} {:>12} {:>18} {bytes:>10}", "memory", "", "");

    // As an engine does, all partitions in one call; a batch is of all of them together.
    let tenures: Vec<Tenure> = (0..PARTITIONS).map(|number| Tenure::sole(Partition(number))).collect();
    let limit = batch.div_ceil(tenures.len());
    let rounds = tasks.div_ceil(tenures.len()).div_ceil(limit);
    let drain = async |hot: Arc<RedisHot>, ()| {
        let answers = hot.drain(&tenures, Millis::MAX, limit).await;
        answers.into_iter().collect::<Result<Vec<_>, _>>()
    };
    let drained = bench.step("drain", vec![(); rounds], drain).await?;
    assert_eq!(drained.iter().flatten().flatten().count(), tasks, "each once");
    assert_eq!(hot.count_due().await?, 0, "nothing stays");
    Ok(())
}

struct Bench<'a> {
    hot: Arc<RedisHot>,
    server: &'a Server,
    tasks: usize,
    batch: usize,
}

impl Bench<'_> {
    /// Returns the answers in the order of the requests.
    async fn step<A, T, F>(
        &self,
        name: &str,
        asked: Vec<A>,
        act: impl Fn(Arc<RedisHot>, A) -> F,
    ) -> Outcome<Vec<T>>
    where
        F: Future<Output = Result<T, punctual_contract::Error>>,
    {
        use futures_util::{StreamExt as _, TryStreamExt as _};
        let (cpu, begun_at) = (self.server.cpu(), Instant::now());
        let acts = futures_util::stream::iter(asked).map(|action| act(Arc::clone(&self.hot), action));
        let answers: Vec<T> = acts.buffered(SIDE_BY_SIDE).try_collect().await?;
        let (spent, took) = (self.server.cpu().saturating_sub(cpu), begun_at.elapsed());
        let per_second = per(self.tasks, took);
        let each = spent.as_secs_f64() * 1e6 / per(self.tasks, Duration::from_secs(1));
        println!("{name:>8} {:>7} {per_second:>12.0} {each:>18.2}", self.batch);
        Ok(answers)
    }
}

fn per(tasks: usize, time: Duration) -> f64 {
    f64::from(u32::try_from(tasks).unwrap_or(u32::MAX)) / time.as_secs_f64()
}

/// The processor time of a redis-server on this machine, by the port it was started with.
struct Server(Option<u32>);

impl Server {
    fn of(url: &str) -> Self {
        let port = url.rsplit_once(':').map_or("6379", |(_, rest)| rest.split('/').next().unwrap_or(rest));
        let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = pids.filter_map(|pid| pid.file_name().to_str()?.parse::<u32>().ok());
        let is_it = |pid: &u32| {
            let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.contains("redis-server") && line.contains(&format!(":{port}"))
        };
        Self(pids.into_iter().find(is_it))
    }

    /// Of all its threads, to 10 ms.
    fn cpu(&self) -> Duration {
        let stat = self.0.and_then(|server| std::fs::read_to_string(format!("/proc/{server}/stat")).ok());
        let after_name = stat.as_deref().and_then(|stat| stat.rsplit_once(')')).map_or("", |(_, rest)| rest);
        let fields: BTreeMap<usize, u64> = after_name
            .split_whitespace()
            .enumerate()
            .filter_map(|(n, word)| Some((n, word.parse().ok()?)))
            .collect();
        let ticks = fields.get(&11).unwrap_or(&0) + fields.get(&12).unwrap_or(&0);
        Duration::from_millis(10 * ticks)
    }
}
