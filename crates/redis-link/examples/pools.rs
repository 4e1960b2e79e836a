//! Compares one connection that many callers share with pools whose connections are lent to one caller at a
//! time. Measures commands per second, this process's processor time per command, and the time of a call.
//! Decision 0011 is based on it.
//!
//! `cargo run --release -p punctual-redis-link --example pools -- redis://127.0.0.1:6379 [seconds a line]`
#![allow(clippy::print_stdout, reason = "its figures are its purpose")]
#![expect(clippy::disallowed_methods, reason = "callers side by side, and no engine")]

use punctual_redis_link::{ConnectionPool, RedisEndpoints, Router, TimeLimits};
use redis::Cmd;
use std::{env, error::Error, fs, sync::Arc, time::Duration};
use tokio::time::Instant;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Where callers get a connection from.
#[derive(Clone)]
enum Source {
    /// Round robin.
    Shared(Arc<Vec<Router>>),
    Lent(Arc<ConnectionPool<Router>>),
}

impl Source {
    async fn run(&self, turn: usize, calls: Vec<Cmd>) -> Outcome<()> {
        let answers = match self {
            Self::Shared(routers) => match routers.get(turn % routers.len()) {
                Some(router) => router.run(calls).await,
                None => return Err("no connection".into()),
            },
            Self::Lent(pool) => pool.lend().await?.run(calls).await,
        };
        for answer in answers {
            answer?;
        }
        Ok(())
    }
}

/// Of one pipeline.
#[derive(Clone, Copy)]
struct LoadShape {
    name: &'static str,
    callers: usize,
    commands: usize,
    bytes: usize,
}

const LOADS: [LoadShape; 5] = [
    LoadShape { name: "one SET of 32 bytes", callers: 1, commands: 1, bytes: 32 },
    LoadShape { name: "one SET of 32 bytes", callers: 8, commands: 1, bytes: 32 },
    LoadShape { name: "one SET of 32 bytes", callers: 64, commands: 1, bytes: 32 },
    LoadShape { name: "64 SETs of 512 bytes", callers: 4, commands: 64, bytes: 512 },
    LoadShape { name: "64 SETs of 512 bytes", callers: 32, commands: 64, bytes: 512 },
];

fn calls(load: LoadShape, caller: usize) -> Vec<Cmd> {
    let call = |nth: usize| {
        let mut call = redis::cmd("SET");
        call.arg(format!("pools:{{{caller}}}:{nth}")).arg(vec![b'x'; load.bytes]).arg("PX").arg(60_000);
        call
    };
    (0..load.commands).map(call).collect()
}

/// Of this process, in milliseconds: its ticks are hundredths of a second.
fn processor_ms() -> Outcome<u64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').ok_or("no name in /proc/self/stat")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |nth: usize| fields.get(nth).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    Ok((ticks(11) + ticks(12)) * 10)
}

async fn measure(name: &str, source: Source, load: LoadShape, span: Duration) -> Outcome<()> {
    source.run(0, calls(load, 0)).await?;
    let (began, processor_began) = (Instant::now(), processor_ms()?);
    let callers: Vec<_> = (0..load.callers)
        .map(|caller| {
            let source = source.clone();
            tokio::spawn(async move {
                let mut took = Vec::new();
                while began.elapsed() < span {
                    let asked_at = Instant::now();
                    source.run(caller, calls(load, caller)).await?;
                    took.push(asked_at.elapsed());
                }
                Outcome::Ok(took)
            })
        })
        .collect();
    let mut took = Vec::new();
    for caller in callers {
        took.extend(caller.await??);
    }
    let (elapsed, processor) = (began.elapsed(), processor_ms()? - processor_began);
    took.sort_unstable();
    let commands = took.len() * load.commands;
    let per_second = commands as f64 / elapsed.as_secs_f64();
    let micros = processor as f64 * 1_000.0 / commands.max(1) as f64;
    let at = |share: usize| {
        took.get(took.len() * share / 100).copied().unwrap_or_default().as_secs_f64() * 1_000.0
    };
    println!(
        "| {} | {} | {name} | {per_second:.0} | {micros:.1} | {:.2} | {:.2} |",
        load.name,
        load.callers,
        at(50),
        at(99)
    );
    Ok(())
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let mut arguments = env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let span = Duration::from_secs_f64(arguments.next().map_or(Ok(3.0), |seconds| seconds.parse())?);
    let limits = TimeLimits {
        connect: Duration::from_secs(5),
        response: Duration::from_secs(10),
        doubt: Duration::from_secs(1),
        rest: Duration::ZERO,
    };
    let place = RedisEndpoints::new(&url, limits, [])?;
    println!("| call | callers | connections | commands/s | µs of processor a command | p50 ms | p99 ms |");
    println!("|---|---|---|---|---|---|---|");
    for load in LOADS {
        for count in [1, 2] {
            let routers = Arc::new((0..count).map(|_| place.router()).collect());
            measure(&format!("{count} shared"), Source::Shared(routers), load, span).await?;
        }
        for most in [2, 8, 32] {
            let pool = Arc::new(ConnectionPool::of_routers(&place, most));
            measure(&format!("pool of {most}"), Source::Lent(pool), load, span).await?;
        }
    }
    Ok(())
}
