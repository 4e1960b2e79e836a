//! Blocking reads, one task a stream that a caller waits at, on connections of their own. A task ends when no executor
//! lacks anything any more, and asks Redis to let go of it when everybody has left.

use super::{
    Core,
    link::{Direct, Node},
    receipts::{self, LINGER},
    receive::{delivered, is_missing, make_group},
    streams::{self, Stream},
};
use crate::error::Error;
use parking_lot::Mutex;
use punctual_contract::bus::Delivery;
use punctual_domain::{name::QueueKey, time::Millis};
use redis::Value;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::time::sleep;

/// Longest time in Redis at once: a connection that died unseen is noticed after this and the response timeout.
const SLICE: Duration = Duration::from_secs(5);
/// Steps of one read: a redirection, a missing group, a stale connection.
const STEPS_MAX: usize = 5;
/// Connections kept for the next wait.
const TAPS_MAX: usize = 64;

/// Connections that no task uses now, by stream.
#[derive(Debug, Default)]
pub(super) struct Taps {
    idle: Mutex<HashMap<String, Direct>>,
}

impl Taps {
    fn take(&self, stream: &Stream) -> Option<Direct> {
        self.idle.lock().remove(&stream.key)
    }

    fn give(&self, stream: &Stream, tap: Direct) {
        let mut idle = self.idle.lock();
        if idle.len() < TAPS_MAX {
            idle.insert(stream.key.clone(), tap);
        }
    }
}

pub(super) async fn run(core: Arc<Core>, queue: QueueKey, number: u8) {
    let stream = core.stream(&queue, number);
    let streams = usize::from(core.options.streams_per_queue);
    while let Some(lacking) = core.lanes.lacking(&queue, number) {
        match wait_for(&core, &queue, &stream, lacking.div_ceil(streams)).await {
            Ok(deliveries) => core.lanes.deliver(&queue, deliveries),
            Err(error) => {
                core.lanes.fail(&queue, number, error);
                break;
            }
        }
    }
    receipts::give_back_later(&core, &queue);
}

async fn wait_for(
    core: &Core,
    queue: &QueueKey,
    stream: &Stream,
    count: usize,
) -> Result<Vec<Delivery>, Error> {
    let (mut tap, mut node): (Option<Direct>, Option<Node>) = (core.taps.take(stream), None);
    let mut failure = Error::BrokenOff;
    for _ in 0..STEPS_MAX {
        let is_old = tap.is_some();
        let mut direct = match tap.take() {
            Some(direct) => direct,
            None => Direct::connect(&core.work, node.as_ref()).await?,
        };
        match blocking_read(core, queue, stream, count, &mut direct).await {
            Ok(answers) => {
                core.taps.give(stream, direct);
                let now = core.lanes.now(queue).unwrap_or(Millis::ZERO);
                return delivered(core, queue, stream, answers, now).await;
            }
            Err(error) if is_missing(&error) => {
                make_group(core, stream).await?;
                (tap, failure) = (Some(direct), error);
            }
            Err(error) => {
                node = error.moved_to().and_then(|address| direct.redirected(address));
                if node.is_none() && !(is_old && matches!(error, Error::NoAnswer(_))) {
                    return Err(error);
                }
                failure = error;
            }
        }
    }
    Err(failure)
}

async fn blocking_read(
    core: &Core,
    queue: &QueueKey,
    stream: &Stream,
    count: usize,
    direct: &mut Direct,
) -> Result<Vec<Value>, Error> {
    let mut commands = stream.read(&core.options.consumer, count, Some(SLICE));
    let limit = SLICE + core.options.response_timeout;
    let answers = direct.run(&mut commands, limit, left_for_good(core, queue)).await?;
    let [read, time] = streams::exactly(answers)?;
    Ok(vec![streams::accepted(read)?, time])
}

/// A worker that asks again at once is not worth being let go for, unless it wants to know what is there now.
async fn left_for_good(core: &Core, queue: &QueueKey) {
    tokio::select! {
        () = core.lanes.hurried(queue) => {}
        () = deserted(core, queue) => {}
    }
}

async fn deserted(core: &Core, queue: &QueueKey) {
    loop {
        core.lanes.deserted(queue).await;
        sleep(LINGER).await;
        if core.lanes.is_deserted(queue) {
            return;
        }
    }
}
