//! Receiving. Separate tasks read from Redis and complete what they began, so a receive that is dropped loses
//! nothing. First, available messages are read on the shared connection; if there are none, tasks block for
//! new ones.

use super::{
    Core, block,
    lanes::{ReceiveGuard, ReceiveResult},
    receipts,
    streams::{self, Entry, Stream},
};
use crate::error::Error;
use punctual_contract::bus::Delivery;
use punctual_domain::{name::QueueKey, time::Millis};
use punctual_redis_link::Answer;
use std::{
    future::Future,
    pin::pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use tokio::{task::JoinHandle, time::timeout};

/// The difference of the clocks up to which the instant at which Redis delivered a message is the instant of
/// delivery. Beyond it the caller's is written instead, which costs Redis half as much again as reading.
const CLOCKS_AGREE_MS: i64 = 1_000;

#[expect(clippy::disallowed_methods, reason = "a read is ended also when its caller is gone; it is bounded")]
pub(super) fn run_to_its_end<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    tokio::spawn(work)
}

pub(super) async fn receive(
    core: &Arc<Core>,
    queue: &QueueKey,
    limit: usize,
    wait: Duration,
    now: Millis,
) -> Result<Vec<Delivery>, Arc<Error>> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    // Dropped after the caller, to return the messages that it leaves.
    let _leftover = receipts::Leftover::of(core, queue);
    let mut caller = core.lanes.enter(queue, if wait.is_zero() { 0 } else { limit }, now);
    let there = caller.take(limit);
    if !there.is_empty() {
        return Ok(there);
    }
    let swept = run_to_its_end(sweep(Arc::clone(core), queue.clone(), limit, now)).await;
    let there = caller.take(limit);
    if !there.is_empty() {
        return Ok(there);
    }
    swept.unwrap_or(Err(Error::BrokenOff))?;
    if wait.is_zero() {
        // A reader of a caller that has just left may hold messages from before the sweep.
        drop(timeout(core.options.response_timeout, core.lanes.hurry(queue)).await);
        return Ok(caller.take(limit));
    }
    timeout(wait, first(core, queue, &mut caller, limit)).await.unwrap_or(Ok(Vec::new()))
}

/// Ends when a message is available.
async fn first(
    core: &Arc<Core>,
    queue: &QueueKey,
    caller: &mut ReceiveGuard<'_>,
    limit: usize,
) -> Result<Vec<Delivery>, Arc<Error>> {
    let streams = u16::MAX >> (u16::BITS - u32::from(core.options.streams_per_queue));
    loop {
        let arrived = Arc::clone(&caller.arrived);
        let mut signal = pin!(arrived.notified());
        // Listen before looking, so that messages arriving between the two are noticed.
        signal.as_mut().enable();
        match caller.look(limit, streams) {
            ReceiveResult::Messages(messages) => return Ok(messages),
            ReceiveResult::Failed(error) => return Err(error),
            ReceiveResult::Unread(unread) => {
                for number in (0..core.options.streams_per_queue).filter(|nth| unread & (1 << nth) != 0) {
                    run_to_its_end(block::run(Arc::clone(core), queue.clone(), number));
                }
            }
        }
        signal.await;
    }
}

/// Reads available messages, stream by stream, up to `limit`. An unreadable stream does not prevent reading
/// the others.
async fn sweep(core: Arc<Core>, queue: QueueKey, limit: usize, now: Millis) -> Result<(), Error> {
    let mut streams: Vec<Stream> = core.streams(&queue).collect();
    let first = core.turn.fetch_add(1, Relaxed) % streams.len().max(1);
    streams.rotate_left(first);
    let (mut missing, mut result) = (limit, Ok(()));
    for stream in streams {
        match read(&core, &queue, &stream, missing, now).await {
            Ok(deliveries) => {
                missing = missing.saturating_sub(deliveries.len());
                core.lanes.deliver(&queue, deliveries);
            }
            Err(error) => result = Err(error),
        }
        if missing == 0 {
            break;
        }
    }
    receipts::give_back_later(&core, &queue);
    result
}

async fn read(
    core: &Core,
    queue: &QueueKey,
    stream: &Stream,
    count: usize,
    now: Millis,
) -> Result<Vec<Delivery>, Error> {
    let mut made = false;
    loop {
        let answers = core.work.run_together(&mut stream.read(&core.options.consumer, count, None)).await;
        match delivered(core, queue, stream, answers, now).await {
            Err(error) if !made && is_missing(&error) => {
                make_group(core, stream).await?;
                made = true;
            }
            done => return done,
        }
    }
}

/// The group does not exist, with or without its stream.
pub(super) fn is_missing(error: &Error) -> bool {
    matches!(error.code(), Some("NOGROUP" | "UNBLOCKED"))
}

pub(super) async fn make_group(core: &Core, stream: &Stream) -> Result<(), Error> {
    match core.work.run_one(stream.create_group()).await {
        Err(failure) if failure.code() != Some("BUSYGROUP") => Err(failure.into()),
        _ => Ok(()),
    }
}

/// Builds deliveries from the two answers of a read. `now` is the instant of delivery on the caller's clock.
pub(super) async fn delivered(
    core: &Core,
    queue: &QueueKey,
    stream: &Stream,
    answers: Vec<Answer>,
    now: Millis,
) -> Result<Vec<Delivery>, Error> {
    let [entries, time] = streams::exactly(answers)?;
    let (entries, time) = (streams::entries(entries)?, streams::time(time)?);
    if !entries.is_empty() && now.since(time).abs() > CLOCKS_AGREE_MS {
        stamp(core, stream, &entries, now).await;
    }
    Ok(stream.deliveries(queue, entries))
}

/// If it fails, Redis's own instant remains: the message is reclaimed slightly sooner or later.
async fn stamp(core: &Core, stream: &Stream, entries: &[Entry], now: Millis) {
    let ids: Vec<_> = entries.iter().map(|entry| entry.id).collect();
    let stamp = stream.stamp(&core.options.consumer, &ids, now);
    if let Err(error) = core.work.run_one(stamp).await {
        tracing::warn!(stream = stream.key, error = %error, "the instant of a delivery could not be written");
    }
}
