//! Blocking reads, one task for each stream that callers wait for, on connections of their own. A task ends
//! when no caller lacks a message, and asks Redis to release it when all callers have left.

use super::{
    Core,
    receipts::{self, LINGER},
    receive::{delivered, is_missing, make_group},
    streams::{self, Stream},
};
use crate::error::Error;
use punctual_contract::bus::Delivery;
use punctual_domain::{name::QueueKey, time::Millis};
use punctual_redis_link::{Answer, BlockingConnection};
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;

/// The longest blocking time in Redis: a connection that failed silently is noticed after this plus the
/// response timeout.
const SLICE: Duration = Duration::from_secs(5);
/// Steps of one read: a redirection, a missing group, a stale connection.
const STEPS_MAX: usize = 5;

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
    let mut failure = Error::BrokenOff;
    for _ in 0..STEPS_MAX {
        let mut connection = core.readers.lend(stream).await?;
        let is_old = connection.is_open();
        match blocking_read(core, queue, stream, count, &mut connection).await {
            Ok(answers) => {
                drop(connection);
                let now = core.lanes.now(queue).unwrap_or(Millis::ZERO);
                return delivered(core, queue, stream, answers, now).await;
            }
            Err(error) if is_missing(&error) => {
                make_group(core, stream).await?;
                failure = error;
            }
            Err(error) => {
                match error.moved_to().and_then(|address| connection.named(address)) {
                    Some(node) => core.readers.moved(stream, node),
                    None if is_old && error.is_unanswered() => {}
                    None => return Err(error),
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
    connection: &mut BlockingConnection,
) -> Result<Vec<Answer>, Error> {
    let mut commands = stream.read(&core.options.consumer, count, Some(SLICE));
    let limit = SLICE + core.options.response_timeout;
    let answers = connection.run(&mut commands, limit, left_for_good(core, queue)).await;
    let [read, time] = streams::exactly(answers)?;
    Ok(vec![Ok(read?), time])
}

/// Ends when the callers have left for good. A worker that asks again immediately does not count, unless it
/// wants an immediate answer.
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
