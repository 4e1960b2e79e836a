//! A hot set and a limiter that write down each call about tasks: what a queue that is scanned must not cause.

use async_trait::async_trait;
use parking_lot::Mutex;
use punctual_contract::{
    Error, Hot, Limiter,
    hot::{HotEntry, Keeps, Wholeness, Withdrawn},
    limiter::{Demand, Flowing, Held, Holders, Limit, Member, Rebuilding, Room, SlotRequest, Verdict},
    ownership::Tenure,
};
use punctual_domain::{limits::Scope, place::Partition, time::Millis};
use std::{mem, sync::Arc};

/// The calls so far, without those that an engine makes about itself: completeness, depth, and due entries of
/// its partitions.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls(Arc<Mutex<Vec<String>>>);

impl Calls {
    fn note(&self, call: &str, is_one: bool) {
        if is_one {
            self.0.lock().push(call.to_owned());
        }
    }

    pub(super) fn take(&self) -> Vec<String> {
        mem::take(&mut self.0.lock())
    }
}

#[derive(Debug)]
pub(super) struct WatchedHot {
    pub(super) inner: Arc<dyn Hot>,
    pub(super) calls: Calls,
}

#[async_trait]
impl Hot for WatchedHot {
    fn keeps(&self) -> Keeps {
        self.inner.keeps()
    }

    async fn load(&self, entries: Vec<HotEntry>) -> Result<usize, Error> {
        self.calls.note("load", !entries.is_empty());
        self.inner.load(entries).await
    }

    async fn drain(
        &self,
        tenures: &[Tenure],
        until: Millis,
        limit: usize,
    ) -> Vec<Result<Vec<HotEntry>, Error>> {
        let drained = self.inner.drain(tenures, until, limit).await;
        self.calls.note("drain of something", drained.iter().flatten().any(|entries| !entries.is_empty()));
        drained
    }

    async fn withdraw(&self, partition: Partition, id: i64, fence: i64) -> Result<Withdrawn, Error> {
        self.calls.note("withdraw", true);
        self.inner.withdraw(partition, id, fence).await
    }

    async fn count_due(&self) -> Result<usize, Error> {
        self.inner.count_due().await
    }

    async fn is_whole(&self, tenures: &[Tenure]) -> Result<Vec<Wholeness>, Error> {
        self.inner.is_whole(tenures).await
    }

    async fn clear(&self, tenure: Tenure) -> Result<(), Error> {
        self.inner.clear(tenure).await
    }

    async fn fullness(&self) -> Result<u32, Error> {
        self.inner.fullness().await
    }
}

#[derive(Debug)]
pub(super) struct WatchedLimiter {
    pub(super) inner: Arc<dyn Limiter>,
    pub(super) calls: Calls,
}

#[async_trait]
impl Limiter for WatchedLimiter {
    async fn grant(&self, wishes: Vec<SlotRequest>, now: Millis) -> Result<Vec<Verdict>, Error> {
        self.calls.note("grant", true);
        self.inner.grant(wishes, now).await
    }

    async fn room(&self, limits: &[Limit], rates: &[Flowing], now: Millis) -> Result<Room, Error> {
        self.calls.note("room", true);
        self.inner.room(limits, rates, now).await
    }

    async fn release(&self, members: &[Member]) -> Result<Vec<Option<Held>>, Error> {
        self.calls.note("release", true);
        self.inner.release(members).await
    }

    async fn retract(&self, granted: &[(Member, Millis)]) -> Result<Vec<Option<Held>>, Error> {
        self.calls.note("retract", !granted.is_empty());
        self.inner.retract(granted).await
    }

    async fn prolong(&self, members: &[(Member, Millis)]) -> Result<(), Error> {
        self.calls.note("prolong", !members.is_empty());
        self.inner.prolong(members).await
    }

    async fn restore(&self, held: Vec<Held>) -> Result<(), Error> {
        self.calls.note("restore", !held.is_empty());
        self.inner.restore(held).await
    }

    async fn members(&self, until: Millis, skip: usize, limit: usize) -> Result<Vec<Held>, Error> {
        self.inner.members(until, skip, limit).await
    }

    async fn find(&self, members: &[Member]) -> Result<Vec<Held>, Error> {
        self.calls.note("find", !members.is_empty());
        self.inner.find(members).await
    }

    async fn holders(&self, scope: &Scope, limit: usize) -> Result<Holders, Error> {
        self.calls.note("holders", true);
        self.inner.holders(scope, limit).await
    }

    async fn held(&self, scopes: &[Scope]) -> Result<Vec<usize>, Error> {
        self.calls.note("held", !scopes.is_empty());
        self.inner.held(scopes).await
    }

    async fn demands(&self, engine: &str, seen: &[Demand], now: Millis) -> Result<Vec<Demand>, Error> {
        self.inner.demands(engine, seen, now).await
    }

    async fn is_whole(&self) -> Result<bool, Error> {
        self.inner.is_whole().await
    }

    async fn begin_anew(&self, who: Rebuilding) -> Result<(), Error> {
        self.inner.begin_anew(who).await
    }

    async fn make_whole(&self, who: Rebuilding) -> Result<bool, Error> {
        self.inner.make_whole(who).await
    }
}
