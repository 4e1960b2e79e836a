//! The near future in Redis, and what has fired: there, or in memory. Keeps no payload, decides no state, and is never the only place where a
//! task is: whatever is here can be rebuilt from the store.
//!
//! In reading order: `ready` (what one queue's executors wait for), `names` (each queue's name once), `memory` (the ready sets of one
//! engine); `limiter` (who may be in flight, in memory); `redis` (ready sets and limits shared by many engines, and what is due);
//! `none` (no hot set at all), `stored` (the limiter then).

mod names;
mod ready;

mod limiter;
mod memory;

mod none;
mod redis;
mod stored;

pub use self::{
    limiter::MemoryLimiter,
    memory::MemoryHot,
    none::{NoHot, NoSignals},
    redis::{
        ClusterName, Marker, MemoryUse, RateClock, RedisDoctor, RedisHot, RedisLimiter, RedisOptions,
        RedisProblem, RedisServer, RedisSignals, ScriptLooks,
    },
    stored::StoredLimiter,
};
