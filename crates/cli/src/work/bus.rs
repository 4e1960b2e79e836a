//! `work --subscribe` and `--guard`: the bus and the guard of a worker. Their address has a password in it, so it is never an
//! argument, which every user of the machine could read.

use crate::{config, duration};
use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use punctual_sdk::{
    Worker,
    bus::{BusSource, Guard, GuardOptions, RedisBus, RedisBusOptions},
};
use std::{env, path::Path, sync::Arc, time::Duration};

const URL: &str = "PUNCTUAL_BUS_URL";
const URL_FILE: &str = "PUNCTUAL_BUS_URL_FILE";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum GuardKind {
    Auto,
    Redis,
    Server,
    Off,
}

#[derive(Args, Clone, Debug)]
pub(super) struct BusArgs {
    /// Take tasks of queues in push mode from the bus (Redis), and from the server while the bus does not answer. The URL of
    /// the bus is read from PUNCTUAL_BUS_URL, or from the file that PUNCTUAL_BUS_URL_FILE names
    #[arg(long)]
    subscribe: bool,
    /// What keeps an attempt that is delivered twice from running twice. `redis`: a key for --guard-window; `server`: the
    /// first heartbeat of the attempt, one call before each batch of commands; `off`: the fence alone, which refuses the
    /// second outcome. `auto`: `redis` if PUNCTUAL_BUS_URL or PUNCTUAL_BUS_URL_FILE is set, else `server`
    #[arg(
        long, value_enum, value_name = "GUARD", num_args = 0..=1, require_equals = true, default_value = "auto",
        default_missing_value = "redis"
    )]
    guard: GuardKind,
    /// How long an attempt is guarded in Redis after it began
    #[arg(long, value_parser = duration::parse, allow_hyphen_values = true, default_value = "60s")]
    guard_window: Duration,
    /// Prefix of the server's keys in Redis (hot.prefix)
    #[arg(long, value_name = "PREFIX", default_value = "punctual")]
    bus_prefix: String,
    /// Streams per queue on the bus, as set on the server (queues.streams)
    #[arg(long, value_name = "STREAMS", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    bus_streams: u8,
}

impl BusArgs {
    pub(super) const fn subscribes(&self) -> bool {
        self.subscribe
    }

    /// The name under which messages are received must be this process's own.
    pub(super) fn executor(&self) -> Option<String> {
        self.subscribe.then(|| format!("work-{}-{:04x}", std::process::id(), fastrand::u16(..)))
    }

    pub(super) async fn attach(&self, worker: Worker) -> Result<Worker> {
        let url = match (self.guard, given()?) {
            (_, Some(url)) => url,
            _ if self.subscribe => return Err(no_address("--subscribe")),
            (GuardKind::Redis, None) => return Err(no_address("--guard=redis")),
            (GuardKind::Auto | GuardKind::Server, None) => return Ok(worker.guard_by_server()),
            (GuardKind::Off, None) => return Ok(worker),
        };
        let name = worker.name().to_owned();
        let mut worker = match self.guard {
            GuardKind::Redis => worker.guard(self.guard(&url, &name).await?),
            GuardKind::Auto => match self.guard(&url, &name).await {
                Ok(guard) => worker.guard(guard),
                Err(error) if !self.subscribe => {
                    tracing::warn!(
                        error = format!("{error:#}"),
                        "the server guards attempts instead of Redis"
                    );
                    worker.guard_by_server()
                }
                Err(error) => return Err(error),
            },
            GuardKind::Server => worker.guard_by_server(),
            GuardKind::Off => worker,
        };
        if self.subscribe {
            let options = RedisBusOptions {
                prefix: self.bus_prefix.clone(),
                consumer: name.clone(),
                streams_per_queue: self.bus_streams,
                ..RedisBusOptions::default()
            };
            let bus = RedisBus::connect(&url, options).await.context("the bus cannot be used")?;
            worker = worker.from_bus(BusSource::new(Arc::new(bus)).guard(self.guard(&url, &name).await?));
        }
        Ok(worker)
    }

    async fn guard(&self, url: &str, name: &str) -> Result<Guard> {
        let options = GuardOptions {
            prefix: self.bus_prefix.clone(),
            holder: name.to_owned(),
            window: self.guard_window,
            ..GuardOptions::default()
        };
        Guard::connect(url, options).await.context("the guard cannot be used")
    }
}

/// The address of Redis, if one is configured.
fn given() -> Result<Option<String>> {
    let given = |name| env::var(name).ok().filter(|text| !text.is_empty());
    match (given(URL), given(URL_FILE)) {
        (Some(url), None) => Ok(Some(url)),
        (None, Some(path)) => Ok(Some(config::read_bus_url(URL_FILE, Path::new(&path))?)),
        (None, None) => Ok(None),
        (Some(_), Some(_)) => bail!("{URL} and {URL_FILE} are both set: set one of them"),
    }
}

fn no_address(option: &str) -> anyhow::Error {
    anyhow!("{option} needs the address of Redis: set {URL}, or {URL_FILE}")
}
