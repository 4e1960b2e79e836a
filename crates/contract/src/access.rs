//! Tokens: durable, numbered, revoked ones kept for a while. Engines keep them all in memory and look at the number a few times a
//! second, so that a revocation holds everywhere within a second, and a store that is unavailable locks nobody out.

use crate::{error::Error, settings::Saved};
use async_trait::async_trait;
use punctual_domain::{
    access::{Grant, SecretHash, TokenId},
    time::Millis,
};

/// Promises:
/// - **Numbered.** Each change of any token has a revision, higher than all before it. Whoever has read the tokens of a
///   revision, and finds that it still stands, has missed no change.
/// - **Never open again.** The number does not fall, whatever is forgotten: what was configured once stays so.
/// - **Hashed.** No secret is ever given to a store.
#[async_trait]
pub trait AccessStore: Send + Sync {
    /// The number of the last change; 0: there never was a token. Cheap.
    async fn access_revision(&self) -> Result<i64, Error>;

    /// All tokens, as of one revision, by id.
    async fn tokens(&self) -> Result<Tokens, Error>;

    /// Adds or changes a token, if `expected` is its revision; 0: only if there is none of its id. What it says of its
    /// last use is not looked at.
    async fn save_token(&self, token: Token, expected: i64) -> Result<Saved, Error>;

    /// Forgets tokens that were revoked, or over, before an instant, at most so many; answers how many. None of it is a change
    /// in the sense of revisions: they were good for nothing.
    async fn forget_tokens(&self, ended_before: Millis, limit: usize) -> Result<usize, Error>;

    /// When tokens were last used. An older time changes nothing, and none of it is a change in the sense of revisions.
    async fn note_tokens_used(&self, used: Vec<(TokenId, Millis)>) -> Result<(), Error>;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tokens {
    pub revision: i64,
    pub all: Vec<Token>,
}

impl Tokens {
    /// From when on each request needs a token, where that was put off. None: it was not, or there is no token.
    #[must_use]
    pub fn required_at(&self) -> Option<Millis> {
        self.all.iter().map(|token| token.required_at).min().flatten()
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    pub id: TokenId,
    /// For people.
    pub name: String,
    pub grant: Grant,
    pub secret: SecretHash,
    /// The one before, that is good for a while beside it.
    pub previous: Option<Previous>,
    pub created_at: Millis,
    pub created_by: String,
    pub expires_at: Option<Millis>,
    pub rotated_at: Option<Millis>,
    pub revoked: Option<Revoked>,
    /// To about a minute.
    pub used_at: Option<Millis>,
    /// Of the change that made it so.
    pub revision: i64,
    /// Until then this token does not end the time in which requests without one are accepted. Named with the first token,
    /// the same of all that are made before then, and never changed. None: a token is required from its creation on.
    pub required_at: Option<Millis>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Previous {
    pub secret: SecretHash,
    /// Exclusive.
    pub until: Millis,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revoked {
    pub at: Millis,
    pub by: String,
}
