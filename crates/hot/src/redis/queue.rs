//! Ready sets: what is asked of a queue's keys, and what its scripts answer. Decides no order: the scripts do.

use super::{
    CALL_MAX, RedisHot,
    codec::{Reader, lane_of, lane_word, ordered, ready_score, record_of},
    keys::queue_word,
    partition::{bytes, count, list, one, size_of},
    problem::all,
    script::SCRIPTS,
};
use hashbrown::HashMap;
use punctual_contract::{
    Error,
    hot::{Admission, HotEntry, Lane},
};
use punctual_domain::{
    chooser::WEIGHT_MAX,
    name::{Name, QueueKey},
    settings::{Choice, Retries},
};
use std::sync::Arc;

/// Entries in one call of a script that writes records: about 2 ms of Redis.
const WRITE_MAX: usize = 500;

/// `entries` may be fewer than `count`: what cannot be read is left out.
#[derive(Debug)]
pub(super) struct Popped {
    pub(super) count: usize,
    pub(super) entries: Vec<HotEntry>,
}

impl RedisHot {
    /// How many were put in.
    pub(super) async fn put_ready(&self, entries: Vec<HotEntry>, retries: Retries) -> Result<usize, Error> {
        const DOING: &str = "offer entries";
        if entries.is_empty() {
            return Ok(0);
        }
        let (mut calls, mut words) = (Vec::new(), Vec::new());
        for (queue, entries) in by_queue(&entries) {
            let keys = self.keys.ready(&queue);
            for entries in entries.chunks(WRITE_MAX) {
                let mut call = SCRIPTS.offer.call(&keys.all());
                for it in entries {
                    call.arg(ready_score(it, retries)).arg(&ordered(it.task_id)).arg(record_of(it));
                }
                calls.push(call);
            }
            words.push(queue_word(&queue));
        }
        // Last: whoever finds a queue empty and strikes it off looks once more.
        let mut note = SCRIPTS.note.call(&[&self.keys.queues()]);
        note.arg(words);
        calls.push(note);
        let offers = calls.len() - 1;
        let mut put = 0;
        for answer in all(DOING, self.link_for(entries.len()).run(calls).await)?.into_iter().take(offers) {
            put += count(DOING, answer)?;
        }
        Ok(put)
    }

    pub(super) async fn stand_ready(&self, entries: &[HotEntry]) -> Result<Vec<bool>, Error> {
        const DOING: &str = "look whether entries are ready";
        let (mut calls, mut asked) = (Vec::new(), Vec::new());
        let mut queues: HashMap<&Arc<QueueKey>, Vec<usize>> = HashMap::new();
        for (nth, entry) in entries.iter().enumerate() {
            queues.entry(&entry.queue).or_default().push(nth);
        }
        for (queue, numbers) in queues {
            let keys = self.keys.ready(queue);
            for numbers in numbers.chunks(CALL_MAX) {
                let mut call = SCRIPTS.are_ready.call(&[&keys.order, &keys.tasks, &keys.whereabouts]);
                for entry in numbers.iter().filter_map(|nth| entries.get(*nth)) {
                    call.arg(&ordered(entry.task_id))
                        .arg(&ordered(entry.place.id))
                        .arg(&ordered(entry.fence));
                }
                calls.push(call);
                asked.push(numbers.to_vec());
            }
        }
        let mut ready = vec![false; entries.len()];
        let answers = all(DOING, self.link_for(entries.len()).run(calls).await)?;
        for (numbers, answer) in asked.into_iter().zip(answers) {
            for (nth, said) in numbers.into_iter().zip(bytes(DOING, answer)?) {
                if let Some(is_ready) = ready.get_mut(nth) {
                    *is_ready = said == b'1';
                }
            }
        }
        Ok(ready)
    }

    /// They are of one queue.
    pub(super) async fn put_aside(
        &self,
        lane: &Lane,
        entries: Vec<HotEntry>,
        retries: Retries,
    ) -> Result<(), Error> {
        if entries.is_empty() {
            return Ok(());
        }
        let (mut calls, mut words) = (Vec::new(), Vec::new());
        for (queue, entries) in by_queue(&entries) {
            let keys = self.keys.ready(&queue);
            for entries in entries.chunks(WRITE_MAX) {
                let mut call = SCRIPTS.park.call(&keys.all());
                call.arg(lane_word(lane));
                for it in entries {
                    call.arg(ready_score(it, retries)).arg(&ordered(it.task_id)).arg(record_of(it));
                }
                calls.push(call);
            }
            words.push(queue_word(&queue));
        }
        let mut note = SCRIPTS.note.call(&[&self.keys.queues()]);
        note.arg(words);
        calls.push(note);
        all("park entries", self.link_for(entries.len()).run(calls).await).map(drop)
    }

    pub(super) async fn bring_back(
        &self,
        queue: &QueueKey,
        lane: &Lane,
        limit: usize,
    ) -> Result<usize, Error> {
        const DOING: &str = "bring parked entries back";
        let (keys, word, mut back) = (self.keys.ready(queue), lane_word(lane), 0);
        loop {
            let wanted = (limit - back).min(CALL_MAX);
            if wanted == 0 {
                return Ok(back);
            }
            let mut call = SCRIPTS.unpark.call(&[&keys.order, &keys.parked, &keys.whereabouts]);
            call.arg(&word).arg(wanted);
            let some = count(DOING, one(DOING, self.quick.run_one(call).await)?)?;
            back += some;
            if some < wanted {
                return Ok(back);
            }
        }
    }

    pub(super) async fn lanes_of(
        &self,
        queue: &QueueKey,
        after: Option<&Lane>,
        limit: usize,
    ) -> Result<Vec<(Lane, usize)>, Error> {
        const DOING: &str = "look at what is parked";
        let mut call = SCRIPTS.lanes.call(&[&self.keys.ready(queue).parked]);
        call.arg(limit.min(CALL_MAX)).arg(after.map_or_else(Vec::new, lane_word));
        let mut answer = list(DOING, one(DOING, self.bulk().run_one(call).await)?)?.into_iter();
        let mut lanes = Vec::new();
        while let (Some(word), Some(parked)) = (answer.next(), answer.next()) {
            if let Some(lane) = lane_of(&bytes(DOING, word)?) {
                lanes.push((lane, count(DOING, parked)?));
            }
        }
        Ok(lanes)
    }

    /// At most `wanted`, which is at most `CALL_MAX`.
    pub(super) async fn pop_ready(
        &self,
        queue: &QueueKey,
        admission: Admission,
        wanted: usize,
    ) -> Result<Popped, Error> {
        const DOING: &str = "admit entries";
        let keys = self.keys.ready(queue);
        let mut call = SCRIPTS.admit.call(&[&keys.order, &keys.tasks]);
        call.arg(wanted.min(CALL_MAX)).arg(admission.seed);
        let (percent, weights) = match admission.chooser.choice {
            Choice::HighestFirst { percent } => (i32::from(percent), [0; 5]),
            Choice::Weights { weights } => (-1, weights.map(|it| it.min(WEIGHT_MAX))),
        };
        call.arg(percent).arg(&weights).arg(admission.chooser.share());
        let records = list(DOING, one(DOING, self.quick.run_one(call).await)?)?;
        let (count, mut reader, mut entries) = (records.len(), Reader::default(), Vec::new());
        for it in records {
            match reader.record(&bytes(DOING, it)?) {
                Some(entry) => entries.push(entry),
                None => {
                    tracing::error!("a ready entry cannot be read; its partition's owner offers it again")
                }
            }
        }
        Ok(Popped { count, entries })
    }

    pub(super) async fn leave_ready(&self, entries: &[HotEntry]) -> Result<(), Error> {
        let mut calls = Vec::new();
        for (queue, entries) in by_queue(entries) {
            let keys = self.keys.ready(&queue);
            for entries in entries.chunks(WRITE_MAX) {
                let mut call = SCRIPTS.discard.call(&keys.all());
                for it in entries {
                    call.arg(&ordered(it.task_id)).arg(&ordered(it.place.id)).arg(&ordered(it.fence));
                }
                calls.push(call);
            }
        }
        all("take entries out of ready sets", self.link_for(entries.len()).run(calls).await).map(drop)
    }

    /// Queues with something ready, in order, and those with something parked. Strikes off those that have nothing.
    pub(super) async fn depth_of_queues(&self) -> Result<[Vec<(Arc<QueueKey>, usize)>; 2], Error> {
        const DOING: &str = "count what is ready";
        let mut members = redis::cmd("SMEMBERS");
        members.arg(self.keys.queues());
        let mut queues = Vec::new();
        for it in list(DOING, one(DOING, self.bulk().run_one(members).await)?)? {
            queues.extend(queue_of(&bytes(DOING, it)?));
        }
        let (mut depth, mut empty) = ([Vec::new(), Vec::new()], Vec::new());
        for (queue, sizes) in queues.iter().zip(self.sizes(DOING, &queues).await?) {
            for (line, size) in depth.iter_mut().zip(sizes).filter(|(_, size)| *size > 0) {
                line.push((Arc::clone(queue), size));
            }
            if sizes == [0, 0] {
                empty.push(Arc::clone(queue));
            }
        }
        self.strike_off(DOING, &empty).await?;
        depth.iter_mut().for_each(|it| it.sort_unstable());
        Ok(depth)
    }

    /// In the order, and parked.
    async fn sizes(&self, doing: &'static str, queues: &[Arc<QueueKey>]) -> Result<Vec<[usize; 2]>, Error> {
        let both = |it: &Arc<QueueKey>| {
            let keys = self.keys.ready(it);
            [size_of(&keys.order), size_of(&keys.parked)]
        };
        let calls = queues.iter().flat_map(both).collect();
        let (mut sizes, mut answers) = (Vec::new(), all(doing, self.bulk().run(calls).await)?.into_iter());
        while let (Some(ready), Some(parked)) = (answers.next(), answers.next()) {
            sizes.push([count(doing, ready)?, count(doing, parked)?]);
        }
        Ok(sizes)
    }

    /// An offer may have come between: then the queue is written down again, by it or by this.
    async fn strike_off(&self, doing: &'static str, empty: &[Arc<QueueKey>]) -> Result<(), Error> {
        if empty.is_empty() {
            return Ok(());
        }
        let words = |queues: &[Arc<QueueKey>]| queues.iter().map(|it| queue_word(it)).collect::<Vec<_>>();
        let mut strike = redis::cmd("SREM");
        strike.arg(self.keys.queues()).arg(words(empty));
        one(doing, self.bulk().run_one(strike).await)?;
        let filled = empty.iter().zip(self.sizes(doing, empty).await?).filter(|(_, sizes)| *sizes != [0, 0]);
        let filled: Vec<_> = filled.map(|(queue, _)| Arc::clone(queue)).collect();
        if !filled.is_empty() {
            let mut note = SCRIPTS.note.call(&[&self.keys.queues()]);
            note.arg(words(&filled));
            one(doing, self.bulk().run_one(note).await)?;
        }
        Ok(())
    }
}

fn by_queue(entries: &[HotEntry]) -> HashMap<Arc<QueueKey>, Vec<&HotEntry>> {
    let mut queues: HashMap<Arc<QueueKey>, Vec<&HotEntry>> = HashMap::new();
    for it in entries {
        queues.entry(Arc::clone(&it.queue)).or_default().push(it);
    }
    queues
}

fn queue_of(word: &[u8]) -> Option<Arc<QueueKey>> {
    let (namespace, queue) = str::from_utf8(word).ok()?.split_once('/')?;
    Some(Arc::new(QueueKey { namespace: Name::new(namespace).ok()?, queue: Name::new(queue).ok()? }))
}
