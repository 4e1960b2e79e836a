//! How fast the bus on Redis is, and what it costs Redis: `cargo run --release -p punctual-bus --example
//! bus_bench -- redis://127.0.0.1:6379`. Writes under a prefix of its own. Further arguments: messages, size
//! of a batch, bytes of a payload, streams.
#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use punctual_bus::{RedisBus, RedisBusOptions};
use punctual_contract::{Bus, store::Assignment};
use punctual_domain::{
    name::{Name, QueueKey},
    place::{Partition, TaskRef},
    task::{Content, Priority},
    time::Millis,
};
use std::{collections::BTreeMap, error::Error, time::Duration};
use tokio::time::Instant;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn assignment(queue: &QueueKey, number: usize, payload: usize) -> Outcome<Assignment> {
    let id = i64::try_from(number)?;
    let at = Millis(1_790_000_000_000);
    Ok(Assignment {
        place: TaskRef { partition: Partition(u16::try_from(number % 64)?), due_at: at, id },
        queue: queue.clone(),
        task_id: id,
        task_version: 0,
        fence: id,
        attempt: 1,
        max_attempts: 5,
        kind: Name::new("send")?,
        priority: Priority::default(),
        payload: Content::binary(vec![b'x'; payload]),
        execute_at: at,
        due_at: at,
        fired_at: at,
        leased_since: at,
        lease_until: at.plus(30_000),
        timeout_ms: None,
        labels: BTreeMap::new(),
        traceparent: None,
    })
}

/// Microseconds of CPU that Redis has used so far, and its clock.
async fn redis_cpu(client: &redis::Client) -> Outcome<(f64, Millis)> {
    let mut connection = client.get_multiplexed_async_connection().await?;
    let info: String = redis::cmd("INFO").arg("cpu").query_async(&mut connection).await?;
    let of = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
    let (seconds, micros): (i64, i64) = redis::cmd("TIME").query_async(&mut connection).await?;
    let seconds_used = of("used_cpu_sys:").unwrap_or_default() + of("used_cpu_user:").unwrap_or_default();
    Ok((seconds_used * 1e6, Millis(seconds * 1_000 + micros / 1_000)))
}

#[derive(Clone, Copy)]
struct BenchRun {
    messages: usize,
    batch: usize,
    payload: usize,
}

struct BenchPhase<'a> {
    name: &'a str,
    began: Instant,
    cpu: f64,
}

impl<'a> BenchPhase<'a> {
    async fn begin(name: &'a str, client: &redis::Client) -> Outcome<Self> {
        Ok(Self { name, began: Instant::now(), cpu: redis_cpu(client).await?.0 })
    }

    #[expect(clippy::cast_precision_loss, reason = "for a reader's eye")]
    async fn end(self, client: &redis::Client, messages: usize) -> Outcome<()> {
        let (seconds, count) = (self.began.elapsed().as_secs_f64(), messages as f64);
        let cpu = redis_cpu(client).await?.0 - self.cpu;
        println!("{:12} {:>9.0} /s   {:.2} us of Redis a message", self.name, count / seconds, cpu / count);
        Ok(())
    }
}

async fn publish(bus: &RedisBus, queue: &QueueKey, run: BenchRun) -> Outcome<()> {
    for first in (0..run.messages).step_by(run.batch) {
        let last = (first + run.batch).min(run.messages);
        let batch: Outcome<Vec<_>> =
            (first..last).map(|number| assignment(queue, number, run.payload)).collect();
        for result in bus.publish(batch?).await {
            result?;
        }
    }
    Ok(())
}

async fn receive(bus: &RedisBus, queue: &QueueKey, run: BenchRun, now: Millis) -> Outcome<Vec<u64>> {
    let began = Instant::now();
    let mut ids = Vec::with_capacity(run.messages);
    while ids.len() < run.messages {
        let now = now.plus(i64::try_from(began.elapsed().as_millis())?);
        let got = bus.receive(queue, run.batch, Duration::from_secs(5), now).await?;
        ids.extend(got.iter().map(|delivery| delivery.id));
    }
    Ok(ids)
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let url = args.first().map_or("redis://127.0.0.1:6379", String::as_str);
    let number = |at: usize, otherwise: usize| args.get(at).map_or(Ok(otherwise), |arg| arg.parse());
    let run = BenchRun { messages: number(1, 200_000)?, batch: number(2, 100)?, payload: number(3, 200)? };
    let options = RedisBusOptions {
        prefix: format!("bench-{}", std::process::id()),
        streams_per_queue: u8::try_from(number(4, 1)?)?,
        ..RedisBusOptions::default()
    };
    let (client, bus) = (redis::Client::open(url)?, RedisBus::connect(url, options).await?);
    let queue = QueueKey { namespace: Name::default_namespace(), queue: Name::new("bench")? };
    let phase = BenchPhase::begin("publish", &client).await?;
    publish(&bus, &queue, run).await?;
    phase.end(&client, run.messages).await?;
    let now = redis_cpu(&client).await?.1;
    let phase = BenchPhase::begin("receive", &client).await?;
    let ids = receive(&bus, &queue, run, now).await?;
    phase.end(&client, run.messages).await?;
    let phase = BenchPhase::begin("acknowledge", &client).await?;
    for some in ids.chunks(run.batch) {
        bus.acknowledge(&queue, some).await?;
    }
    phase.end(&client, run.messages).await
}
