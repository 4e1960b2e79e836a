//! The limiter of engines that share a store and have no Redis: it reckons as the one in memory does, on a value that stands in
//! the store. Each call reads which version stands, and a change is written only over the version that it was reckoned on: of
//! two engines that change it at once one does it again. So no engine grants by what it knew before.
//!
//! As good as the store: what the store has lost, it has lost together with the leases that were granted by it. Costs what all
//! members together take, with each change: it is for hundreds of attempts in flight, and Redis for more.

mod codec;

use crate::{limiter::Inner, redis::RateClock};
use async_trait::async_trait;
use punctual_contract::{
    Error, Limiter,
    limiter::{Answer, Demand, Flowing, Held, Holders, Limit, LimiterState, Member, Rebuilding, Room, Wish},
};
use punctual_domain::{limits::Scope, time::Millis};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{Mutex, MutexGuard},
    time::sleep,
};

/// A change that others come before so often is given up: nothing of it was done.
const TRIES: usize = 50;
/// At most so long until it is tried again.
const PAUSE_MAX_MS: u64 = 20;
/// No version is this one.
const NOTHING_KNOWN: i64 = -1;

#[derive(Debug)]
pub struct StoredLimiter {
    state: Arc<dyn LimiterState>,
    clock: RateClock,
    known: Mutex<Known>,
}

/// What stood when it was last looked at.
#[derive(Debug)]
struct Known {
    version: i64,
    value: Vec<u8>,
    inner: Inner,
}

impl StoredLimiter {
    #[must_use]
    pub fn new(state: Arc<dyn LimiterState>, clock: RateClock) -> Self {
        let known = Known { version: NOTHING_KNOWN, value: Vec::new(), inner: Inner::default() };
        Self { state, clock, known: Mutex::new(known) }
    }

    /// As it stands now; and what the clock of rates shows.
    async fn look(&self, known: &mut Known, now: Millis) -> Result<Millis, Error> {
        let stands = self.state.read(known.version).await?;
        if let Some(value) = stands.value {
            known.inner = codec::read(&value)
                .ok_or_else(|| Error::did_not_happen("read what is limited", "another release wrote it"))?;
            (known.version, known.value) = (stands.version, value);
        }
        Ok(match self.clock {
            RateClock::Server => stands.now,
            RateClock::Caller => now,
        })
    }

    async fn looked(&self) -> Result<MutexGuard<'_, Known>, Error> {
        let mut known = self.known.lock().await;
        self.look(&mut known, Millis::ZERO).await?;
        Ok(known)
    }

    /// `act` is done again whenever another engine was quicker, on what that one has left. It is given the clock of rates.
    async fn change<T: Send>(
        &self,
        doing: &'static str,
        now: Millis,
        act: impl Fn(&mut Inner, Millis) -> T + Send,
    ) -> Result<T, Error> {
        let mut known = self.known.lock().await;
        for _ in 0..TRIES {
            let clock = self.look(&mut known, now).await?;
            let done = act(&mut known.inner, clock);
            let value = codec::write(&known.inner);
            if value == known.value {
                return Ok(done);
            }
            let version = std::mem::replace(&mut known.version, NOTHING_KNOWN);
            if self.state.swap(version, value.clone()).await? {
                (known.version, known.value) = (version + 1, value);
                return Ok(done);
            }
            sleep(Duration::from_millis(fastrand::u64(1..=PAUSE_MAX_MS))).await;
        }
        Err(Error::did_not_happen(doing, "other engines change the same again and again"))
    }
}

#[async_trait]
impl Limiter for StoredLimiter {
    async fn grant(&self, wishes: Vec<Wish>, now: Millis) -> Result<Vec<Answer>, Error> {
        let grant = |inner: &mut Inner, clock| inner.grant_all(wishes.iter().cloned(), now, clock);
        self.change("grant slots", now, grant).await
    }

    async fn room(&self, limits: &[Limit], rates: &[Flowing], now: Millis) -> Result<Room, Error> {
        let mut known = self.known.lock().await;
        let clock = self.look(&mut known, now).await?;
        Ok(known.inner.room(limits, rates, clock))
    }

    async fn release(&self, members: &[Member]) -> Result<Vec<Option<Held>>, Error> {
        let release = |inner: &mut Inner, _| members.iter().map(|member| inner.release(*member)).collect();
        self.change("give slots up", Millis::ZERO, release).await
    }

    async fn retract(&self, granted: &[(Member, Millis)]) -> Result<Vec<Option<Held>>, Error> {
        self.change("give slots up", Millis::ZERO, |inner, _| inner.retract(granted)).await
    }

    async fn prolong(&self, members: &[(Member, Millis)]) -> Result<(), Error> {
        self.change("prolong slots", Millis::ZERO, |inner, _| inner.prolong(members)).await
    }

    async fn restore(&self, held: Vec<Held>) -> Result<(), Error> {
        let restore = |inner: &mut Inner, _| held.iter().cloned().for_each(|held| inner.hold(held));
        self.change("restore slots", Millis::ZERO, restore).await
    }

    async fn members(&self, until: Millis, skip: usize, limit: usize) -> Result<Vec<Held>, Error> {
        Ok(self.looked().await?.inner.members(until, skip, limit))
    }

    async fn find(&self, members: &[Member]) -> Result<Vec<Held>, Error> {
        Ok(self.looked().await?.inner.find(members))
    }

    async fn holders(&self, scope: &Scope, limit: usize) -> Result<Holders, Error> {
        Ok(self.looked().await?.inner.holders(scope, limit))
    }

    async fn held(&self, scopes: &[Scope]) -> Result<Vec<usize>, Error> {
        Ok(self.looked().await?.inner.held(scopes))
    }

    async fn demands(&self, engine: &str, seen: &[Demand], now: Millis) -> Result<Vec<Demand>, Error> {
        let say = |inner: &mut Inner, clock| inner.demands(engine, seen, clock);
        self.change("tell of demands", now, say).await
    }

    async fn is_whole(&self) -> Result<bool, Error> {
        Ok(self.looked().await?.inner.is_whole)
    }

    async fn begin_anew(&self, who: Rebuilding) -> Result<(), Error> {
        let begin = |inner: &mut Inner, _| inner.rebuilding = Some(who);
        self.change("begin to restore slots", Millis::ZERO, begin).await
    }

    async fn make_whole(&self, who: Rebuilding) -> Result<bool, Error> {
        let make = |inner: &mut Inner, _| inner.make_whole(who);
        self.change("note that all slots are restored", Millis::ZERO, make).await
    }
}
