//! The near future: in memory, and in Redis. Keeps no payload, decides no state, and is never the only place where a
//! task is: whatever is here can be rebuilt from the store.
//!
//! In reading order: `line` (entries in time order, found by id too), `slice` (what is due in one partition), `ready` (what one queue's executors wait for), `names` (each queue's name once), `memory` (the whole);
//! `limiter` (who may be in flight, in memory); `redis` (the same, shared by many engines); `none` (no
//! hot set at all), `stored` (the limiter then).

mod line;
mod slice;

mod names;
mod ready;

mod limiter;
mod memory;

mod none;
mod redis;
mod stored;

pub use self::{
    limiter::MemoryLimiter,
    memory::{MemoryHot, Options},
    none::{NoHot, NoSignals},
    redis::{
        ClusterName, Marker, MemoryUse, RateClock, RedisDoctor, RedisHot, RedisLimiter, RedisOptions,
        RedisProblem, RedisServer, RedisSignals, ScriptLooks,
    },
    stored::StoredLimiter,
};
