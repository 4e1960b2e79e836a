//! The limiter of engines that share a store without Redis: it computes like the one in memory, on a value in
//! the store. Each call reads the stored version, and a change replaces only the version that it was computed
//! from. If two engines change the value at once, one computes again, so no engine grants from an old value.
//! Must not know where the value is stored.
//!
//! It is as durable as the store: a store that loses its last commits loses grants together with their
//! leases. Each change writes all members, so it suits hundreds of attempts in flight; Redis suits more.

mod codec;

use crate::{limiter::MemoryLimiterState, redis::RateClock};
use async_trait::async_trait;
use punctual_contract::{
    Error, Limiter,
    limiter::{
        Demand, Flowing, Held, Holders, Limit, LimiterState, Member, Rebuilding, Room, SlotRequest, Verdict,
    },
};
use punctual_domain::{limits::Scope, time::Millis};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{Mutex, MutexGuard},
    time::sleep,
};

/// A change that loses to other engines this often is abandoned: nothing of it was done.
const TRIES: usize = 50;
/// The longest pause before the next try.
const PAUSE_MAX_MS: u64 = 20;
/// A version that no stored value has.
const NONE_CACHED: i64 = -1;

#[derive(Debug)]
pub struct StoredLimiter {
    state: Arc<dyn LimiterState>,
    clock: RateClock,
    cached: Mutex<Cached>,
}

/// The value as it was last read or written.
#[derive(Debug)]
struct Cached {
    version: i64,
    value: Vec<u8>,
    inner: MemoryLimiterState,
}

impl StoredLimiter {
    #[must_use]
    pub fn new(state: Arc<dyn LimiterState>, clock: RateClock) -> Self {
        let cached = Cached { version: NONE_CACHED, value: Vec::new(), inner: MemoryLimiterState::default() };
        Self { state, clock, cached: Mutex::new(cached) }
    }

    /// Reads the stored value unless it is cached. Returns the time for rates.
    async fn refresh(&self, cached: &mut Cached, now: Millis) -> Result<Millis, Error> {
        let stored = self.state.read(cached.version).await?;
        if let Some(value) = stored.value {
            cached.inner = codec::read(&value).ok_or_else(|| {
                Error::did_not_happen("read the limiter", "another release wrote its value")
            })?;
            (cached.version, cached.value) = (stored.version, value);
        }
        Ok(match self.clock {
            RateClock::Server => stored.now,
            RateClock::Caller => now,
        })
    }

    async fn current(&self) -> Result<MutexGuard<'_, Cached>, Error> {
        let mut cached = self.cached.lock().await;
        self.refresh(&mut cached, Millis::ZERO).await?;
        Ok(cached)
    }

    /// Runs `act`, and again on the newer value each time that another engine was faster. `act` gets the time
    /// for rates.
    async fn change<T: Send>(
        &self,
        doing: &'static str,
        now: Millis,
        act: impl Fn(&mut MemoryLimiterState, Millis) -> T + Send,
    ) -> Result<T, Error> {
        let mut cached = self.cached.lock().await;
        for _ in 0..TRIES {
            let clock = self.refresh(&mut cached, now).await?;
            let done = act(&mut cached.inner, clock);
            let value = codec::write(&cached.inner);
            if value == cached.value {
                return Ok(done);
            }
            // Until the swap is answered, `inner` is ahead of the store, even if the caller hangs up.
            let version = std::mem::replace(&mut cached.version, NONE_CACHED);
            if self.state.swap(version, value.clone()).await? {
                (cached.version, cached.value) = (version + 1, value);
                return Ok(done);
            }
            sleep(Duration::from_millis(fastrand::u64(1..=PAUSE_MAX_MS))).await;
        }
        Err(Error::did_not_happen(doing, "other engines change the same again and again"))
    }
}

#[async_trait]
impl Limiter for StoredLimiter {
    async fn grant(&self, requests: Vec<SlotRequest>, now: Millis) -> Result<Vec<Verdict>, Error> {
        let grant = |inner: &mut MemoryLimiterState, clock| {
            let answers = inner.grant_all(requests.iter().cloned(), now, clock);
            // They would be written with each change.
            inner.drop_full(clock);
            answers
        };
        self.change("grant slots", now, grant).await
    }

    async fn room(&self, limits: &[Limit], rates: &[Flowing], now: Millis) -> Result<Room, Error> {
        let mut cached = self.cached.lock().await;
        let clock = self.refresh(&mut cached, now).await?;
        Ok(cached.inner.room(limits, rates, clock))
    }

    async fn release(&self, members: &[Member]) -> Result<Vec<Option<Held>>, Error> {
        let release =
            |inner: &mut MemoryLimiterState, _| members.iter().map(|member| inner.release(*member)).collect();
        self.change("give slots up", Millis::ZERO, release).await
    }

    async fn retract(&self, granted: &[(Member, Millis)]) -> Result<Vec<Option<Held>>, Error> {
        self.change("give slots up", Millis::ZERO, |inner, _| inner.retract(granted)).await
    }

    async fn prolong(&self, members: &[(Member, Millis)]) -> Result<(), Error> {
        self.change("prolong slots", Millis::ZERO, |inner, _| inner.prolong(members)).await
    }

    async fn restore(&self, held: Vec<Held>) -> Result<(), Error> {
        let restore =
            |inner: &mut MemoryLimiterState, _| held.iter().cloned().for_each(|held| inner.hold(held));
        self.change("restore slots", Millis::ZERO, restore).await
    }

    async fn members(&self, until: Millis, skip: usize, limit: usize) -> Result<Vec<Held>, Error> {
        Ok(self.current().await?.inner.members(until, skip, limit))
    }

    async fn find(&self, members: &[Member]) -> Result<Vec<Held>, Error> {
        Ok(self.current().await?.inner.find(members))
    }

    async fn holders(&self, scope: &Scope, limit: usize) -> Result<Holders, Error> {
        Ok(self.current().await?.inner.holders(scope, limit))
    }

    async fn held(&self, scopes: &[Scope]) -> Result<Vec<usize>, Error> {
        Ok(self.current().await?.inner.held(scopes))
    }

    async fn demands(&self, engine: &str, seen: &[Demand], now: Millis) -> Result<Vec<Demand>, Error> {
        let say = |inner: &mut MemoryLimiterState, clock| inner.demands(engine, seen, clock);
        self.change("tell of demands", now, say).await
    }

    async fn is_whole(&self) -> Result<bool, Error> {
        Ok(self.current().await?.inner.is_whole)
    }

    async fn begin_anew(&self, who: Rebuilding) -> Result<(), Error> {
        let begin = |inner: &mut MemoryLimiterState, _| inner.rebuilding = Some(who);
        self.change("begin to restore slots", Millis::ZERO, begin).await
    }

    async fn make_whole(&self, who: Rebuilding) -> Result<bool, Error> {
        let make = |inner: &mut MemoryLimiterState, _| inner.make_whole(who);
        self.change("note that all slots are restored", Millis::ZERO, make).await
    }
}
