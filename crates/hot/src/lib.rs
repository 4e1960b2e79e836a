//! The hot set: tasks due soon in Redis. Decides no state, and is never the only place of a task: everything
//! here can be rebuilt from the store.
//!
//! In reading order: `redis` (due tasks, limits and signals, shared by many engines); `none` (no hot set); `limiter` (tasks in
//! flight, in the memory of one engine); `stored` (the same for several engines without Redis).

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
