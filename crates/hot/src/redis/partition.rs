//! Due and firing: what is asked of a partition's keys, and what its scripts answer. Knows of ready sets only that
//! what leaves `firing` here may stand in one.

use super::{
    CALL_MAX, RedisHot, RedisProblem,
    codec::{Reader, body_of, number, ordered},
    keys::PartitionKeys,
    problem::{Failure, all},
    script::{SCRIPTS, Script},
};
use hashbrown::{HashMap, HashSet};
use punctual_contract::{
    Error,
    hot::{HotEntry, Wholeness, Withdrawn},
    ownership::Tenure,
};
use punctual_domain::{place::Partition, time::Millis};
use redis::{Cmd, Value};
use std::{collections::BTreeMap, ops::Range};

/// Entries in one call of a script that writes bodies: about 2 ms of Redis.
const WRITE_MAX: usize = 500;

impl PartitionKeys {
    fn all(&self) -> [&str; 3] {
        [&self.due, &self.firing, &self.body]
    }
}

impl RedisHot {
    pub(super) async fn load_into_due(&self, entries: Vec<HotEntry>) -> Result<usize, Error> {
        self.put("load entries", &SCRIPTS.load, entries, |it| it.due_at).await
    }

    pub(super) async fn load_into_firing(&self, entries: Vec<HotEntry>) -> Result<usize, Error> {
        let put = self
            .put("load entries that fire", &SCRIPTS.load_fired, entries.clone(), |it| it.fired_at)
            .await?;
        if put == entries.len() {
            self.recent.fire(entries.iter());
        }
        Ok(put)
    }

    async fn put(
        &self,
        doing: &'static str,
        script: &Script,
        entries: Vec<HotEntry>,
        at: fn(&HotEntry) -> Millis,
    ) -> Result<usize, Error> {
        for it in &entries {
            self.keys_of(doing, it.place.partition)?;
        }
        let mut put = 0;
        for entries in rounds(entries) {
            put += self.put_round(doing, script, &entries, at).await?;
        }
        Ok(put)
    }

    /// Each id once.
    async fn put_round(
        &self,
        doing: &'static str,
        script: &Script,
        entries: &[HotEntry],
        at: fn(&HotEntry) -> Millis,
    ) -> Result<usize, Error> {
        let (mut calls, mut asked) = (Vec::new(), Vec::new());
        for (partition, entries) in by_partition(entries, |it| it.place.partition) {
            let keys = self.keys_of(doing, partition)?;
            for entries in entries.chunks(WRITE_MAX) {
                let mut call = script.call(&keys.all());
                for it in entries {
                    call.arg(&ordered(it.place.id)).arg(at(it).0).arg(body_of(it));
                }
                calls.push(call);
                asked.push(partition);
            }
        }
        let (mut put, mut displaced) = (0, Vec::new());
        for (partition, answer) in asked.into_iter().zip(all(doing, self.bulk().run(calls).await)?) {
            let mut answer = list(doing, answer)?.into_iter();
            put += answer.next().map_or(Ok(0), |it| count(doing, it))?;
            displaced.extend(self.entries(doing, partition, answer, Millis::ZERO).await?);
        }
        self.recent.forget(&displaced);
        self.leave_ready(&displaced).await?;
        Ok(put)
    }

    pub(super) async fn peek_at_due(
        &self,
        partition: Partition,
        after: Option<(Millis, i64)>,
        until: Millis,
        limit: usize,
    ) -> Result<Vec<HotEntry>, Error> {
        const DOING: &str = "peek at what is due";
        let keys = self.keys_of(DOING, partition)?;
        let (mut found, mut after): (Vec<HotEntry>, _) = (Vec::new(), after);
        loop {
            let wanted = (limit - found.len()).min(CALL_MAX);
            if wanted == 0 {
                return Ok(found);
            }
            let mut call = SCRIPTS.peek.call(&[&keys.due, &keys.body]);
            call.arg(until.0).arg(wanted);
            if let Some((due_at, id)) = after {
                call.arg(due_at.0).arg(&ordered(id));
            }
            let answer = list(DOING, one(DOING, self.bulk().run_one(call).await)?)?;
            let is_last = answer.len() < 2 * wanted;
            found.extend(self.entries(DOING, partition, answer.into_iter(), Millis::ZERO).await?);
            if is_last {
                return Ok(found);
            }
            after = found.last().map(HotEntry::key);
        }
    }

    pub(super) async fn take_what_is_due(
        &self,
        tenure: Tenure,
        now: Millis,
        limit: usize,
        settled: &[(i64, i64)],
    ) -> Result<Vec<HotEntry>, Error> {
        const DOING: &str = "take what is due";
        let keys = self.keys_of(DOING, tenure.partition)?;
        let mut taken = Vec::new();
        loop {
            let wanted = (limit - taken.len()).min(CALL_MAX);
            let mut call = SCRIPTS.take.call(&[&keys.due, &keys.firing, &keys.body, &keys.term]);
            call.arg(&ordered(tenure.term)).arg(now.0).arg(wanted);
            for (id, fence) in settled {
                call.arg(&ordered(*id)).arg(&ordered(*fence));
            }
            let answer = match one(DOING, self.quick.run_one(call).await) {
                Ok(answer) => list(DOING, answer)?,
                // What was taken before has fired, and must be heard of.
                Err(_) if !taken.is_empty() => break,
                Err(error) => return Err(error),
            };
            let is_last = answer.len() < 2 * wanted;
            taken.extend(self.entries(DOING, tenure.partition, answer.into_iter(), now).await?);
            if is_last || taken.len() >= limit {
                break;
            }
        }
        let settled: HashSet<(i64, i64)> = settled.iter().copied().collect();
        self.recent.fire(taken.iter().filter(|it| !settled.contains(&(it.place.id, it.fence))));
        Ok(taken)
    }

    pub(super) async fn withdraw_from_due(
        &self,
        partition: Partition,
        id: i64,
        fence: i64,
    ) -> Result<Withdrawn, Error> {
        const DOING: &str = "withdraw an entry";
        let mut call = SCRIPTS.withdraw.call(&self.keys_of(DOING, partition)?.all());
        call.arg(&ordered(id)).arg(&ordered(fence));
        match count(DOING, one(DOING, self.quick.run_one(call).await)?)? {
            0 => Ok(Withdrawn::Absent),
            1 => Ok(Withdrawn::Removed),
            _ => Ok(Withdrawn::Fired),
        }
    }

    /// Those that may stand in a ready set.
    pub(super) async fn leave_firing(
        &self,
        settled: &[(Partition, i64, i64)],
    ) -> Result<Vec<HotEntry>, Error> {
        const DOING: &str = "settle entries";
        for it in settled {
            self.keys_of(DOING, it.0)?;
        }
        let (mut calls, mut asked) = (Vec::new(), Vec::new());
        for (partition, settled) in by_partition(settled, |it| it.0) {
            let keys = self.keys_of(DOING, partition)?;
            for settled in settled.chunks(WRITE_MAX) {
                let mut call = SCRIPTS.settle.call(&keys.all());
                for (_, id, fence) in settled {
                    let may_be_ready = self.recent.settle(partition, *id, *fence);
                    call.arg(&ordered(*id)).arg(&ordered(*fence)).arg(i32::from(may_be_ready));
                }
                calls.push(call);
                asked.push(partition);
            }
        }
        let mut left = Vec::new();
        for (partition, answer) in
            asked.into_iter().zip(all(DOING, self.link_for(settled.len()).run(calls).await)?)
        {
            let answer = list(DOING, answer)?.into_iter();
            left.extend(self.entries(DOING, partition, answer, Millis::ZERO).await?);
        }
        Ok(left)
    }

    pub(super) async fn fired_before(
        &self,
        partition: Partition,
        before: Millis,
        places: Range<usize>,
    ) -> Result<Vec<HotEntry>, Error> {
        const DOING: &str = "look at what is firing";
        let keys = self.keys_of(DOING, partition)?;
        let mut call = SCRIPTS.firing.call(&[&keys.firing, &keys.body]);
        let small = |it: usize| i32::try_from(it).unwrap_or(i32::MAX);
        call.arg(before.0).arg(small(places.len())).arg(small(places.start));
        let answer = list(DOING, one(DOING, self.bulk().run_one(call).await)?)?;
        let (mut reader, mut found, mut unreadable) = (Reader::default(), Vec::new(), Vec::new());
        let mut answer = answer.into_iter();
        while let (Some(id), Some(at), Some(body)) = (answer.next(), answer.next(), answer.next()) {
            let (id, at, body) = (bytes(DOING, id)?, bytes(DOING, at)?, bytes(DOING, body)?);
            let fired_at = str::from_utf8(&at).ok().and_then(|it| it.parse().ok()).map(Millis);
            match fired_at.and_then(|it| reader.body(partition, &id, &body, it)) {
                Some(entry) => found.push(entry),
                None => unreadable.push((id, body)),
            }
        }
        self.drop_unreadable(partition, unreadable).await;
        Ok(found)
    }

    /// Those of them that fire, as far as this process knows or Redis says.
    pub(super) async fn still_firing(
        &self,
        doing: &'static str,
        entries: Vec<HotEntry>,
    ) -> Result<Vec<HotEntry>, Error> {
        for it in &entries {
            self.keys_of(doing, it.place.partition)?;
        }
        let unknown: Vec<HotEntry> = entries.iter().filter(|it| !self.recent.fires(it)).cloned().collect();
        if unknown.is_empty() {
            return Ok(entries);
        }
        let gone = self.not_firing(doing, &unknown).await?;
        let fires = |it: &HotEntry| !gone.contains(&(it.place.partition, it.place.id, it.fence));
        Ok(entries.into_iter().filter(fires).collect())
    }

    /// Of these, what does not fire with its fence. Asks Redis, whatever this process knows.
    pub(super) async fn not_firing(
        &self,
        doing: &'static str,
        entries: &[HotEntry],
    ) -> Result<HashSet<(Partition, i64, i64)>, Error> {
        let (mut calls, mut asked) = (Vec::new(), Vec::new());
        for (partition, entries) in by_partition(entries, |it| it.place.partition) {
            let keys = self.keys_of(doing, partition)?;
            for entries in entries.chunks(CALL_MAX) {
                let mut call = SCRIPTS.fires.call(&[&keys.firing, &keys.body]);
                for it in entries {
                    call.arg(&ordered(it.place.id)).arg(&ordered(it.fence));
                }
                calls.push(call);
                asked.push(entries.to_vec());
            }
        }
        let mut gone = HashSet::new();
        for (entries, answer) in
            asked.into_iter().zip(all(doing, self.link_for(entries.len()).run(calls).await)?)
        {
            let said = bytes(doing, answer)?;
            let silent = entries.into_iter().zip(said).filter(|(_, said)| *said != b'1');
            gone.extend(silent.map(|(it, _)| (it.place.partition, it.place.id, it.fence)));
        }
        Ok(gone)
    }

    pub(super) async fn depth_of_partitions(&self) -> Result<(usize, usize), Error> {
        const DOING: &str = "count what is due and firing";
        let sizes = |it: &PartitionKeys| [&it.due, &it.firing].map(|key| size_of(key));
        let calls = self.keys.partitions().iter().flat_map(sizes).collect();
        let (mut due, mut firing) = (0, 0);
        let mut sizes = all(DOING, self.bulk().run(calls).await)?.into_iter();
        while let (Some(more_due), Some(more_firing)) = (sizes.next(), sizes.next()) {
            due += count(DOING, more_due)?;
            firing += count(DOING, more_firing)?;
        }
        Ok((due, firing))
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
        let mut call = SCRIPTS.clear.call(&[&keys.due, &keys.firing, &keys.body, &keys.term]);
        call.arg(&ordered(tenure.term));
        one(DOING, self.quick.run_one(call).await).map(drop)
    }

    /// `answer`: id and body in turn. What cannot be read is forgotten there, so that the store's sweep loads it again.
    async fn entries(
        &self,
        doing: &'static str,
        partition: Partition,
        mut answer: impl Iterator<Item = Value> + Send,
        fired_at: Millis,
    ) -> Result<Vec<HotEntry>, Error> {
        let (mut reader, mut found, mut unreadable) = (Reader::default(), Vec::new(), Vec::new());
        while let (Some(id), Some(body)) = (answer.next(), answer.next()) {
            let (id, body) = (bytes(doing, id)?, bytes(doing, body)?);
            match reader.body(partition, &id, &body, fired_at) {
                Some(entry) => found.push(entry),
                None => unreadable.push((id, body)),
            }
        }
        self.drop_unreadable(partition, unreadable).await;
        Ok(found)
    }

    async fn drop_unreadable(&self, partition: Partition, unreadable: Vec<(Vec<u8>, Vec<u8>)>) {
        let Some(keys) = self.keys.partitions().get(usize::from(partition.0)) else { return };
        for some in unreadable.chunks(WRITE_MAX) {
            let mut call = SCRIPTS.drop.call(&keys.all());
            for (id, body) in some {
                call.arg(id).arg(body);
            }
            tracing::error!(
                partition = partition.0,
                entries = some.len(),
                "entries of the hot set cannot be read; the store's sweep loads them again"
            );
            if let Err(Failure { problem, .. }) = self.bulk().run_one(call).await {
                tracing::warn!(%problem, "entries that cannot be read could not be forgotten");
            }
        }
    }
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

fn by_partition<T: Clone>(all: &[T], partition: impl Fn(&T) -> Partition) -> BTreeMap<Partition, Vec<T>> {
    let mut parts: BTreeMap<Partition, Vec<T>> = BTreeMap::new();
    for it in all {
        parts.entry(partition(it)).or_default().push(it.clone());
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
