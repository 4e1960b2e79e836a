//! What can go wrong with Redis, told by whether the work may have been done. Never shows an address: it may hold a
//! password.

use punctual_contract as contract;
use redis::{ErrorKind, RedisError};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the bus address cannot be used: {0}")]
    Address(String),
    #[error("bus option {option}: {value} cannot be used, {wanted}")]
    Setting { option: &'static str, value: String, wanted: &'static str },
    #[error("cannot connect to Redis: {0}")]
    Connect(#[source] RedisError),
    #[error("Redis did not answer the connection in time")]
    ConnectTimeout,
    /// Redis said no: nothing happened.
    #[error("Redis refused: {0}")]
    Refused(#[source] RedisError),
    /// The connection broke, or the answer did not come in time: it may have happened.
    #[error("no answer from Redis: {0}")]
    NoAnswer(#[source] RedisError),
    #[error("no answer from Redis in time")]
    Timeout,
    #[error("Redis answered something that was not asked: {0}")]
    Reply(&'static str),
    #[error("a message cannot be written: {0}")]
    Encode(#[from] rmp_serde::encode::Error),
    #[error("a message cannot be read: {0}")]
    Decode(#[from] rmp_serde::decode::Error),
    #[error("a message cannot be read: it has version {0}, this build reads {known}", known = crate::redis::BODY_VERSION)]
    Version(u8),
    #[error("a message cannot be read: {0}")]
    Content(String),
    /// Ids are packed into 64 bits; the stream's clock is before 2020, after 2054, or was set back by so much that
    /// Redis counts a million messages into one millisecond.
    #[error("stream entry {ms}-{seq} does not fit a delivery id: is the clock of Redis right?")]
    Id { ms: u64, seq: u64 },
    #[error("work on the bus was broken off")]
    BrokenOff,
}

impl Error {
    /// What Redis itself answered did not happen; what it did not answer may have.
    pub(crate) fn from_redis(error: RedisError) -> Self {
        match error.kind() {
            ErrorKind::Server(_)
            | ErrorKind::Extension
            | ErrorKind::InvalidClientConfig
            | ErrorKind::AuthenticationFailed
            | ErrorKind::MasterNameNotFoundBySentinel
            | ErrorKind::EmptySentinelList
            | ErrorKind::ClusterConnectionNotFound => Self::Refused(error),
            _ => Self::NoAnswer(error),
        }
    }

    /// The code of a refusal, as "NOGROUP".
    pub(crate) fn code(&self) -> Option<&str> {
        match self {
            Self::Refused(error) => error.code(),
            _ => None,
        }
    }

    /// `host:port` of the Cluster's node that has the key.
    pub(crate) fn moved_to(&self) -> Option<&str> {
        match self {
            Self::Refused(error) => error.redirect_node().map(|(address, _)| address),
            _ => None,
        }
    }

    pub(crate) const fn happened(&self) -> contract::Happened {
        match self {
            Self::NoAnswer(_) | Self::Timeout | Self::Reply(_) | Self::BrokenOff => contract::Happened::Maybe,
            _ => contract::Happened::No,
        }
    }
}
