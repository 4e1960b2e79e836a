//! The limiter in memory, for engines of one process. Each method holds one lock, so a grant is all or
//! nothing. Every method completes at its first poll. The limiter in the store also computes with
//! `MemoryLimiterState`.

use async_trait::async_trait;
use parking_lot::Mutex;
use punctual_contract::{
    Error, Limiter,
    limiter::{
        DEMANDS_KNOWN_MS, Demand, Flowing, Held, Holders, Limit, Member, Rebuilding, Room, SlotRequest,
        Verdict,
    },
};
use punctual_domain::{
    limits::{Bucket, Flow, Scope},
    time::Millis,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The number of buckets that are always stored. Beyond that, full ones are dropped: a missing bucket counts as full.
/// Callers may invent concurrency keys without bound.
const BUCKETS_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub struct MemoryLimiter {
    inner: Mutex<MemoryLimiterState>,
}

/// Members, buckets and demands of a limiter.
#[derive(Debug, Default)]
pub(crate) struct MemoryLimiterState {
    pub(crate) is_whole: bool,
    pub(crate) rebuilding: Option<Rebuilding>,
    pub(crate) members: HashMap<Member, Held>,
    until: BTreeSet<(Millis, Member)>,
    holders: HashMap<Scope, BTreeSet<Member>>,
    pub(crate) buckets: BTreeMap<Scope, (Flow, Bucket)>,
    /// Buckets that were not full at the last cleanup.
    in_use: usize,
    /// The demands by engine, with the time of the report.
    pub(crate) demands: BTreeMap<String, (Millis, Vec<Demand>)>,
}

impl MemoryLimiterState {
    /// `clock`: of the rates.
    fn grant(&mut self, request: SlotRequest, now: Millis, clock: Millis) -> Verdict {
        if let Some(held) = self.members.get(&request.member) {
            let granted_at = now.max(held.granted_at.plus(1));
            self.hold(Held { granted_at, until: request.until, ..held.clone() });
            return Verdict::Granted;
        }
        if let Some(limit) = request.limits.iter().find(|limit| self.left(limit) == 0) {
            return Verdict::Blocked(limit.scope.clone());
        }
        let mut buckets: Vec<(Scope, (Flow, Bucket))> = Vec::with_capacity(request.rates.len());
        for rate in request.rates {
            let (flow, mut bucket) = self.bucket(&rate, clock);
            let wait_ms = bucket.wait_ms(flow);
            if !bucket.take() {
                return Verdict::Throttled { scope: rate.scope, wait_ms };
            }
            buckets.push((rate.scope, (flow, bucket)));
        }
        self.buckets.extend(buckets);
        self.forget_full(clock);
        let scopes: Vec<Scope> = request.limits.into_iter().map(|limit| limit.scope).collect();
        if !scopes.is_empty() {
            let SlotRequest { member, place, until, .. } = request;
            self.hold(Held { member, place, granted_at: now, until, scopes });
        }
        Verdict::Granted
    }

    fn left(&self, limit: &Limit) -> usize {
        let held = self.holders.get(&limit.scope).map_or(0, BTreeSet::len);
        usize::try_from(limit.most).unwrap_or(usize::MAX).saturating_sub(held)
    }

    fn bucket(&self, flowing: &Flowing, now: Millis) -> (Flow, Bucket) {
        let flow = Flow::of(flowing.rate);
        let standing = self.buckets.get(&flowing.scope).map(|bucket| bucket.1);
        (flow, standing.unwrap_or_else(|| Bucket::full(flow, now)).at(flow, now))
    }

    /// Repeated only after as many new buckets as are in use.
    fn forget_full(&mut self, now: Millis) {
        if self.buckets.len() > BUCKETS_MAX.max(2 * self.in_use) {
            self.drop_full(now);
            self.in_use = self.buckets.len();
        }
    }

    /// A full bucket equals a missing one.
    pub(crate) fn drop_full(&mut self, now: Millis) {
        self.buckets.retain(|_, (flow, bucket)| bucket.at(*flow, now) != Bucket::full(*flow, now));
    }

    pub(crate) fn hold(&mut self, held: Held) {
        self.release(held.member);
        for scope in &held.scopes {
            self.holders.entry(scope.clone()).or_default().insert(held.member);
        }
        self.until.insert((held.until, held.member));
        self.members.insert(held.member, held);
    }

    pub(crate) fn release(&mut self, member: Member) -> Option<Held> {
        let held = self.members.remove(&member)?;
        self.until.remove(&(held.until, member));
        for scope in &held.scopes {
            if let Some(holders) = self.holders.get_mut(scope) {
                holders.remove(&member);
                if holders.is_empty() {
                    self.holders.remove(scope);
                }
            }
        }
        Some(held)
    }

    pub(crate) fn room(&self, limits: &[Limit], rates: &[Flowing], now: Millis) -> Room {
        let mut room = Room { free: usize::MAX, bound: None };
        if !self.is_whole {
            return Room { free: 0, bound: Some(Verdict::NotWhole) };
        }
        for limit in limits {
            room.narrow(self.left(limit), || Verdict::Blocked(limit.scope.clone()));
        }
        for rate in rates {
            let (flow, bucket) = self.bucket(rate, now);
            let (scope, wait_ms) = (&rate.scope, bucket.wait_ms(flow));
            let starts = usize::try_from(bucket.starts()).unwrap_or(0);
            room.narrow(starts, || Verdict::Throttled { scope: scope.clone(), wait_ms });
        }
        room
    }

    /// One answer per request, in order; `clock`: of the rates.
    pub(crate) fn grant_all(
        &mut self,
        requests: impl Iterator<Item = SlotRequest>,
        now: Millis,
        clock: Millis,
    ) -> Vec<Verdict> {
        if !self.is_whole {
            return requests.map(|_| Verdict::NotWhole).collect();
        }
        requests.map(|request| self.grant(request, now, clock)).collect()
    }

    /// Each only if it was granted at that time.
    pub(crate) fn retract(&mut self, granted: &[(Member, Millis)]) -> Vec<Option<Held>> {
        let mut retract = |(member, at): &(Member, Millis)| {
            self.members.get(member).filter(|held| held.granted_at == *at)?;
            self.release(*member)
        };
        granted.iter().map(&mut retract).collect()
    }

    pub(crate) fn prolong(&mut self, members: &[(Member, Millis)]) {
        for (member, until) in members {
            if let Some(held) = self.release(*member) {
                self.hold(Held { until: *until, ..held });
            }
        }
    }

    /// All members, in the order in which they must be checked.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = &Held> {
        self.until.iter().filter_map(|at| self.members.get(&at.1))
    }

    pub(crate) fn members(&self, until: Millis, skip: usize, limit: usize) -> Vec<Held> {
        self.in_order().take_while(|held| held.until <= until).skip(skip).take(limit).cloned().collect()
    }

    pub(crate) fn find(&self, members: &[Member]) -> Vec<Held> {
        members.iter().filter_map(|member| self.members.get(member).cloned()).collect()
    }

    pub(crate) fn holders(&self, scope: &Scope, limit: usize) -> Holders {
        let Some(members) = self.holders.get(scope) else { return Holders::default() };
        let first = members.iter().take(limit).filter_map(|member| self.members.get(member).cloned());
        Holders { count: members.len(), first: first.collect() }
    }

    pub(crate) fn held(&self, scopes: &[Scope]) -> Vec<usize> {
        scopes.iter().map(|scope| self.holders.get(scope).map_or(0, BTreeSet::len)).collect()
    }

    pub(crate) fn demands(&mut self, engine: &str, seen: &[Demand], now: Millis) -> Vec<Demand> {
        self.demands.insert(engine.to_owned(), (now, seen.to_vec()));
        self.demands.retain(|_, (said_at, _)| now.since(*said_at) <= DEMANDS_KNOWN_MS);
        self.demands.values().flat_map(|said| said.1.iter().cloned()).collect()
    }

    pub(crate) fn make_whole(&mut self, who: Rebuilding) -> bool {
        self.is_whole |= self.rebuilding == Some(who);
        self.is_whole
    }
}

#[async_trait]
impl Limiter for MemoryLimiter {
    async fn grant(&self, requests: Vec<SlotRequest>, now: Millis) -> Result<Vec<Verdict>, Error> {
        Ok(self.inner.lock().grant_all(requests.into_iter(), now, now))
    }

    async fn room(&self, limits: &[Limit], rates: &[Flowing], now: Millis) -> Result<Room, Error> {
        Ok(self.inner.lock().room(limits, rates, now))
    }

    async fn release(&self, members: &[Member]) -> Result<Vec<Option<Held>>, Error> {
        let mut inner = self.inner.lock();
        Ok(members.iter().map(|member| inner.release(*member)).collect())
    }

    async fn retract(&self, granted: &[(Member, Millis)]) -> Result<Vec<Option<Held>>, Error> {
        Ok(self.inner.lock().retract(granted))
    }

    async fn prolong(&self, members: &[(Member, Millis)]) -> Result<(), Error> {
        self.inner.lock().prolong(members);
        Ok(())
    }

    async fn restore(&self, held: Vec<Held>) -> Result<(), Error> {
        let mut inner = self.inner.lock();
        held.into_iter().for_each(|held| inner.hold(held));
        Ok(())
    }

    async fn members(&self, until: Millis, skip: usize, limit: usize) -> Result<Vec<Held>, Error> {
        Ok(self.inner.lock().members(until, skip, limit))
    }

    async fn find(&self, members: &[Member]) -> Result<Vec<Held>, Error> {
        Ok(self.inner.lock().find(members))
    }

    async fn holders(&self, scope: &Scope, limit: usize) -> Result<Holders, Error> {
        Ok(self.inner.lock().holders(scope, limit))
    }

    async fn held(&self, scopes: &[Scope]) -> Result<Vec<usize>, Error> {
        Ok(self.inner.lock().held(scopes))
    }

    async fn demands(&self, engine: &str, seen: &[Demand], now: Millis) -> Result<Vec<Demand>, Error> {
        Ok(self.inner.lock().demands(engine, seen, now))
    }

    async fn is_whole(&self) -> Result<bool, Error> {
        Ok(self.inner.lock().is_whole)
    }

    async fn begin_anew(&self, who: Rebuilding) -> Result<(), Error> {
        self.inner.lock().rebuilding = Some(who);
        Ok(())
    }

    async fn make_whole(&self, who: Rebuilding) -> Result<bool, Error> {
        Ok(self.inner.lock().make_whole(who))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_domain::{
        name::{Name, QueueKey},
        place::{Partition, TaskRef},
        settings::Rate,
    };

    #[test]
    fn buckets_that_are_full_again_are_forgotten_when_they_are_many() {
        let mut inner = MemoryLimiterState { is_whole: true, ..MemoryLimiterState::default() };
        let rate = Rate { limit: 1, period_ms: 1_000, burst: 2 };
        let mut start = |nth: usize, now: i64| {
            let queue = Name::new(&format!("q{nth}")).unwrap();
            let scope = Scope::Queue(QueueKey { namespace: Name::default_namespace(), queue });
            let id = i64::try_from(nth).unwrap();
            let request = SlotRequest {
                member: Member { id, fence: 1 },
                place: TaskRef { partition: Partition(0), due_at: Millis(0), id },
                until: Millis(now + 1),
                limits: Vec::new(),
                rates: vec![Flowing { scope, rate }],
            };
            let answer = inner.grant(request, Millis(now), Millis(now));
            (answer, inner.buckets.len())
        };
        for nth in 0..BUCKETS_MAX {
            assert_eq!(start(nth, 0), (Verdict::Granted, nth + 1));
        }
        assert_eq!(start(1, 500).1, BUCKETS_MAX);
        assert_eq!(start(BUCKETS_MAX, 1_100).1, 2, "all but the two that were used just now are full");
        assert!(matches!(start(1, 1_100).0, Verdict::Granted | Verdict::Throttled { .. }));
    }
}
