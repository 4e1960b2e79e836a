//! Signals as bytes: a format byte, and the rest as MessagePack. A message that cannot be read (of another release) is one that was
//! missed. Must not send anything.

use super::{
    codec::{Reader, body_of, lane_of, lane_word, ordered},
    problem::RedisProblem,
};
use punctual_contract::ownership::{Demand, Passed, Signal};
use punctual_domain::{
    name::{Name, QueueKey},
    place::Partition,
    time::Millis,
};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

/// Format 1 was that of 0.2, which had no demands.
const FORMAT: u8 = 2;

/// Namespace and name.
type Queue = (String, String);

#[derive(Serialize, Deserialize)]
enum WireMessage {
    #[serde(rename = "d")]
    Due(u16, i64),
    #[serde(rename = "h")]
    Hello(String),
    #[serde(rename = "w")]
    Wanted(String, Queue, u64),
    #[serde(rename = "r")]
    Ready(String, Queue),
    #[serde(rename = "f")]
    Freed(String, Queue, Option<ByteBuf>, u64),
    #[serde(rename = "a")]
    Demand(Asking),
    #[serde(rename = "p")]
    Passed(Giving),
}

#[derive(Serialize, Deserialize)]
struct Asking {
    to: String,
    from: String,
    number: u64,
    queue: Queue,
    places: u64,
    lease_ms: i64,
    executor: String,
    version: Option<String>,
    kinds: Option<Vec<String>>,
    bound: Option<u32>,
}

#[derive(Serialize, Deserialize)]
struct Giving {
    to: String,
    from: String,
    number: u64,
    queue: Queue,
    /// The entries. Each has its partition, its id, the instant at which it fired, and the body that a partition
    /// would store.
    entries: Vec<(u16, i64, i64, ByteBuf)>,
    granted_at: Option<i64>,
    has_more: bool,
}

pub(super) fn encode(signals: &[Signal]) -> Vec<u8> {
    let signals: Vec<WireMessage> = signals.iter().map(wire).collect();
    let mut message = vec![FORMAT];
    rmp_serde::encode::write(&mut message, &signals)
        .expect("numbers, names and bodies are written to memory");
    message
}

pub(super) fn decode(message: &[u8]) -> Result<Vec<Signal>, RedisProblem> {
    let unreadable = || RedisProblem::answer("signals of this release");
    let [FORMAT, signals @ ..] = message else { return Err(unreadable()) };
    let signals: Vec<WireMessage> = rmp_serde::from_slice(signals).map_err(|_| unreadable())?;
    signals.into_iter().map(signal).collect::<Option<_>>().ok_or_else(unreadable)
}

fn words(queue: &QueueKey) -> Queue {
    (queue.namespace.to_string(), queue.queue.to_string())
}

fn queue_of((namespace, queue): &Queue) -> Option<QueueKey> {
    Some(QueueKey { namespace: Name::new(namespace).ok()?, queue: Name::new(queue).ok()? })
}

fn wire(signal: &Signal) -> WireMessage {
    match signal {
        Signal::Due { partition, due_at } => WireMessage::Due(partition.0, due_at.0),
        Signal::Hello { engine } => WireMessage::Hello(engine.clone()),
        Signal::Wanted { engine, queue, places } => {
            WireMessage::Wanted(engine.clone(), words(queue), *places as u64)
        }
        Signal::Ready { engine, queue } => WireMessage::Ready(engine.clone(), words(queue)),
        Signal::Freed { engine, queue, lane, places } => {
            let lane = lane.as_ref().map(|lane| ByteBuf::from(lane_word(lane)));
            WireMessage::Freed(engine.clone(), words(queue), lane, *places as u64)
        }
        Signal::Demand(demand) => {
            let Demand { to, from, number, queue, places, lease_ms, executor, version, kinds, bound } =
                (**demand).clone();
            let kinds = kinds.map(|kinds| kinds.iter().map(Name::to_string).collect());
            let (queue, places) = (words(&queue), places as u64);
            WireMessage::Demand(Asking {
                to,
                from,
                number,
                queue,
                places,
                lease_ms,
                executor,
                version,
                kinds,
                bound,
            })
        }
        Signal::Passed(passed) => {
            let entries = passed.entries.iter().map(|entry| {
                let body = ByteBuf::from(body_of(entry));
                (entry.place.partition.0, entry.place.id, entry.fired_at.0, body)
            });
            WireMessage::Passed(Giving {
                to: passed.to.clone(),
                from: passed.from.clone(),
                number: passed.number,
                queue: words(&passed.queue),
                entries: entries.collect(),
                granted_at: passed.granted_at.map(|granted_at| granted_at.0),
                has_more: passed.has_more,
            })
        }
    }
}

fn signal(wire: WireMessage) -> Option<Signal> {
    Some(match wire {
        WireMessage::Due(partition, due_at) => {
            Signal::Due { partition: Partition(partition), due_at: Millis(due_at) }
        }
        WireMessage::Hello(engine) => Signal::Hello { engine },
        WireMessage::Wanted(engine, queue, places) => {
            Signal::Wanted { engine, queue: queue_of(&queue)?, places: usize::try_from(places).ok()? }
        }
        WireMessage::Ready(engine, queue) => Signal::Ready { engine, queue: queue_of(&queue)? },
        WireMessage::Freed(engine, queue, lane, places) => {
            let lane = match lane {
                Some(word) => Some(lane_of(&word)?),
                None => None,
            };
            Signal::Freed { engine, queue: queue_of(&queue)?, lane, places: usize::try_from(places).ok()? }
        }
        WireMessage::Demand(asking) => {
            let kinds = match asking.kinds {
                Some(kinds) => Some(kinds.iter().map(|kind| Name::new(kind).ok()).collect::<Option<_>>()?),
                None => None,
            };
            let Asking { to, from, number, queue, places, lease_ms, executor, version, bound, .. } = asking;
            let (queue, places) = (queue_of(&queue)?, usize::try_from(places).ok()?);
            Signal::Demand(Box::new(Demand {
                to,
                from,
                number,
                queue,
                places,
                lease_ms,
                executor,
                version,
                kinds,
                bound,
            }))
        }
        WireMessage::Passed(giving) => {
            let Giving { to, from, number, queue, entries, granted_at, has_more } = giving;
            let mut reader = Reader::default();
            let entries = entries.into_iter().map(|(partition, id, fired_at, body)| {
                reader.body(Partition(partition), &ordered(id), &body, Millis(fired_at))
            });
            let (entries, queue) = (entries.collect::<Option<_>>()?, queue_of(&queue)?);
            let granted_at = granted_at.map(Millis);
            Signal::Passed(Box::new(Passed { to, from, number, queue, entries, granted_at, has_more }))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_contract::hot::ParkReason;
    use std::collections::BTreeSet;

    #[test]
    fn signals_survive_the_wire_and_others_are_not_misread() {
        let queue = QueueKey { namespace: Name::default_namespace(), queue: Name::new("mail").unwrap() };
        let text = |word: &str| word.to_owned();
        let demand = Demand {
            to: text("b"),
            from: text("a"),
            number: 7,
            queue: queue.clone(),
            places: 9,
            lease_ms: 30_000,
            executor: text("x"),
            version: Some(text("1.2.3")),
            kinds: Some(BTreeSet::from([Name::new("k").unwrap()])),
            bound: Some(3),
        };
        let entries = vec![super::super::codec::tests::sample(1 << 40, 9_000, 2)];
        let passed = Passed {
            to: text("a"),
            from: text("b"),
            number: 7,
            queue: queue.clone(),
            entries,
            granted_at: Some(Millis(9)),
            has_more: true,
        };
        let signals = vec![
            Signal::Due { partition: Partition(7), due_at: Millis::MAX },
            Signal::Hello { engine: text("a") },
            Signal::Wanted { engine: text("a"), queue: queue.clone(), places: 4 },
            Signal::Ready { engine: text("a"), queue: queue.clone() },
            Signal::Freed {
                engine: text("a"),
                queue: queue.clone(),
                lane: Some(ParkReason::Retries),
                places: 2,
            },
            Signal::Freed { engine: text("a"), queue, lane: None, places: 1 },
            Signal::Demand(Box::new(demand)),
            Signal::Passed(Box::new(passed)),
        ];
        let message = encode(&signals);
        assert_eq!(decode(&message).unwrap(), signals);
        for length in 0..message.len() {
            assert!(decode(&message[..length]).is_err());
        }
        assert!(decode(&[&[FORMAT + 1], &message[1..]].concat()).is_err());
    }
}
