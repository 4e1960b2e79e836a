//! Errors of Redis, classified by whether the work may have been done. Never shows an address, which may
//! contain a password.

use punctual_contract as contract;
use punctual_redis_link::{Failure, LinkError};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An error of the connection, or of Redis.
    #[error(transparent)]
    Redis(#[from] Failure),
    #[error("bus option {option}: {value} cannot be used, {wanted}")]
    Setting { option: &'static str, value: String, wanted: &'static str },
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
    /// The error for an address that cannot be used.
    pub(crate) const fn address(error: LinkError) -> Self {
        Self::Redis(Failure::before(error))
    }

    /// The code of a refusal, as "NOGROUP".
    pub(crate) fn code(&self) -> Option<&str> {
        match self {
            Self::Redis(failure) => failure.code(),
            _ => None,
        }
    }

    /// `host:port` of the Cluster's node that has the key.
    pub(crate) fn moved_to(&self) -> Option<&str> {
        match self {
            Self::Redis(failure) => failure.moved_to(),
            _ => None,
        }
    }

    /// A connection was lost while it was used.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.happened() == contract::Happened::Maybe
            && matches!(self, Self::Redis(failure) if failure.code().is_none())
    }

    pub(crate) const fn happened(&self) -> contract::Happened {
        match self {
            Self::Redis(failure) => failure.happened,
            Self::Reply(_) | Self::BrokenOff => contract::Happened::Maybe,
            _ => contract::Happened::No,
        }
    }
}
