//! Publishing: one `XADD` a message, in pipelines that are neither long nor large. A message that cannot be written,
//! or that Redis refuses, fails alone.

use super::{Core, Link, body, streams::accepted};
use crate::error::Error;
use punctual_contract::store::Assignment;
use redis::{Cmd, Value};
use std::{collections::BTreeMap, sync::Arc};

/// Of one pipeline.
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

/// In a Cluster a pipeline goes to one stream.
fn chunks(core: &Core, messages: &[Assignment], outcomes: &mut [Outcome]) -> Vec<Chunk> {
    let mut full = Vec::new();
    let mut open: BTreeMap<String, Chunk> = BTreeMap::new();
    for ((number, message), outcome) in messages.iter().enumerate().zip(outcomes) {
        let stream = core.stream(&message.queue, stream_of(message, core.options.streams_per_queue));
        match body::encode(message) {
            Ok(body) => {
                let lane = if core.out.is_one_server() { String::new() } else { stream.key.clone() };
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

/// All attempts of a task go through one stream; ids ascend, so that the streams fill evenly.
fn stream_of(message: &Assignment, streams: u8) -> u8 {
    let number = message.place.id.cast_unsigned() % u64::from(streams.max(1));
    u8::try_from(number).expect("a remainder of a u8 fits a u8")
}

async fn send(link: &Link, chunk: Chunk) -> Vec<(usize, Outcome)> {
    let mut pipeline = redis::Pipeline::with_capacity(chunk.commands.len());
    let mut numbers = Vec::with_capacity(chunk.commands.len());
    for (number, command) in chunk.commands {
        pipeline.add_command(command);
        numbers.push(number);
    }
    match link.run(&mut pipeline).await {
        Ok(answers) if answers.len() == numbers.len() => {
            numbers.into_iter().zip(answers.into_iter().map(outcome)).collect()
        }
        Ok(_) => all(numbers, Error::Reply("another number of answers")),
        Err(error) => all(numbers, error),
    }
}

fn outcome(answer: Value) -> Outcome {
    accepted(answer).map(|_| ()).map_err(Arc::new)
}

fn all(numbers: Vec<usize>, error: Error) -> Vec<(usize, Outcome)> {
    let error = Arc::new(error);
    numbers.into_iter().map(|number| (number, Err(Arc::clone(&error)))).collect()
}
