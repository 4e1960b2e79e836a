//! Publishing: one `XADD` a message, in pipelines that are neither long nor large. A message that cannot be written,
//! or that Redis refuses, fails alone.

use super::{Core, body};
use crate::error::Error;
use punctual_contract::store::Assignment;
use punctual_redis_link::{Answer, Router};
use redis::Cmd;
use std::{collections::BTreeMap, sync::Arc};

/// The maximum number of messages of one pipeline.
const MESSAGES_MAX: usize = 1_000;
const BYTES_MAX: usize = 1 << 20;

type Outcome = Result<(), Arc<Error>>;

/// Commands for one pipeline, each with the number of its message.
#[derive(Default)]
struct Chunk {
    commands: Vec<(usize, Cmd)>,
    bytes: usize,
}

pub(super) async fn publish(core: &Core, messages: &[Assignment]) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = messages.iter().map(|_| Ok(())).collect();
    let chunks = chunks(core, messages, &mut outcomes);
    let sent = futures_util::future::join_all(chunks.into_iter().map(|chunk| send(&core.out, chunk))).await;
    for (number, outcome) in sent.into_iter().flatten() {
        if let Some(place) = outcomes.get_mut(number) {
            *place = outcome;
        }
    }
    outcomes
}

/// Splits messages into pipelines. In a Cluster each pipeline is for one stream.
fn chunks(core: &Core, messages: &[Assignment], outcomes: &mut [Outcome]) -> Vec<Chunk> {
    let mut full = Vec::new();
    let mut open: BTreeMap<String, Chunk> = BTreeMap::new();
    for ((number, message), outcome) in messages.iter().enumerate().zip(outcomes) {
        let stream = core.stream(&message.queue, stream_of(message, core.options.streams_per_queue));
        match body::encode(message) {
            Ok(body) => {
                let lane = if core.place.is_cluster() { stream.key.clone() } else { String::new() };
                let chunk = open.entry(lane).or_default();
                chunk.commands.push((number, stream.add(&body)));
                chunk.bytes += body.len();
                if chunk.commands.len() >= MESSAGES_MAX || chunk.bytes >= BYTES_MAX {
                    full.push(std::mem::take(chunk));
                }
            }
            Err(error) => *outcome = Err(Arc::new(error)),
        }
    }
    full.extend(open.into_values().filter(|chunk| !chunk.commands.is_empty()));
    full
}

/// All attempts of a task use one stream; ids ascend, so that the streams fill evenly.
fn stream_of(message: &Assignment, streams: u8) -> u8 {
    let number = message.place.id.cast_unsigned() % u64::from(streams.max(1));
    u8::try_from(number).expect("a remainder of a u8 fits a u8")
}

async fn send(router: &Router, chunk: Chunk) -> Vec<(usize, Outcome)> {
    let mut pipeline = redis::Pipeline::with_capacity(chunk.commands.len());
    let mut numbers = Vec::with_capacity(chunk.commands.len());
    for (number, command) in chunk.commands {
        pipeline.add_command(command);
        numbers.push(number);
    }
    let answers = router.run_together(&mut pipeline).await;
    numbers.into_iter().zip(answers.into_iter().map(outcome)).collect()
}

fn outcome(answer: Answer) -> Outcome {
    answer.map(drop).map_err(|failure| Arc::new(failure.into()))
}
