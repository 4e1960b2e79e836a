//! What is due: what is asked of a partition's keys, and what its scripts answer. Must not know a ready set.

use super::{
    CALL_MAX, RedisHot, RedisProblem,
    codec::{Reader, body_of, number, ordered},
    problem::{Failure, all},
    script::SCRIPTS,
};
use hashbrown::HashMap;
use punctual_contract::{
    Error,
    hot::{HotEntry, Wholeness, Withdrawn},
    ownership::Tenure,
};
use punctual_domain::{place::Partition, time::Millis};
use redis::{Cmd, Value};
use std::collections::BTreeMap;

/// Entries in one call of a script that writes bodies: about 2 ms of Redis.
const WRITE_MAX: usize = 500;

impl RedisHot {
    pub(super) async fn load_into_due(&self, entries: Vec<HotEntry>) -> Result<usize, Error> {
        const DOING: &str = "load entries";
        for entry in &entries {
            self.keys_of(DOING, entry.place.partition)?;
        }
        let mut put = 0;
        for entries in rounds(entries) {
            put += self.load_round(DOING, &entries).await?;
        }
        Ok(put)
    }

    /// Each id once.
    async fn load_round(&self, doing: &'static str, entries: &[HotEntry]) -> Result<usize, Error> {
        let mut calls = Vec::new();
        for (partition, entries) in by_partition(entries) {
            let keys = self.keys_of(doing, partition)?;
            for entries in entries.chunks(WRITE_MAX) {
                let mut call = SCRIPTS.load.call(&[&keys.due, &keys.body]);
                for entry in entries {
                    call.arg(&ordered(entry.place.id)).arg(entry.due_at.0).arg(body_of(entry));
                }
                calls.push(call);
            }
        }
        let mut put = 0;
        for answer in all(doing, self.bulk().run(calls).await)? {
            put += count(doing, answer)?;
        }
        Ok(put)
    }

    /// An answer for each tenure, in order.
    pub(super) async fn drain_due(
        &self,
        tenures: &[Tenure],
        until: Millis,
        limit: usize,
    ) -> Vec<Result<Vec<HotEntry>, Error>> {
        const DOING: &str = "drain what is due";
        let call = |tenure: &Tenure| {
            let keys = self.keys_of(DOING, tenure.partition)?;
            let mut call = SCRIPTS.drain.call(&[&keys.due, &keys.body, &keys.term]);
            call.arg(&ordered(tenure.term)).arg(until.0).arg(limit.min(CALL_MAX));
            Ok(call)
        };
        let (mut calls, mut refused) = (Vec::with_capacity(tenures.len()), Vec::with_capacity(tenures.len()));
        for tenure in tenures {
            match call(tenure) {
                Ok(call) => {
                    calls.push(call);
                    refused.push(None);
                }
                Err(error) => refused.push(Some(error)),
            }
        }
        let mut answers = self.quick.run(calls).await.into_iter();
        let drained = |(tenure, refused): (&Tenure, Option<Error>)| {
            if let Some(error) = refused {
                return Err(error);
            }
            let answer = answers.next().unwrap_or_else(|| Err(Failure::answer("an answer for each call")));
            entries(tenure.partition, list(DOING, one(DOING, answer)?)?)
        };
        tenures.iter().zip(refused).map(drained).collect()
    }

    pub(super) async fn withdraw_from_due(
        &self,
        partition: Partition,
        id: i64,
        fence: i64,
    ) -> Result<Withdrawn, Error> {
        const DOING: &str = "withdraw an entry";
        let keys = self.keys_of(DOING, partition)?;
        let mut call = SCRIPTS.withdraw.call(&[&keys.due, &keys.body]);
        call.arg(&ordered(id)).arg(&ordered(fence));
        match count(DOING, one(DOING, self.quick.run_one(call).await)?)? {
            0 => Ok(Withdrawn::Absent),
            _ => Ok(Withdrawn::Removed),
        }
    }

    pub(super) async fn due_in_all(&self) -> Result<usize, Error> {
        const DOING: &str = "count what is due";
        let calls = self.keys.partitions().iter().map(|keys| size_of(&keys.due)).collect();
        let mut due = 0;
        for answer in all(DOING, self.bulk().run(calls).await)? {
            due += count(DOING, answer)?;
        }
        Ok(due)
    }

    pub(super) async fn are_whole(&self, tenures: &[Tenure]) -> Result<Vec<Wholeness>, Error> {
        const DOING: &str = "look whether anything was lost";
        let mut calls = Vec::with_capacity(tenures.len());
        for it in tenures {
            let keys = self.keys_of(DOING, it.partition)?;
            let mut call = SCRIPTS.whole.call(&[&keys.whole, &keys.term]);
            call.arg(&ordered(it.term));
            calls.push(call);
        }
        let answers = all(DOING, self.quick.run(calls).await)?;
        answers.into_iter().map(|it| wholeness(DOING, it)).collect()
    }

    pub(super) async fn clear_partition(&self, tenure: Tenure) -> Result<(), Error> {
        const DOING: &str = "clear a partition";
        let keys = self.keys_of(DOING, tenure.partition)?;
        let mut call = SCRIPTS.clear.call(&[&keys.due, &keys.body, &keys.term]);
        call.arg(&ordered(tenure.term));
        one(DOING, self.quick.run_one(call).await).map(drop)
    }
}

/// `answer`: id and body in turn. What cannot be read has left Redis, and is loaded again by the store's refill.
fn entries(partition: Partition, answer: Vec<Value>) -> Result<Vec<HotEntry>, Error> {
    const DOING: &str = "read what was drained";
    let (mut reader, mut found, mut unreadable) = (Reader::default(), Vec::new(), 0);
    let mut answer = answer.into_iter();
    while let (Some(id), Some(body)) = (answer.next(), answer.next()) {
        match reader.body(partition, &bytes(DOING, id)?, &bytes(DOING, body)?, Millis::ZERO) {
            Some(entry) => found.push(entry),
            None => unreadable += 1,
        }
    }
    if unreadable > 0 {
        tracing::error!(
            partition = partition.0,
            entries = unreadable,
            "entries of the hot set cannot be read; the store is asked for them again"
        );
    }
    Ok(found)
}

pub(super) fn size_of(key: &str) -> Cmd {
    let mut call = redis::cmd("ZCARD");
    call.arg(key);
    call
}

/// Entries one after the other, so that no round has an id twice: nearly always one round.
fn rounds(entries: Vec<HotEntry>) -> Vec<Vec<HotEntry>> {
    let mut seen: HashMap<(Partition, i64), usize> = HashMap::with_capacity(entries.len());
    let mut rounds: Vec<Vec<HotEntry>> = Vec::new();
    for entry in entries {
        let round = seen.entry((entry.place.partition, entry.place.id)).or_insert(0);
        match rounds.get_mut(*round) {
            Some(it) => it.push(entry),
            None => rounds.push(vec![entry]),
        }
        *round += 1;
    }
    rounds
}

fn by_partition(entries: &[HotEntry]) -> BTreeMap<Partition, Vec<&HotEntry>> {
    let mut parts: BTreeMap<Partition, Vec<&HotEntry>> = BTreeMap::new();
    for entry in entries {
        parts.entry(entry.place.partition).or_default().push(entry);
    }
    parts
}

pub(super) fn one(doing: &'static str, answer: Result<Value, Failure>) -> Result<Value, Error> {
    answer.map_err(|it| it.into_error(doing))
}

pub(super) fn list(doing: &'static str, value: Value) -> Result<Vec<Value>, Error> {
    match value {
        Value::Array(it) | Value::Set(it) => Ok(it),
        _ => Err(unexpected(doing, "a list")),
    }
}

pub(super) fn bytes(doing: &'static str, value: Value) -> Result<Vec<u8>, Error> {
    match value {
        Value::BulkString(it) => Ok(it),
        Value::SimpleString(it) => Ok(it.into_bytes()),
        _ => Err(unexpected(doing, "bytes")),
    }
}

pub(super) fn count(doing: &'static str, value: Value) -> Result<usize, Error> {
    match value {
        Value::Int(it) => usize::try_from(it).map_err(|_| unexpected(doing, "a count")),
        _ => Err(unexpected(doing, "a count")),
    }
}

fn wholeness(doing: &'static str, answer: Value) -> Result<Wholeness, Error> {
    match answer {
        Value::Int(1) => Ok(Wholeness::Whole),
        Value::Int(_) => Ok(Wholeness::Lost),
        term => number(&bytes(doing, term)?)
            .map(Wholeness::Overtaken)
            .ok_or_else(|| unexpected(doing, "a term of eight bytes")),
    }
}

fn unexpected(doing: &'static str, wanted: &'static str) -> Error {
    Error::may_have_happened(doing, RedisProblem::Answer(wanted))
}
