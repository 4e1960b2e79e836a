//! The commands on one stream, and how their answers are read. Knows no connection.

use super::{body, entry::EntryId};
use crate::error::Error;
use punctual_contract::bus::Delivery;
use punctual_domain::{name::QueueKey, time::Millis};
use punctual_redis_link::Answer;
use redis::{Cmd, Pipeline, Value};
use std::time::Duration;

/// The one consumer group of every stream.
pub(super) const GROUP: &str = "executors";
/// The fields of an entry: its body, and how often it was given out before it was put back.
const BODY: &str = "b";
const TIMES: &str = "t";

/// Entries of one read.
pub(super) const READ_MAX: usize = 1_000;
/// Entries of one call of `requeue.lua`.
pub(super) const REQUEUE_MAX: usize = 500;
/// The page size of XPENDING.
pub(super) const PENDING_MAX: usize = 1_000;

/// One stream of a queue. Each has a hash tag of its own, so that a Cluster spreads them.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) number: u8,
    pub(super) key: String,
}

impl Stream {
    pub(super) fn of(prefix: &str, queue: &QueueKey, number: u8) -> Self {
        let QueueKey { namespace, queue } = queue;
        Self { number, key: format!("{prefix}:{{q:{namespace}/{queue}:{number}}}:stream") }
    }

    pub(super) fn add(&self, body: &[u8]) -> Cmd {
        let mut command = redis::cmd("XADD");
        command.arg(&self.key).arg("*").arg(BODY).arg(body);
        command
    }

    pub(super) fn create_group(&self) -> Cmd {
        let mut command = redis::cmd("XGROUP");
        command.arg("CREATE").arg(&self.key).arg(GROUP).arg(0).arg("MKSTREAM");
        command
    }

    /// Reads entries that no consumer has, then the server's time: two answers. `block` of None: answers
    /// immediately.
    pub(super) fn read(&self, consumer: &str, count: usize, block: Option<Duration>) -> Pipeline {
        let mut read = redis::cmd("XREADGROUP");
        read.arg("GROUP").arg(GROUP).arg(consumer).arg("COUNT").arg(count.clamp(1, READ_MAX));
        if let Some(block) = block {
            // 0 would be for ever.
            read.arg("BLOCK").arg(u64::try_from(block.as_millis()).unwrap_or(u64::MAX).max(1));
        }
        read.arg("STREAMS").arg(&self.key).arg(">");
        let mut both = redis::pipe();
        both.add_command(read).add_command(redis::cmd("TIME"));
        both
    }

    /// Writes `at` as the instant of delivery, and does not count another one.
    pub(super) fn stamp(&self, consumer: &str, ids: &[EntryId], at: Millis) -> Cmd {
        let mut command = redis::cmd("XCLAIM");
        command.arg(&self.key).arg(GROUP).arg(consumer).arg(0);
        for id in ids {
            command.arg(id.to_string());
        }
        command.arg("TIME").arg(at.0).arg("JUSTID");
        command
    }

    /// Both or neither: an entry that is acknowledged and still there would stay in Redis forever.
    pub(super) fn acknowledge(&self, ids: &[EntryId]) -> Pipeline {
        let (mut forget, mut delete) = (redis::cmd("XACK"), redis::cmd("XDEL"));
        forget.arg(&self.key).arg(GROUP);
        delete.arg(&self.key);
        for id in ids {
            let id = id.to_string();
            forget.arg(&id);
            delete.arg(&id);
        }
        let mut both = redis::pipe();
        both.atomic().add_command(forget).add_command(delete);
        both
    }

    /// Entries that are with consumers, between two readings of the clock: three answers.
    pub(super) fn pending(&self, after: Option<EntryId>) -> Pipeline {
        let mut pending = redis::cmd("XPENDING");
        let from = after.map_or_else(|| "-".to_owned(), |id| format!("({id}"));
        pending.arg(&self.key).arg(GROUP).arg(from).arg("+").arg(PENDING_MAX);
        let mut all = redis::pipe();
        all.atomic().add_command(redis::cmd("TIME")).add_command(pending).add_command(redis::cmd("TIME"));
        all
    }

    /// `EVAL` with the text: it is seldom called, and with the source in each call NOSCRIPT cannot occur.
    pub(super) fn requeue(&self, ids: &[(EntryId, u32)]) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(include_str!("requeue.lua")).arg(1).arg(&self.key).arg(GROUP);
        for (id, times) in ids {
            command.arg(id.to_string()).arg(*times);
        }
        command
    }

    pub(super) fn forget(&self, silent_for: Duration) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(include_str!("forget.lua")).arg(1).arg(&self.key).arg(GROUP);
        command.arg(u64::try_from(silent_for.as_millis()).unwrap_or(u64::MAX));
        command
    }

    /// An entry that this build cannot read stays with the consumer: a reclaim may deliver it to one that
    /// can, and the store's lease leads to a new message in any case.
    pub(super) fn deliveries(&self, queue: &QueueKey, entries: Vec<Entry>) -> Vec<Delivery> {
        let made = entries.into_iter().map(|entry| (entry.id, self.delivery(queue, entry)));
        made.filter_map(|(id, result)| {
            result.inspect_err(|error| {
                tracing::error!(queue = %queue.queue, namespace = %queue.namespace, entry = %id, error = %error, "an unreadable message stays pending");
            })
            .ok()
        })
        .collect()
    }

    fn delivery(&self, queue: &QueueKey, entry: Entry) -> Result<Delivery, Error> {
        let id = entry.id.pack(self.number)?;
        let message = body::decode(queue, &entry.body)?;
        Ok(Delivery { id, times: entry.times_before.saturating_add(1), message })
    }
}

/// One entry of a stream as it was read.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: EntryId,
    body: Vec<u8>,
    times_before: u32,
}

/// An entry that is with a consumer.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) id: EntryId,
    pub(super) idle_ms: i64,
    pub(super) times: u32,
}

/// The answer to a read of one stream: `[[key, [entry, …]]]`, or nil.
pub(super) fn entries(answer: Answer) -> Result<Vec<Entry>, Error> {
    let stream = match answer? {
        Value::Nil => return Ok(Vec::new()),
        Value::Array(streams) => {
            streams.into_iter().next().map(list).transpose()?.and_then(|mut list| list.pop())
        }
        Value::Map(streams) => streams.into_iter().next().map(|(_, stream)| stream),
        _ => return Err(Error::Reply("XREADGROUP did not answer a list")),
    };
    list(stream.ok_or(Error::Reply("to a read, an empty list"))?)?.into_iter().map(entry).collect()
}

fn entry(value: Value) -> Result<Entry, Error> {
    let mut parts = list(value)?.into_iter();
    let id = text(parts.next())?.parse()?;
    let mut fields = list(parts.next().ok_or(Error::Reply("an entry without fields"))?)?.into_iter();
    let (mut body, mut times_before) = (Vec::new(), 0);
    while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
        match text(Some(name))?.as_str() {
            BODY => body = bytes(value)?,
            TIMES => {
                times_before =
                    text(Some(value))?.parse().map_err(|_| Error::Reply("a count that is not a number"))?
            }
            _ => {}
        }
    }
    Ok(Entry { id, body, times_before })
}

/// `[id, consumer, idle ms, times]` each.
pub(super) fn pending(answer: Answer) -> Result<Vec<Pending>, Error> {
    list(answer?)?.into_iter().map(one_pending).collect()
}

fn one_pending(value: Value) -> Result<Pending, Error> {
    let mut parts = list(value)?.into_iter();
    let id = text(parts.next())?.parse()?;
    let (Some(Value::Int(idle_ms)), Some(Value::Int(times))) = (parts.nth(1), parts.next()) else {
        return Err(Error::Reply("a pending entry without its numbers"));
    };
    Ok(Pending { id, idle_ms, times: u32::try_from(times).unwrap_or(u32::MAX) })
}

/// Seconds and microseconds.
pub(super) fn time(answer: Answer) -> Result<Millis, Error> {
    let mut parts = list(answer?)?.into_iter();
    let mut number =
        || text(parts.next())?.parse::<i64>().map_err(|_| Error::Reply("a time that is not a number"));
    Ok(Millis(number()?.saturating_mul(1_000).saturating_add(number()? / 1_000)))
}

pub(super) fn count(answer: Answer) -> Result<usize, Error> {
    match answer? {
        Value::Int(number) => usize::try_from(number).map_err(|_| Error::Reply("a negative count")),
        _ => Err(Error::Reply("no count")),
    }
}

/// Exactly as many answers as commands.
pub(super) fn exactly<const N: usize>(answers: Vec<Answer>) -> Result<[Answer; N], Error> {
    answers.try_into().map_err(|_| Error::Reply("an unexpected number of answers"))
}

fn list(value: Value) -> Result<Vec<Value>, Error> {
    match value {
        Value::Array(list) => Ok(list),
        _ => Err(Error::Reply("no list")),
    }
}

fn bytes(value: Value) -> Result<Vec<u8>, Error> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        _ => Err(Error::Reply("no text")),
    }
}

fn text(value: Option<Value>) -> Result<String, Error> {
    String::from_utf8(bytes(value.unwrap_or(Value::Nil))?).map_err(|_| Error::Reply("no text"))
}
