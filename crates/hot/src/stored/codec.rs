//! A limiter as bytes: MessagePack behind one byte of format. Each scope is written once. The same limiter is written alike each
//! time, so that two can be compared.

use crate::limiter::MemoryLimiterState;
use punctual_contract::limiter::{Demand, Held, Member, Rebuilding};
use punctual_domain::{
    limits::{Bucket, Flow, Scope},
    name::{Name, QueueKey},
    place::{Partition, TaskRef},
    time::Millis,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const FORMAT: u8 = 1;

/// The number of its scope; limit, period, burst; units, period, at.
type WireBucket = (u32, (i64, i64, i64), (i64, i64, i64));

#[derive(Default, Serialize, Deserialize)]
struct WireState {
    is_whole: bool,
    rebuilding: Option<u64>,
    scopes: Vec<String>,
    members: Vec<WireHeld>,
    buckets: Vec<WireBucket>,
    demands: Vec<(String, i64, Vec<WireDemand>)>,
}

#[derive(Serialize, Deserialize)]
struct WireHeld {
    member: (i64, i64),
    /// Partition, due time, id.
    place: (u16, i64, i64),
    granted_at: i64,
    until: i64,
    /// The scopes, by their indexes in the list of scopes.
    scopes: Vec<u32>,
}

#[derive(Serialize, Deserialize)]
struct WireDemand(String, String, bool, bool, u64);

/// Numbers of scopes, in the order in which they are first named.
#[derive(Default)]
struct Numbers<'s> {
    by_scope: BTreeMap<&'s Scope, u32>,
    words: Vec<String>,
}

impl<'s> Numbers<'s> {
    fn of(&mut self, scope: &'s Scope) -> u32 {
        *self.by_scope.entry(scope).or_insert_with(|| {
            self.words.push(scope.word());
            u32::try_from(self.words.len() - 1).unwrap_or(u32::MAX)
        })
    }
}

pub(super) fn write(inner: &MemoryLimiterState) -> Vec<u8> {
    let mut numbers = Numbers::default();
    let mut members = Vec::with_capacity(inner.members.len());
    for held in inner.in_order() {
        members.push(WireHeld {
            member: (held.member.id, held.member.fence),
            place: (held.place.partition.0, held.place.due_at.0, held.place.id),
            granted_at: held.granted_at.0,
            until: held.until.0,
            scopes: held.scopes.iter().map(|scope| numbers.of(scope)).collect(),
        });
    }
    let mut buckets = Vec::with_capacity(inner.buckets.len());
    for (scope, (flow, bucket)) in &inner.buckets {
        let (units, period_ms, at) = bucket.kept();
        let flow = (flow.limit, flow.period_ms, flow.burst);
        buckets.push((numbers.of(scope), flow, (units, period_ms, at.0)));
    }
    let demand = |demand: &Demand| {
        let QueueKey { namespace, queue } = &demand.queue;
        let names = (namespace.to_string(), queue.to_string());
        WireDemand(names.0, names.1, demand.short_of_slots, demand.short_of_starts, demand.starts_per_ks)
    };
    let said = inner.demands.iter();
    let demands = said
        .map(|(engine, (at, demands))| (engine.clone(), at.0, demands.iter().map(demand).collect()))
        .collect();
    let rebuilding = inner.rebuilding.map(|who| who.0);
    let wire =
        WireState { is_whole: inner.is_whole, rebuilding, scopes: numbers.words, members, buckets, demands };
    let mut value = vec![FORMAT];
    rmp_serde::encode::write(&mut value, &wire).expect("numbers and names are written to memory");
    value
}

/// Returns `None` for another format. An empty value was never written.
pub(super) fn read(value: &[u8]) -> Option<MemoryLimiterState> {
    let wire: WireState = match value {
        [] => WireState::default(),
        [FORMAT, rest @ ..] => rmp_serde::from_slice(rest).ok()?,
        _ => return None,
    };
    let scopes: Vec<Scope> = wire.scopes.iter().map(|word| Scope::from_word(word)).collect::<Option<_>>()?;
    let scope = |nth: u32| scopes.get(usize::try_from(nth).ok()?).cloned();
    let rebuilding = wire.rebuilding.map(Rebuilding);
    let mut inner = MemoryLimiterState::default();
    (inner.is_whole, inner.rebuilding) = (wire.is_whole, rebuilding);
    for member in wire.members {
        let (partition, due_at, id) = member.place;
        inner.hold(Held {
            member: Member { id: member.member.0, fence: member.member.1 },
            place: TaskRef { partition: Partition(partition), due_at: Millis(due_at), id },
            granted_at: Millis(member.granted_at),
            until: Millis(member.until),
            scopes: member.scopes.into_iter().map(scope).collect::<Option<_>>()?,
        });
    }
    for (nth, (limit, period_ms, burst), (units, bucket_period_ms, at)) in wire.buckets {
        let bucket = Bucket::of_kept(units, bucket_period_ms, Millis(at));
        inner.buckets.insert(scope(nth)?, (Flow { limit, period_ms, burst }, bucket));
    }
    for (engine, at, demands) in wire.demands {
        let demands = demands.into_iter().map(demand).collect::<Option<_>>()?;
        inner.demands.insert(engine, (Millis(at), demands));
    }
    Some(inner)
}

fn demand(wire: WireDemand) -> Option<Demand> {
    let WireDemand(namespace, queue, short_of_slots, short_of_starts, starts_per_ks) = wire;
    let queue = QueueKey { namespace: Name::new(&namespace).ok()?, queue: Name::new(&queue).ok()? };
    Some(Demand { queue, short_of_slots, short_of_starts, starts_per_ks })
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_contract::limiter::{Flowing, Limit, SlotRequest, Verdict};
    use punctual_domain::settings::Rate;

    fn queue() -> QueueKey {
        QueueKey { namespace: Name::default_namespace(), queue: Name::new("mail").unwrap() }
    }

    fn request(id: i64) -> SlotRequest {
        let scope = Scope::Key(queue(), format!("é/{}", id % 2));
        SlotRequest {
            member: Member { id, fence: 2 },
            place: TaskRef { partition: Partition(7), due_at: Millis(-id), id },
            until: Millis(id * 10),
            limits: vec![
                Limit { scope: Scope::Queue(queue()), most: 3 },
                Limit { scope: scope.clone(), most: 9 },
            ],
            rates: vec![Flowing { scope, rate: Rate { limit: 1, period_ms: 1_000, burst: 5 } }],
        }
    }

    #[test]
    fn a_limiter_comes_back_as_it_went_and_is_written_alike() {
        let mut inner = MemoryLimiterState::default();
        (inner.is_whole, inner.rebuilding) = (true, Some(Rebuilding(u64::MAX)));
        let answers = inner.grant_all((1..=4).map(request), Millis(100), Millis(200));
        assert_eq!(answers[..3], [const { Verdict::Granted }; 3]);
        assert_eq!(answers[3], Verdict::Blocked(Scope::Queue(queue())));
        let short = Demand { queue: queue(), short_of_slots: true, short_of_starts: false, starts_per_ks: 9 };
        inner.demands("e1", std::slice::from_ref(&short), Millis(5));
        let value = write(&inner);
        let mut back = read(&value).unwrap();
        assert_eq!(write(&back), value);
        assert_eq!(back.demands("e2", &[], Millis(6)), [short]);
        // It continues from there: one place is free again, for one.
        assert_eq!(back.release(Member { id: 2, fence: 2 }).unwrap().granted_at, Millis(100));
        let answers = back.grant_all((5..=6).map(request), Millis(300), Millis(200));
        assert!(answers[0] == Verdict::Granted && answers[1] != Verdict::Granted, "{answers:?}");
    }

    #[test]
    fn nothing_written_is_a_limiter_that_has_lost_its_members_and_another_format_is_refused() {
        assert!(!read(&[]).unwrap().is_whole);
        let value = write(&MemoryLimiterState::default());
        assert!(read(&[&[FORMAT + 1], &value[1..]].concat()).is_none());
        assert!(read(&value[..value.len() - 1]).is_none());
    }
}
