//! The possible outages of the private Redis or MariaDB of a run. Must not cause them: `backing` does.

use clap::ValueEnum;

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// SIGKILL; started again on its append-only file
    RedisKill,
    /// SIGSTOP, then SIGCONT: connections stay open
    RedisPause,
    /// FLUSHALL; it is never away
    RedisFlush,
    /// FLUSHALL and SIGKILL; started again empty
    RedisEmpty,
    /// Killed when the outage ends, and started again on what it had when the outage began
    RedisStale,
    /// Its memory is full: it refuses writes
    RedisFull,
    /// The connections that are open fall silent; new ones work. Needs --proxied
    RedisSilent,
    /// One engine reaches no Redis. Needs --proxied
    RedisCutOne,
    /// SIGKILL; started again on its data
    MysqlKill,
    /// The connections that are open fall silent; new ones work. Needs --proxied
    MysqlSilent,
}

impl Cause {
    pub(crate) const fn is_of_redis(self) -> bool {
        !matches!(self, Self::MysqlKill | Self::MysqlSilent)
    }

    /// True if the outage is of the engines' connections, not of the servers.
    pub(crate) const fn is_of_a_way(self) -> bool {
        matches!(self, Self::RedisSilent | Self::RedisCutOne | Self::MysqlSilent)
    }
}
