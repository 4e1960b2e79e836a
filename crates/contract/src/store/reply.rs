//! Answers that are stored under the key of a request.

use punctual_domain::{name::Name, time::Millis};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReplyKey {
    pub namespace: Name,
    pub key: String,
}

/// A reservation, which is stored under a key before there is an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    pub request_hash: u64,
    /// Another one for each request.
    pub owner: String,
    pub until: Millis,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reserved {
    Ours,
    /// Another request is being worked on under this key.
    Theirs,
    Answered(Reply),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Distinguishes a repetition from another request with the same key.
    pub request_hash: u64,
    /// The HTTP status, which is not 0.
    pub status: u16,
    pub body: Vec<u8>,
    pub keep_until: Millis,
}
