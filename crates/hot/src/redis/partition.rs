//! Due tasks: the calls on a partition's keys, and the answers of its scripts. Must not know fired tasks.

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
/// Partitions in one call.
const PARTITIONS_MAX: usize = 64;

const DRAIN: &str = "drain what is due";

type Drained = Result<Vec<HotEntry>, Error>;

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
        let parts = by_partition(entries);
        let chunks: Vec<(Partition, &[&HotEntry])> = parts
            .iter()
            .flat_map(|(partition, entries)| entries.chunks(WRITE_MAX).map(|some| (*partition, some)))
            .collect();
        let (mut calls, mut partitions) = (Vec::new(), Vec::with_capacity(chunks.len()));
        for bundle in bundles(&chunks, self.partitions_a_call()) {
            let mut keys = Vec::with_capacity(2 * bundle.len());
            for (partition, _) in bundle {
                let of_partition = self.keys_of(doing, *partition)?;
                keys.extend([of_partition.due.as_str(), &of_partition.body]);
            }
            let mut call = SCRIPTS.load.call(&keys);
            for (_, entries) in bundle {
                call.arg(entries.len());
                for entry in *entries {
                    call.arg(&ordered(entry.place.id)).arg(entry.due_at.0).arg(body_of(entry));
                }
            }
            calls.push(call);
            partitions.extend(bundle.iter().map(|(partition, _)| *partition));
        }
        let mut answers = Vec::with_capacity(partitions.len());
        for answer in all(doing, self.bulk().run(calls).await)? {
            answers.extend(list(doing, answer)?);
        }
        loaded(doing, &partitions, answers)
    }

    /// The number of partitions in one call. In a Cluster each partition is in a slot of its own, and a script may
    /// not leave its slot.
    fn partitions_a_call(&self) -> usize {
        if self.place.is_cluster() { 1 } else { PARTITIONS_MAX }
    }

    /// An answer for each tenure, in order.
    pub(super) async fn drain_due(
        &self,
        tenures: &[Tenure],
        until: Millis,
        limit: usize,
    ) -> Vec<Result<Vec<HotEntry>, Error>> {
        let no_keys = |tenure: &Tenure| self.keys_of(DRAIN, tenure.partition).err().map(Err);
        let mut answers: Vec<Option<Drained>> = tenures.iter().map(no_keys).collect();
        // Each call answers the first of its partitions at least, so that there are no more rounds than partitions.
        for _ in tenures {
            let mut open: Vec<(&Tenure, &mut Option<Drained>)> =
                tenures.iter().zip(&mut answers).filter(|(_, answer)| answer.is_none()).collect();
            if open.is_empty() {
                break;
            }
            let bundles: Vec<_> = open.chunks_mut(self.partitions_a_call()).collect();
            let calls = bundles.iter().map(|bundle| self.drain_call(bundle, until, limit)).collect();
            let mut results = self.quick.run(calls).await.into_iter();
            for bundle in bundles {
                let result =
                    results.next().unwrap_or_else(|| Err(Failure::answer("an answer for each call")));
                match list_of(DRAIN, one(DRAIN, result), bundle.len()) {
                    Ok(found) => bundle
                        .iter_mut()
                        .zip(found)
                        .for_each(|((tenure, answer), found)| **answer = drained(tenure.partition, found)),
                    Err(error) => {
                        bundle.iter_mut().for_each(|(_, answer)| **answer = Some(Err(error.clone())))
                    }
                }
            }
        }
        let unanswered = || Err(unexpected(DRAIN, "an answer for each partition"));
        answers.into_iter().map(|answer| answer.unwrap_or_else(unanswered)).collect()
    }

    /// The command that drains partitions that have keys.
    fn drain_call(&self, bundle: &[(&Tenure, &mut Option<Drained>)], until: Millis, limit: usize) -> Cmd {
        let keys: Vec<&str> = bundle
            .iter()
            .filter_map(|(tenure, _)| self.keys.partitions().get(usize::from(tenure.partition.0)))
            .flat_map(|keys| [keys.due.as_str(), &keys.body, &keys.term])
            .collect();
        let mut call = SCRIPTS.drain.call(&keys);
        call.arg(until.0).arg(CALL_MAX).arg(limit.min(CALL_MAX));
        bundle.iter().for_each(|(tenure, _)| {
            call.arg(&ordered(tenure.term));
        });
        call
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
        let mut calls = Vec::new();
        for bundle in tenures.chunks(self.partitions_a_call()) {
            let mut keys = Vec::with_capacity(2 * bundle.len());
            for tenure in bundle {
                let of_partition = self.keys_of(DOING, tenure.partition)?;
                keys.extend([of_partition.whole.as_str(), &of_partition.term]);
            }
            let mut call = SCRIPTS.whole.call(&keys);
            bundle.iter().for_each(|tenure| {
                call.arg(&ordered(tenure.term));
            });
            calls.push(call);
        }
        let mut found = Vec::with_capacity(tenures.len());
        for answer in all(DOING, self.quick.run(calls).await)? {
            for answer in list(DOING, answer)? {
                let partition = tenures.get(found.len()).map(|tenure| tenure.partition);
                found.push(wholeness(DOING, partition, answer)?);
            }
        }
        let is_each = found.len() == tenures.len();
        is_each.then_some(found).ok_or_else(|| unexpected(DOING, "an answer for each partition"))
    }

    pub(super) async fn clear_partition(&self, tenure: Tenure) -> Result<(), Error> {
        const DOING: &str = "clear a partition";
        let keys = self.keys_of(DOING, tenure.partition)?;
        let mut call = SCRIPTS.clear.call(&[&keys.due, &keys.body, &keys.term]);
        call.arg(&ordered(tenure.term));
        one(DOING, self.quick.run_one(call).await).map(drop)
    }
}

/// Returns the number of added entries. A broken partition is an error; entries in the others were added
/// nevertheless.
fn loaded(doing: &'static str, partitions: &[Partition], answers: Vec<Value>) -> Result<usize, Error> {
    if answers.len() != partitions.len() {
        return Err(unexpected(doing, "an answer for each partition"));
    }
    let (mut put, mut is_broken) = (0, false);
    for (partition, answer) in partitions.iter().zip(answers) {
        match answer {
            Value::BulkString(problem) => {
                let problem = String::from_utf8_lossy(&problem).into_owned();
                tracing::warn!(
                    partition = partition.0,
                    problem,
                    "nothing can be put into a partition of the hot set"
                );
                is_broken = true;
            }
            answer => put += count(doing, answer)?,
        }
    }
    if is_broken { Err(unexpected(doing, "a count for each partition")) } else { Ok(put) }
}

/// One partition's answer, or `None` if it was not read.
fn drained(partition: Partition, answer: Value) -> Option<Drained> {
    match answer {
        Value::Int(_) => None,
        Value::BulkString(problem) => {
            let problem = String::from_utf8_lossy(&problem).into_owned();
            tracing::warn!(partition = partition.0, problem, "a partition of the hot set cannot be drained");
            Some(Err(unexpected(DRAIN, "entries")))
        }
        answer => Some(list(DRAIN, answer).and_then(|answer| entries(partition, answer))),
    }
}

/// Splits the list into consecutive parts that fit into one call: at most `partitions` partitions, and a bounded
/// number of entries.
fn bundles<'a, 'b>(
    mut rest: &'a [(Partition, &'b [&'b HotEntry])],
    partitions: usize,
) -> Vec<&'a [(Partition, &'b [&'b HotEntry])]> {
    let mut bundles = Vec::new();
    while !rest.is_empty() {
        let mut entries = 0;
        let fits = |(_, some): &&(Partition, &[&HotEntry])| {
            entries += some.len();
            entries <= WRITE_MAX
        };
        let count = rest.iter().take(partitions).take_while(fits).count();
        let (bundle, others) = rest.split_at(count.max(1));
        bundles.push(bundle);
        rest = others;
    }
    bundles
}

/// `answer`: id and body in turn. Unreadable entries have left Redis, and the refill loads them again from
/// the store.
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
            Some(round) => round.push(entry),
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
    answer.map_err(|failure| failure.into_error(doing))
}

pub(super) fn list(doing: &'static str, value: Value) -> Result<Vec<Value>, Error> {
    match value {
        Value::Array(list) | Value::Set(list) => Ok(list),
        _ => Err(unexpected(doing, "a list")),
    }
}

/// Reads like `list`, and requires exactly `count` elements.
fn list_of(doing: &'static str, answer: Result<Value, Error>, count: usize) -> Result<Vec<Value>, Error> {
    let found = list(doing, answer?)?;
    let is_each = found.len() == count;
    is_each.then_some(found).ok_or_else(|| unexpected(doing, "an answer for each partition"))
}

pub(super) fn bytes(doing: &'static str, value: Value) -> Result<Vec<u8>, Error> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        Value::SimpleString(text) => Ok(text.into_bytes()),
        _ => Err(unexpected(doing, "bytes")),
    }
}

pub(super) fn count(doing: &'static str, value: Value) -> Result<usize, Error> {
    match value {
        Value::Int(number) => usize::try_from(number).map_err(|_| unexpected(doing, "a count")),
        _ => Err(unexpected(doing, "a count")),
    }
}

fn wholeness(doing: &'static str, partition: Option<Partition>, answer: Value) -> Result<Wholeness, Error> {
    match answer {
        Value::Int(1) => Ok(Wholeness::Whole),
        Value::Int(_) => Ok(Wholeness::Lost),
        Value::Array(problem) => {
            let problem = problem.into_iter().next().map(|problem| bytes(doing, problem)).transpose()?;
            let problem = String::from_utf8_lossy(&problem.unwrap_or_default()).into_owned();
            let partition = partition.map(|partition| partition.0);
            tracing::warn!(partition, problem, "nothing is known of a partition of the hot set");
            Ok(Wholeness::Broken)
        }
        term => number(&bytes(doing, term)?)
            .map(Wholeness::NewerTerm)
            .ok_or_else(|| unexpected(doing, "a term of eight bytes")),
    }
}

fn unexpected(doing: &'static str, wanted: &'static str) -> Error {
    Error::may_have_happened(doing, RedisProblem::answer(wanted))
}
