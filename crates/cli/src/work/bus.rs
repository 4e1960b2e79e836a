//! `work --subscribe` and `--guard`: the bus and the guard of a worker. Their address has a password in it, so it is never an
//! argument: everybody on the machine could read that.

use crate::config;
use anyhow::{Context as _, Result, bail};
use clap::Args;
use punctual_sdk::{
    Worker,
    bus::{BusSource, Guard, GuardOptions, RedisBus, RedisBusOptions},
};
use std::{env, path::Path, sync::Arc};

const URL: &str = "PUNCTUAL_BUS_URL";
const URL_FILE: &str = "PUNCTUAL_BUS_URL_FILE";

#[derive(Args, Clone, Debug)]
pub(super) struct BusArgs {
    /// Take tasks of queues in push mode from the bus (Redis), and from the server while the bus does not answer. The URL of
    /// the bus is read from PUNCTUAL_BUS_URL, or from the file that PUNCTUAL_BUS_URL_FILE names
    #[arg(long)]
    subscribe: bool,
    /// Ask the guard in Redis before each command, so that an attempt that is delivered twice runs once; always on with
    /// --subscribe
    #[arg(long)]
    guard: bool,
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
        if !self.subscribe && !self.guard {
            return Ok(worker);
        }
        let url = url()?;
        let name = worker.name().to_owned();
        let mut worker = worker.guard(self.guard(&url, &name).await?);
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
            ..GuardOptions::default()
        };
        Guard::connect(url, options).await.context("the guard cannot be used")
    }
}

fn url() -> Result<String> {
    let given = |name| env::var(name).ok().filter(|text| !text.is_empty());
    match (given(URL), given(URL_FILE)) {
        (Some(url), None) => Ok(url),
        (None, Some(path)) => Ok(config::read_bus_url(URL_FILE, Path::new(&path))?),
        (None, None) => bail!("--subscribe and --guard need the address of Redis: set {URL}, or {URL_FILE}"),
        (Some(_), Some(_)) => bail!("{URL} and {URL_FILE} are both set: set one of them"),
    }
}
