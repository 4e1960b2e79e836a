//! The bus on Redis Streams: each queue is 1 to 16 streams with one consumer group. A message leaves Redis when it is
//! acknowledged, and not before; a stream that was flushed is made again when it is next read. Redis 7, one server,
//! a Cluster, or a master under Sentinels.

mod block;
mod body;
mod entry;
mod lanes;
mod publish;
mod readers;
mod receipts;
mod receive;
mod streams;

pub(crate) use body::VERSION as BODY_VERSION;

use crate::error::Error;
use async_trait::async_trait;
use lanes::Lanes;
use punctual_contract::{self as contract, Bus, Happened, bus::Delivery, store::Assignment};
use punctual_domain::{name::QueueKey, time::Millis};
use punctual_redis_link::{RedisEndpoints, Router, TimeLimits};
use readers::Readers;
use std::{
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};
use streams::Stream;

/// The time after a failed connect for which publishers get its error immediately.
const REST_AFTER_FAILURE: Duration = Duration::from_millis(100);
/// An answer takes a millisecond; after this a connection is doubted, and another one is opened.
const DOUBT_AFTER: Duration = Duration::from_millis(500);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisBusOptions {
    /// The first part of every key.
    pub prefix: String,
    /// The name of this process among the consumers: two that live at the same time must not share it.
    pub consumer: String,
    /// 1 to 16: a Cluster spreads the streams of one queue over its nodes. All processes must use the same number; it
    /// may grow at any time, and shrink when the queues are empty.
    pub streams_per_queue: u8,
    /// A consumer without pending messages for this long is removed by the next reclaim. Longer than any
    /// pause between two receives of a live consumer, which would only be created again.
    pub forget_consumers_after: Duration,
    pub connect_timeout: Duration,
    /// The time limit of commands that do not block. A command that exceeds it may have been executed.
    pub response_timeout: Duration,
}

impl Default for RedisBusOptions {
    fn default() -> Self {
        Self {
            prefix: "punctual".to_owned(),
            consumer: format!("consumer-{}", std::process::id()),
            streams_per_queue: 1,
            forget_consumers_after: Duration::from_secs(3_600),
            connect_timeout: Duration::from_secs(2),
            response_timeout: Duration::from_secs(5),
        }
    }
}

impl RedisBusOptions {
    fn check(&self) -> Result<(), Error> {
        if !(1..=entry::STREAMS_MAX).contains(&self.streams_per_queue) {
            return Err(setting("streams_per_queue", &self.streams_per_queue, "it must be 1 to 16"));
        }
        if self.consumer.is_empty() {
            return Err(setting("consumer", &"\"\"", "it must not be empty"));
        }
        check_prefix(&self.prefix)
    }
}

fn setting(option: &'static str, value: &dyn std::fmt::Display, wanted: &'static str) -> Error {
    Error::Setting { option, value: value.to_string(), wanted }
}

/// The address of Redis, for commands that do not block.
pub(crate) fn place(url: &str, connect: Duration, response: Duration) -> Result<Arc<RedisEndpoints>, Error> {
    let limits = TimeLimits { connect, response, doubt: DOUBT_AFTER, rest: REST_AFTER_FAILURE };
    RedisEndpoints::new(url, limits, []).map_err(Error::address)
}

/// A brace in it would be taken for the hash tag.
pub(crate) fn check_prefix(prefix: &str) -> Result<(), Error> {
    if prefix.is_empty() || prefix.contains(['{', '}']) {
        return Err(setting("prefix", &format!("{prefix:?}"), "it must not be empty or hold a brace"));
    }
    Ok(())
}

#[derive(Debug)]
pub struct RedisBus {
    core: Arc<Core>,
}

/// The state that a call shares with the tasks that outlive it.
#[derive(Debug)]
struct Core {
    options: RedisBusOptions,
    /// Bulk in both directions: a large outgoing batch does not delay incoming messages.
    out: Router,
    work: Router,
    place: Arc<RedisEndpoints>,
    lanes: Lanes,
    readers: Readers,
    /// The position where the next sweep over the streams of a queue begins.
    turn: AtomicUsize,
}

impl Core {
    fn stream(&self, queue: &QueueKey, number: u8) -> Stream {
        Stream::of(&self.options.prefix, queue, number)
    }

    fn streams(&self, queue: &QueueKey) -> impl Iterator<Item = Stream> {
        (0..self.options.streams_per_queue).map(|number| self.stream(queue, number))
    }
}

impl RedisBus {
    /// `redis://`, `redis+cluster://` or `redis+sentinel://`. Answers when Redis has.
    ///
    /// # Errors
    /// The address or an option cannot be used, or Redis does not answer.
    pub async fn connect(url: &str, options: RedisBusOptions) -> Result<Self, Error> {
        let bus = Self::new(url, options)?;
        bus.core.work.run_one(redis::cmd("PING")).await?;
        Ok(bus)
    }

    /// The same, connected by the first call.
    ///
    /// # Errors
    /// The address or an option cannot be used.
    pub fn new(url: &str, options: RedisBusOptions) -> Result<Self, Error> {
        options.check()?;
        let place = place(url, options.connect_timeout, options.response_timeout)?;
        let (out, work) = (place.router(), place.router());
        let (lanes, readers, turn) = (Lanes::default(), Readers::new(&place), AtomicUsize::new(0));
        Ok(Self { core: Arc::new(Core { options, out, work, place, lanes, readers, turn }) })
    }
}

/// Adds the operation to an error.
fn reported<E>(doing: &'static str, happened: Happened, source: E) -> contract::Error
where
    E: std::error::Error + Send + Sync + 'static,
{
    contract::Error { doing, happened, source: Arc::new(source) }
}

fn while_doing(doing: &'static str) -> impl Fn(Error) -> contract::Error {
    move |error| reported(doing, error.happened(), error)
}

#[async_trait]
impl Bus for RedisBus {
    async fn publish(&self, messages: Vec<Assignment>) -> Vec<Result<(), contract::Error>> {
        let results = publish::publish(&self.core, &messages).await;
        results
            .into_iter()
            .map(|result| result.map_err(|error| reported("publish a message", error.happened(), error)))
            .collect()
    }

    async fn receive(
        &self,
        queue: &QueueKey,
        limit: usize,
        wait: Duration,
        now: Millis,
    ) -> Result<Vec<Delivery>, contract::Error> {
        let received = receive::receive(&self.core, queue, limit, wait, now).await;
        received.map_err(|error| reported("receive messages", error.happened(), error))
    }

    async fn acknowledge(&self, queue: &QueueKey, ids: &[u64]) -> Result<(), contract::Error> {
        receipts::acknowledge(&self.core, queue, ids).await.map_err(while_doing("acknowledge messages"))
    }

    async fn reclaim(&self, queue: &QueueKey, before: Millis) -> Result<usize, contract::Error> {
        receipts::reclaim(&self.core, queue, before).await.map_err(while_doing("reclaim messages"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn options_that_cannot_work_are_refused() {
        let good = RedisBusOptions::default();
        let bad = [
            RedisBusOptions { streams_per_queue: 0, ..good.clone() },
            RedisBusOptions { streams_per_queue: 17, ..good.clone() },
            RedisBusOptions { consumer: String::new(), ..good.clone() },
            RedisBusOptions { prefix: String::new(), ..good.clone() },
            RedisBusOptions { prefix: "a{b".to_owned(), ..good },
        ];
        for options in bad {
            let refused = RedisBus::connect("redis://127.0.0.1:1", options.clone()).await;
            assert!(matches!(refused, Err(Error::Setting { .. })), "{options:?}");
        }
    }
}
