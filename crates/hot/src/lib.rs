//! The near future in Redis, and what has fired. Keeps no payload, decides no state, and is never the only place where a task is:
//! whatever is here can be rebuilt from the store.
//!
//! In reading order: `redis` (what is due, limits and signals, shared by many engines); `none` (no hot set at all); `limiter` (who
//! may be in flight, in the memory of one engine), `stored` (the same of several engines without Redis).

mod limiter;
mod none;
mod redis;
mod stored;

pub use self::{
    limiter::MemoryLimiter,
    none::{NoHot, NoSignals},
    redis::{
        ClusterName, Marker, MemoryUse, RateClock, RedisDoctor, RedisHot, RedisLimiter, RedisOptions,
        RedisProblem, RedisServer, RedisSignals, ScriptLooks,
    },
    stored::StoredLimiter,
};
