//! Signals between engines, over pub/sub with a connection of its own: one channel for all of them, and one
//! for each engine. A batch is one message (`message`). Signals are never the only way to learn something:
//! messages sent without a listener are lost. So `next` reports that once after it has listened again.

use super::{
    identity::Guarded,
    message::{decode, encode},
    problem::{Failure, RedisProblem},
};
use async_trait::async_trait;
use futures_util::{FutureExt as _, StreamExt as _};
use punctual_contract::{
    Error,
    ownership::{Signal, Signals},
};
use punctual_redis_link::{LinkError, RedisEndpoints, RedisServer, TimeLimits};
use redis::aio::{PubSubSink, PubSubStream};
use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::{
    sync::Mutex,
    time::{Instant, error::Elapsed, sleep, timeout},
};

/// Signals in one message, and about as many in one answer of `next`.
const BATCH_MAX: usize = 1_000;
/// A connection without messages for this long is tested.
const QUIET_MAX: Duration = Duration::from_secs(10);
/// The first pause between attempts to subscribe again. It doubles each time.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct RedisSignals {
    place: Arc<RedisEndpoints>,
    link: Arc<Guarded>,
    /// The channel of all engines.
    channel: String,
    /// The channel of this engine.
    own_channel: OnceLock<String>,
    /// `None` if the connection was lost. The holder of this lock listens.
    listener: Mutex<Option<Listener>>,
}

struct Listener {
    sink: PubSubSink,
    messages: PubSubStream,
    heard_at: Instant,
    /// It also receives messages for its engine alone.
    hears_own: bool,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("heard_at", &self.heard_at).finish_non_exhaustive()
    }
}

impl RedisSignals {
    /// Listens from now on; to a Redis that is unavailable, from the first `next` that finds it there.
    pub(super) async fn new(
        place: Arc<RedisEndpoints>,
        link: Arc<Guarded>,
        channel: String,
    ) -> Result<Self, Error> {
        let listener = match listen(&place, &channel).await {
            Ok(listener) => Some(listener),
            Err(problem) if problem.is_away() => None,
            Err(problem) => return Err(Error::did_not_happen("listen for signals", problem)),
        };
        Ok(Self { place, link, channel, own_channel: OnceLock::new(), listener: Mutex::new(listener) })
    }

    /// Subscribes again until it succeeds, with growing pauses.
    async fn listen_again(&self) -> Listener {
        let mut pause = PAUSE_MIN;
        loop {
            match listen(&self.place, &self.channel).await {
                Ok(listener) => return listener,
                Err(error) => {
                    tracing::warn!(%error, "signals of other engines cannot be heard; trying again")
                }
            }
            sleep(pause).await;
            pause = PAUSE_MAX.min(pause * 2);
        }
    }
}

#[async_trait]
impl Signals for RedisSignals {
    async fn announce(&self, signals: Vec<Signal>) -> Result<Vec<String>, Error> {
        let publish = |channel: &str, signals: &[Signal]| {
            let mut call = redis::cmd("PUBLISH");
            call.arg(channel).arg(encode(signals));
            call
        };
        let (directed, broadcast): (Vec<Signal>, Vec<Signal>) =
            signals.into_iter().partition(|signal| signal.addressee().is_some());
        let for_all = broadcast.chunks(BATCH_MAX).map(|some| publish(&self.channel, some));
        let for_one = directed.iter().filter_map(|signal| {
            let channel = channel_of(&self.channel, signal.addressee()?);
            Some(publish(&channel, std::slice::from_ref(signal)))
        });
        let calls = for_all.chain(for_one).collect();
        let answers = super::problem::all("announce signals", self.link.run(calls).await)?;
        if self.place.is_cluster() {
            // Each node counts its own listeners only.
            return Ok(Vec::new());
        }
        // The answers to `directed` are last.
        let for_one = answers.into_iter().rev().zip(directed.iter().rev());
        let unheard = for_one.filter(|(listeners, _)| *listeners == redis::Value::Int(0));
        Ok(unheard.filter_map(|(_, signal)| signal.addressee().map(str::to_owned)).collect())
    }

    fn belongs_to(&self, engine: &str) {
        self.own_channel.get_or_init(|| channel_of(&self.channel, engine));
    }

    async fn close(&self) {
        // Held: `next` still listens.
        if let Ok(mut listener) = self.listener.try_lock() {
            *listener = None;
        }
    }

    async fn next(&self) -> Result<Vec<Signal>, Error> {
        let mut place = self.listener.lock().await;
        if let Some(listener) = place.as_mut() {
            // Kept while it waits: a caller that stops waiting loses no later messages.
            match listener.next(self.place.limits, self.own_channel.get()).await {
                Ok(signals) => return Ok(signals),
                Err(error) => tracing::warn!(%error, "the connection for signals is lost; listening again"),
            }
            *place = None;
        }
        *place = Some(self.listen_again().await);
        Err(Failure::answer("signals, for a while: some may have been missed").into_error("hear signals"))
    }
}

impl Listener {
    async fn next(
        &mut self,
        limits: TimeLimits,
        own_channel: Option<&String>,
    ) -> Result<Vec<Signal>, RedisProblem> {
        if let Some(channel) = own_channel.filter(|_| !self.hears_own) {
            answered(timeout(limits.response, self.sink.subscribe(channel)).await)?;
            self.hears_own = true;
        }
        loop {
            let quiet_until = self.heard_at + QUIET_MAX;
            match tokio::time::timeout_at(quiet_until, self.messages.next()).await {
                Ok(Some(first)) => {
                    self.heard_at = Instant::now();
                    return self.with_what_waits(first.get_payload_bytes());
                }
                Ok(None) => return Err(unreachable("the server hung up")),
                Err(_) => self.ask_whether_it_lives(limits).await?,
            }
        }
    }

    fn with_what_waits(&mut self, first: &[u8]) -> Result<Vec<Signal>, RedisProblem> {
        let mut signals = decode(first)?;
        while signals.len() < BATCH_MAX
            && let Some(Some(more)) = self.messages.next().now_or_never()
        {
            signals.extend(decode(more.get_payload_bytes())?);
        }
        Ok(signals)
    }

    async fn ask_whether_it_lives(&mut self, limits: TimeLimits) -> Result<(), RedisProblem> {
        answered(timeout(limits.response, self.sink.ping::<redis::Value>()).await)?;
        self.heard_at = Instant::now();
        Ok(())
    }
}

/// Subscribes at the first node that answers: a message reaches all nodes of a Cluster.
async fn listen(place: &RedisEndpoints, channel: &str) -> Result<Listener, RedisProblem> {
    let mut last = unreachable("no server is named");
    for server in place.servers() {
        match listen_on(server, place.limits, channel).await {
            Ok(listener) => return Ok(listener),
            Err(problem) => last = problem,
        }
    }
    Err(last)
}

async fn listen_on(
    server: &RedisServer,
    limits: TimeLimits,
    channel: &str,
) -> Result<Listener, RedisProblem> {
    let mut connection = server.listen(limits).await?;
    answered(timeout(limits.response, connection.subscribe(channel)).await)?;
    let (sink, messages) = connection.split();
    Ok(Listener { sink, messages, heard_at: Instant::now(), hears_own: false })
}

fn answered<T>(answer: Result<redis::RedisResult<T>, Elapsed>) -> Result<T, RedisProblem> {
    answer.map_err(|_| unreachable("the server is silent"))?.map_err(|error| unreachable(&error.to_string()))
}

fn unreachable(said: &str) -> RedisProblem {
    LinkError::Unreachable(said.to_owned()).into()
}

/// The channel of one engine.
fn channel_of(channel: &str, engine: &str) -> String {
    format!("{channel}:{engine}")
}
