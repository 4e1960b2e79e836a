//! The limiter in Redis, shared by many engines. All of its keys are in one slot, so that global, namespace,
//! queue and key limits are checked in one atomic step. Does not know due tasks.

use super::{
    CALL_MAX, RedisHot,
    codec::{number, ordered},
    identity::Guarded,
    partition::{bytes, count, list, one},
    problem::{Failure, all},
    script::SCRIPTS,
};
use async_trait::async_trait;
use hashbrown::HashMap;
use punctual_contract::{
    Error, Limiter,
    limiter::{
        DEMANDS_KNOWN_MS, Demand, Flowing, Held, Holders, Limit, Member, Rebuilding, Room, SlotRequest,
        Verdict,
    },
};
use punctual_domain::{
    limits::{Flow, Scope},
    name::{Name, QueueKey},
    place::{Partition, TaskRef},
    time::Millis,
};
use redis::{Cmd, Value};
use serde::{Deserialize, Serialize};
use std::{sync::Arc, vec::IntoIter};

/// Requests in one call: about 4 ms of Redis.
const GRANT_MAX: usize = 500;

/// The clock on which rates run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateClock {
    /// Redis's own: one for all engines, however theirs differ.
    Server,
    /// The caller's time: for callers that move time manually.
    Caller,
}

#[derive(Debug)]
struct LimitKeys {
    whole: String,
    members: String,
    until: String,
    holds: String,
    buckets: String,
    demands: String,
}

#[derive(Debug)]
pub struct RedisLimiter {
    link: Arc<Guarded>,
    keys: LimitKeys,
    clock: RateClock,
}

impl RedisHot {
    /// The limiter of this prefix, over the connection for urgent calls.
    #[must_use]
    pub fn limiter(&self, clock: RateClock) -> RedisLimiter {
        let key = |what| self.keys.limits(what);
        let [whole, members, until, holds, buckets, demands] =
            ["whole", "members", "until", "holds", "buckets", "demands"].map(key);
        let keys = LimitKeys { whole, members, until, holds, buckets, demands };
        RedisLimiter { link: Arc::clone(&self.quick), keys, clock }
    }
}

fn word_of(scope: &Scope) -> Vec<u8> {
    let text = scope.word();
    let mut word = u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes().to_vec();
    word.extend(text.as_bytes());
    word
}

fn member_of(this_member: Member) -> [u8; 16] {
    let mut member = [0; 16];
    let (id, fence) = member.split_at_mut(8);
    id.copy_from_slice(&ordered(this_member.id));
    fence.copy_from_slice(&ordered(this_member.fence));
    member
}

fn read_member(bytes: &[u8]) -> Option<Member> {
    Some(Member { id: number(bytes.get(..8)?)?, fence: number(bytes.get(8..16)?)? })
}

/// 26 bytes: granted_at, partition, due_at, id; then the scopes, as the scripts read them.
fn record_of<'a>(
    place: TaskRef,
    granted_at: Millis,
    scopes: impl ExactSizeIterator<Item = &'a Scope>,
) -> Vec<u8> {
    let mut record = Vec::with_capacity(96);
    record.extend(ordered(granted_at.0));
    record.extend(place.partition.0.to_be_bytes());
    record.extend(ordered(place.due_at.0));
    record.extend(ordered(place.id));
    record.extend(u16::try_from(scopes.len()).unwrap_or(u16::MAX).to_be_bytes());
    scopes.for_each(|scope| record.extend(word_of(scope)));
    record
}

fn read_record(member: Member, until: Millis, record: &[u8]) -> Option<Held> {
    let partition = Partition(u16::from_be_bytes(record.get(8..10)?.try_into().ok()?));
    let due_at = Millis(number(record.get(10..18)?)?);
    let place = TaskRef { partition, due_at, id: number(record.get(18..26)?)? };
    let (mut scopes, mut rest) = (Vec::new(), record.get(28..)?);
    while let Some((length, more)) = rest.split_first_chunk::<2>() {
        let (word, more) = more.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        scopes.push(Scope::from_word(str::from_utf8(word).ok()?)?);
        rest = more;
    }
    Some(Held { member, place, granted_at: Millis(number(record.get(..8)?)?), until, scopes })
}

/// The limits and rates in the requests of one call, each once.
#[derive(Default)]
struct Named<'a> {
    limits: Vec<&'a Limit>,
    rates: Vec<&'a Flowing>,
    limit_numbers: HashMap<&'a Scope, u16>,
    rate_numbers: HashMap<&'a Scope, u16>,
}

impl<'a> Named<'a> {
    fn of(requests: &'a [SlotRequest]) -> Self {
        let mut named = Self::default();
        for limit in requests.iter().flat_map(|request| &request.limits) {
            let next = u16::try_from(named.limits.len() + 1).unwrap_or(u16::MAX);
            named.limit_numbers.entry(&limit.scope).or_insert_with(|| {
                named.limits.push(limit);
                next
            });
        }
        for rate in requests.iter().flat_map(|request| &request.rates) {
            let next = u16::try_from(named.rates.len() + 1).unwrap_or(u16::MAX);
            named.rate_numbers.entry(&rate.scope).or_insert_with(|| {
                named.rates.push(rate);
                next
            });
        }
        named
    }
}

fn name_limits<'a>(call: &mut Cmd, limits: impl ExactSizeIterator<Item = &'a Limit>) {
    call.arg(limits.len());
    limits.for_each(|limit| {
        call.arg(word_of(&limit.scope)).arg(limit.most);
    });
}

fn name_rate(call: &mut Cmd, rate: &Flowing) {
    let flow = Flow::of(rate.rate);
    call.arg(rate.scope.word()).arg(flow.limit).arg(flow.period_ms).arg(flow.burst);
}

fn numbers<'a>(named: &HashMap<&Scope, u16>, scopes: impl Iterator<Item = &'a Scope>) -> Vec<u8> {
    scopes.filter_map(|scope| named.get(scope)).flat_map(|number| number.to_be_bytes()).collect()
}

impl RedisLimiter {
    fn now(&self, now: Millis) -> String {
        match self.clock {
            RateClock::Server => String::new(),
            RateClock::Caller => now.0.to_string(),
        }
    }

    fn grant_call(&self, requests: &[SlotRequest], named: &Named<'_>, now: Millis) -> Cmd {
        let keys = &self.keys;
        let keys = [&*keys.whole, &keys.members, &keys.until, &keys.holds, &keys.buckets];
        let mut call = SCRIPTS.limit_grant.call(&keys);
        call.arg(self.now(now));
        name_limits(&mut call, named.limits.iter().copied());
        call.arg(named.rates.len());
        named.rates.iter().for_each(|rate| name_rate(&mut call, rate));
        for request in requests {
            let scopes = request.limits.iter().map(|limit| &limit.scope);
            call.arg(&member_of(request.member)).arg(request.until.0);
            call.arg(numbers(&named.limit_numbers, scopes.clone()));
            call.arg(numbers(&named.rate_numbers, request.rates.iter().map(|rate| &rate.scope)));
            call.arg(record_of(request.place, now, scopes));
        }
        call
    }

    async fn grant_some(&self, requests: &[SlotRequest], now: Millis) -> Result<Vec<Verdict>, Error> {
        const DOING: &str = "grant slots";
        let named = Named::of(requests);
        let answer = one(DOING, self.link.run_one(self.grant_call(requests, &named, now)).await)?;
        let answer = whole_numbers(DOING, answer)?;
        if answer.is_empty() {
            return Ok(vec![Verdict::NotWhole; requests.len()]);
        }
        let named_by = |code: i64| usize::try_from(code.abs() - 1).unwrap_or(usize::MAX);
        let (codes, _) = answer.as_chunks::<2>();
        let answers = codes.iter().map(|[code, wait_ms]| match code.signum() {
            0 => Some(Verdict::Granted),
            1 => named.limits.get(named_by(*code)).map(|limit| Verdict::Blocked(limit.scope.clone())),
            _ => {
                let scope = named.rates.get(named_by(*code)).map(|rate| rate.scope.clone());
                scope.map(|scope| Verdict::Throttled { scope, wait_ms: (*wait_ms >= 0).then_some(*wait_ms) })
            }
        });
        let answers: Option<Vec<Verdict>> = answers.collect();
        let is_whole = |answers: &Vec<Verdict>| answers.len() == requests.len();
        answers.filter(is_whole).ok_or_else(|| Failure::answer("an answer a wish").into_error(DOING))
    }

    /// Each only if it was granted at that time.
    async fn give_up(
        &self,
        members: impl ExactSizeIterator<Item = (Member, Option<Millis>)> + Send,
    ) -> Result<Vec<Option<Held>>, Error> {
        const DOING: &str = "give slots up";
        let members: Vec<_> = members.collect();
        let mut answers = Vec::with_capacity(members.len());
        for some in members.chunks(CALL_MAX) {
            let keys = [&*self.keys.members, &self.keys.until, &self.keys.holds];
            let mut call = SCRIPTS.limit_release.call(&keys);
            for (member, granted_at) in some {
                call.arg(&member_of(*member));
                match granted_at {
                    Some(at) => call.arg(&ordered(at.0)),
                    None => call.arg(""),
                };
            }
            let mut answer = list(DOING, one(DOING, self.link.run_one(call).await)?)?.into_iter();
            for (member, _) in some {
                let held = match (answer.next(), answer.next()) {
                    (Some(Value::BulkString(record)), Some(Value::BulkString(until))) => {
                        text_number(&until).and_then(|until| read_record(*member, until, &record))
                    }
                    _ => None,
                };
                answers.push(held);
            }
        }
        Ok(answers)
    }

    /// Runs the script. `question` is one of its commands: look, begin, end.
    async fn ask_whole(
        &self,
        doing: &'static str,
        question: &str,
        who: Option<Rebuilding>,
    ) -> Result<bool, Error> {
        let mut call = SCRIPTS.limit_whole.call(&[&self.keys.whole]);
        call.arg(question).arg(who.map(|rebuilding| rebuilding.0));
        Ok(count(doing, one(doing, self.link.run_one(call).await)?)? > 0)
    }

    /// The command that reads the holders of a scope, at most `limit` of them.
    fn ask_holders(&self, scope: &Scope, limit: usize) -> Cmd {
        let keys = [&*self.keys.members, &self.keys.until, &self.keys.holds];
        let mut call = SCRIPTS.limit_holders.call(&keys);
        call.arg(word_of(scope)).arg(limit.min(CALL_MAX));
        call
    }

    /// The number of holders, followed by some of them.
    fn count_of(doing: &'static str, answer: Value) -> Result<(usize, IntoIter<Value>), Error> {
        let mut answer = list(doing, answer)?.into_iter();
        let count = answer.next().map_or(Ok(0), |number| count(doing, number))?;
        Ok((count, answer))
    }

    /// `answer`: member, record and until in turn. Unreadable records are left to the next rebuild.
    fn held(doing: &'static str, answer: impl Iterator<Item = Value>) -> Result<Vec<Held>, Error> {
        let (mut answer, mut found) = (answer, Vec::new());
        while let (Some(member), Some(record), Some(until)) = (answer.next(), answer.next(), answer.next()) {
            let (member, record) = (bytes(doing, member)?, bytes(doing, record)?);
            let until = text_number(&bytes(doing, until)?);
            let held = read_member(&member)
                .zip(until)
                .and_then(|(member, until)| read_record(member, until, &record));
            match held {
                Some(held) => found.push(held),
                None => tracing::error!("a member of the limiter cannot be read"),
            }
        }
        Ok(found)
    }
}

/// Demands that engines report. Those of another format are ignored.
const DEMANDS_FORMAT: u8 = 1;

#[derive(Serialize, Deserialize)]
struct WireDemand(String, String, bool, bool, u64);

fn write_demands(seen: &[Demand]) -> Vec<u8> {
    let wire = |demand: &Demand| {
        let QueueKey { namespace, queue } = &demand.queue;
        let names = (namespace.to_string(), queue.to_string());
        WireDemand(names.0, names.1, demand.short_of_slots, demand.short_of_starts, demand.starts_per_ks)
    };
    let wire: Vec<WireDemand> = seen.iter().map(wire).collect();
    let mut said = vec![DEMANDS_FORMAT];
    rmp_serde::encode::write(&mut said, &wire).expect("numbers and names are written to memory");
    said
}

fn read_demands(said: &[u8]) -> Vec<Demand> {
    let [DEMANDS_FORMAT, said @ ..] = said else { return Vec::new() };
    let wire: Vec<WireDemand> = rmp_serde::from_slice(said).unwrap_or_default();
    let demand = |WireDemand(namespace, queue, short_of_slots, short_of_starts, starts_per_ks)| {
        let queue = QueueKey { namespace: Name::new(&namespace).ok()?, queue: Name::new(&queue).ok()? };
        Some(Demand { queue, short_of_slots, short_of_starts, starts_per_ks })
    };
    wire.into_iter().filter_map(demand).collect()
}

fn text_number(text: &[u8]) -> Option<Millis> {
    str::from_utf8(text).ok()?.parse().ok().map(Millis)
}

fn whole_numbers(doing: &'static str, answer: Value) -> Result<Vec<i64>, Error> {
    let number = |record| match record {
        Value::Int(number) => Ok(number),
        _ => Err(Failure::answer("numbers").into_error(doing)),
    };
    list(doing, answer)?.into_iter().map(number).collect()
}

#[async_trait]
impl Limiter for RedisLimiter {
    async fn grant(&self, requests: Vec<SlotRequest>, now: Millis) -> Result<Vec<Verdict>, Error> {
        let mut answers = Vec::with_capacity(requests.len());
        for some in requests.chunks(GRANT_MAX) {
            answers.extend(self.grant_some(some, now).await?);
        }
        Ok(answers)
    }

    async fn room(&self, limits: &[Limit], rates: &[Flowing], now: Millis) -> Result<Room, Error> {
        const DOING: &str = "look for room";
        let mut call = SCRIPTS.limit_room.call(&[&self.keys.whole, &self.keys.holds, &self.keys.buckets]);
        call.arg(self.now(now));
        name_limits(&mut call, limits.iter());
        rates.iter().for_each(|rate| name_rate(&mut call, rate));
        let answer = whole_numbers(DOING, one(DOING, self.link.run_one(call).await)?)?;
        if answer.is_empty() && limits.len() + rates.len() > 0 {
            return Ok(Room { free: 0, bound: Some(Verdict::NotWhole) });
        }
        let (mut room, mut answer) = (Room { free: usize::MAX, bound: None }, answer.into_iter());
        for (limit, held) in limits.iter().zip(answer.by_ref()) {
            let free = usize::try_from(i64::from(limit.most) - held).unwrap_or(0);
            room.narrow(free, || Verdict::Blocked(limit.scope.clone()));
        }
        for rate in rates {
            let (Some(starts), Some(wait_ms)) = (answer.next(), answer.next()) else { break };
            let wait_ms = (wait_ms >= 0).then_some(wait_ms);
            let throttled = || Verdict::Throttled { scope: rate.scope.clone(), wait_ms };
            room.narrow(usize::try_from(starts).unwrap_or(0), throttled);
        }
        Ok(room)
    }

    async fn release(&self, members: &[Member]) -> Result<Vec<Option<Held>>, Error> {
        self.give_up(members.iter().map(|member| (*member, None))).await
    }

    async fn retract(&self, granted: &[(Member, Millis)]) -> Result<Vec<Option<Held>>, Error> {
        self.give_up(granted.iter().map(|(member, at)| (*member, Some(*at)))).await
    }

    async fn prolong(&self, members: &[(Member, Millis)]) -> Result<(), Error> {
        let mut calls = Vec::new();
        for some in members.chunks(CALL_MAX) {
            let mut call = SCRIPTS.limit_prolong.call(&[&self.keys.until]);
            some.iter().for_each(|(member, until)| {
                call.arg(&member_of(*member)).arg(until.0);
            });
            calls.push(call);
        }
        all("prolong slots", self.link.run(calls).await).map(drop)
    }

    async fn restore(&self, held: Vec<Held>) -> Result<(), Error> {
        let mut calls = Vec::new();
        for some in held.chunks(GRANT_MAX) {
            let keys = [&*self.keys.members, &self.keys.until, &self.keys.holds];
            let mut call = SCRIPTS.limit_restore.call(&keys);
            some.iter().for_each(|held| {
                call.arg(&member_of(held.member)).arg(held.until.0);
                call.arg(record_of(held.place, held.granted_at, held.scopes.iter()));
            });
            calls.push(call);
        }
        all("restore slots", self.link.run(calls).await).map(drop)
    }

    async fn members(&self, until: Millis, skip: usize, limit: usize) -> Result<Vec<Held>, Error> {
        const DOING: &str = "look at who holds slots";
        let mut call = SCRIPTS.limit_members.call(&[&self.keys.members, &self.keys.until]);
        call.arg(until.0).arg(skip).arg(limit.min(CALL_MAX));
        let answer = list(DOING, one(DOING, self.link.run_one(call).await)?)?;
        Self::held(DOING, answer.into_iter())
    }

    async fn find(&self, members: &[Member]) -> Result<Vec<Held>, Error> {
        const DOING: &str = "look at what attempts hold";
        let mut found = Vec::new();
        for some in members.chunks(CALL_MAX) {
            let mut call = SCRIPTS.limit_find.call(&[&self.keys.members, &self.keys.until]);
            some.iter().for_each(|member| {
                call.arg(&member_of(*member));
            });
            let answer = list(DOING, one(DOING, self.link.run_one(call).await)?)?;
            found.extend(Self::held(DOING, answer.into_iter())?);
        }
        Ok(found)
    }

    async fn holders(&self, scope: &Scope, limit: usize) -> Result<Holders, Error> {
        const DOING: &str = "look at who holds a scope";
        let answer = one(DOING, self.link.run_one(self.ask_holders(scope, limit)).await)?;
        let (count, first) = Self::count_of(DOING, answer)?;
        Ok(Holders { count, first: Self::held(DOING, first)? })
    }

    async fn held(&self, scopes: &[Scope]) -> Result<Vec<usize>, Error> {
        const DOING: &str = "count who holds scopes";
        let mut held = Vec::with_capacity(scopes.len());
        for some in scopes.chunks(CALL_MAX) {
            let calls = some.iter().map(|scope| self.ask_holders(scope, 0)).collect();
            for answer in all(DOING, self.link.run(calls).await)? {
                held.push(Self::count_of(DOING, answer)?.0);
            }
        }
        Ok(held)
    }

    async fn demands(&self, engine: &str, seen: &[Demand], now: Millis) -> Result<Vec<Demand>, Error> {
        const DOING: &str = "tell of demands";
        let mut call = SCRIPTS.limit_demands.call(&[&self.keys.demands]);
        call.arg(self.now(now)).arg(engine).arg(write_demands(seen)).arg(DEMANDS_KNOWN_MS);
        let mut all = Vec::new();
        for entry in list(DOING, one(DOING, self.link.run_one(call).await)?)? {
            all.extend(read_demands(&bytes(DOING, entry)?));
        }
        Ok(all)
    }

    async fn is_whole(&self) -> Result<bool, Error> {
        self.ask_whole("look whether slots were lost", "look", None).await
    }

    async fn begin_anew(&self, who: Rebuilding) -> Result<(), Error> {
        self.ask_whole("begin to restore slots", "begin", Some(who)).await.map(drop)
    }

    async fn make_whole(&self, who: Rebuilding) -> Result<bool, Error> {
        self.ask_whole("note that all slots are restored", "end", Some(who)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demands_come_back_as_they_went_and_others_are_passed_over() {
        let queue = QueueKey { namespace: Name::default_namespace(), queue: Name::new("mail").unwrap() };
        let demand = |short_of_slots| Demand {
            queue: queue.clone(),
            short_of_slots,
            short_of_starts: !short_of_slots,
            starts_per_ks: u64::MAX,
        };
        let seen = [demand(true), demand(false)];
        let said = write_demands(&seen);
        assert_eq!(read_demands(&said), seen);
        assert_eq!(read_demands(&said[..said.len() - 1]), []);
        assert_eq!(read_demands(&[&[DEMANDS_FORMAT + 1], &said[1..]].concat()), []);
    }

    #[test]
    fn a_record_comes_back_as_it_went() {
        let queue = QueueKey { namespace: Name::default_namespace(), queue: Name::new("mail").unwrap() };
        let held = Held {
            member: Member { id: i64::MIN, fence: 7 },
            place: TaskRef { partition: Partition(513), due_at: Millis(-1), id: i64::MIN },
            granted_at: Millis(3),
            until: Millis(9),
            scopes: vec![Scope::Everything, Scope::Key(queue, "é/".to_owned())],
        };
        let record = record_of(held.place, held.granted_at, held.scopes.iter());
        assert_eq!(read_record(held.member, held.until, &record), Some(held.clone()));
        assert_eq!(read_member(&member_of(held.member)), Some(held.member));
        assert_eq!(read_record(held.member, held.until, &record[..record.len() - 1]), None);
    }
}
