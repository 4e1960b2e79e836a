//! What engines tell each other, over one channel of pub/sub with a connection of its own. A batch is one message.
//! Never the only way in which anything is learned: messages sent while nobody listened are gone, which is why
//! `next` says so once after it has listened again.

use super::{
    address::Limits,
    identity::Guarded,
    link::Place,
    problem::{Failure, RedisProblem},
};
use async_trait::async_trait;
use futures_util::{FutureExt as _, StreamExt as _};
use punctual_contract::{
    Error,
    ownership::{Signal, Signals},
};
use punctual_domain::{
    name::{Name, QueueKey},
    place::Partition,
    time::Millis,
};
use redis::aio::{PubSubSink, PubSubStream};
use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc, time::Duration};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep, timeout},
};

const FORMAT: u8 = 1;
/// Signals in one message, and about as many in one answer of `next`.
const BATCH_MAX: usize = 1_000;
/// A connection on which nothing has come for so long is asked whether it still lives.
const QUIET_MAX: Duration = Duration::from_secs(10);
/// Between attempts to listen again, doubled each time.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

#[derive(Serialize, Deserialize)]
enum Wire {
    #[serde(rename = "d")]
    Due(u16, i64),
    #[serde(rename = "r")]
    Ready(String, String),
}

#[derive(Debug)]
pub struct RedisSignals {
    place: Arc<Place>,
    link: Arc<Guarded>,
    channel: String,
    /// None: it was lost. Its holder is the one who listens.
    listener: Mutex<Option<Listener>>,
}

struct Listener {
    sink: PubSubSink,
    messages: PubSubStream,
    heard_at: Instant,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("heard_at", &self.heard_at).finish_non_exhaustive()
    }
}

impl RedisSignals {
    /// Listens from now on; to a Redis that is away, from the first `next` that finds it there.
    pub(super) async fn new(place: Arc<Place>, link: Arc<Guarded>, channel: String) -> Result<Self, Error> {
        let listener = match listen(&place, &channel).await {
            Ok(listener) => Some(listener),
            Err(problem) if problem.is_away() => None,
            Err(problem) => return Err(Error::did_not_happen("listen for signals", problem)),
        };
        Ok(Self { place, link, channel, listener: Mutex::new(listener) })
    }

    /// Until it works; slower and slower.
    async fn listen_again(&self) -> Listener {
        let mut pause = PAUSE_MIN;
        loop {
            match listen(&self.place, &self.channel).await {
                Ok(it) => return it,
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
    async fn announce(&self, signals: Vec<Signal>) -> Result<(), Error> {
        let publish = |batch| {
            let mut call = redis::cmd("PUBLISH");
            call.arg(&self.channel).arg(encode(batch));
            call
        };
        let calls = signals.chunks(BATCH_MAX).map(publish).collect();
        super::problem::all("announce signals", self.link.run(calls).await).map(drop)
    }

    async fn next(&self) -> Result<Vec<Signal>, Error> {
        let mut place = self.listener.lock().await;
        if let Some(listener) = place.as_mut() {
            // Kept while it waits: whoever stops waiting loses nothing that comes later.
            match listener.next(self.place.limits).await {
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
    async fn next(&mut self, limits: Limits) -> Result<Vec<Signal>, RedisProblem> {
        loop {
            let quiet_until = self.heard_at + QUIET_MAX;
            match tokio::time::timeout_at(quiet_until, self.messages.next()).await {
                Ok(Some(first)) => {
                    self.heard_at = Instant::now();
                    return self.with_what_waits(first.get_payload_bytes());
                }
                Ok(None) => return Err(RedisProblem::Unreachable("the server hung up".to_owned())),
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

    async fn ask_whether_it_lives(&mut self, limits: Limits) -> Result<(), RedisProblem> {
        match timeout(limits.response, self.sink.ping::<redis::Value>()).await {
            Ok(Ok(_)) => {
                self.heard_at = Instant::now();
                Ok(())
            }
            Ok(Err(error)) => Err(RedisProblem::Unreachable(error.to_string())),
            Err(_) => Err(RedisProblem::Unreachable("the server is silent".to_owned())),
        }
    }
}

/// On the first node that answers: a message reaches all nodes of a Cluster.
async fn listen(place: &Place, channel: &str) -> Result<Listener, RedisProblem> {
    let mut last = RedisProblem::Address("no server is named");
    for node in place.nodes() {
        match listen_on(node, place.limits, channel).await {
            Ok(it) => return Ok(it),
            Err(problem) => last = problem,
        }
    }
    Err(last)
}

async fn listen_on(
    node: &super::address::Master,
    limits: Limits,
    channel: &str,
) -> Result<Listener, RedisProblem> {
    let mut connection = node.listen(limits).await?;
    let subscribed = timeout(limits.response, connection.subscribe(channel)).await;
    subscribed
        .map_err(|_| RedisProblem::Unreachable("the server is silent".to_owned()))?
        .map_err(|it| RedisProblem::Unreachable(it.to_string()))?;
    let (sink, messages) = connection.split();
    Ok(Listener { sink, messages, heard_at: Instant::now() })
}

fn encode(signals: &[Signal]) -> Vec<u8> {
    let wire = |it: &Signal| match it {
        Signal::Due { partition, due_at } => Wire::Due(partition.0, due_at.0),
        Signal::Ready { queue } => Wire::Ready(queue.namespace.to_string(), queue.queue.to_string()),
    };
    let signals: Vec<Wire> = signals.iter().map(wire).collect();
    let mut message = vec![FORMAT];
    rmp_serde::encode::write(&mut message, &signals).expect("numbers and names are written to memory");
    message
}

/// A message that cannot be read (of another release) is one that was missed.
fn decode(message: &[u8]) -> Result<Vec<Signal>, RedisProblem> {
    let unreadable = || RedisProblem::Answer("signals of this release");
    let [FORMAT, signals @ ..] = message else { return Err(unreadable()) };
    let signals: Vec<Wire> = rmp_serde::from_slice(signals).map_err(|_| unreadable())?;
    let signal = |it| match it {
        Wire::Due(partition, due_at) => {
            Some(Signal::Due { partition: Partition(partition), due_at: Millis(due_at) })
        }
        Wire::Ready(namespace, queue) => {
            let (namespace, queue) = (Name::new(&namespace).ok()?, Name::new(&queue).ok()?);
            Some(Signal::Ready { queue: QueueKey { namespace, queue } })
        }
    };
    signals.into_iter().map(signal).collect::<Option<_>>().ok_or_else(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_survive_the_wire_and_others_are_not_misread() {
        let queue = QueueKey { namespace: Name::default_namespace(), queue: Name::new("mail").unwrap() };
        let signals =
            vec![Signal::Due { partition: Partition(7), due_at: Millis::MAX }, Signal::Ready { queue }];
        let message = encode(&signals);
        assert_eq!(decode(&message).unwrap(), signals);
        for length in 0..message.len() {
            assert!(decode(&message[..length]).is_err());
        }
        assert!(decode(&[&[FORMAT + 1], &message[1..]].concat()).is_err());
    }
}
