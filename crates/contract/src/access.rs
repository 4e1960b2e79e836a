//! Tokens: durable and numbered. Revoked tokens are stored for a while. Engines hold all tokens in memory and read
//! the number a few times a second, so that a revocation takes effect everywhere within a second, and an unavailable
//! store locks no caller out.

use crate::{error::Error, settings::Saved};
use async_trait::async_trait;
use punctual_domain::{
    access::{Grant, SecretHash, TokenId},
    time::Millis,
};

/// Promises:
/// - **Numbered.** Each change of any token has a revision, higher than all before it. An engine that has
///   read the tokens of a revision, and finds the same revision, has missed no change.
/// - **Never open again.** The number never decreases, whatever is deleted: once configured, it stays so.
/// - **Hashed.** A store never gets a secret.
#[async_trait]
pub trait AccessStore: Send + Sync {
    /// The number of the last change; 0: there never was a token. Cheap.
    async fn access_revision(&self) -> Result<i64, Error>;

    /// All tokens, as of one revision, by id.
    async fn tokens(&self) -> Result<Tokens, Error>;

    /// Adds or changes a token, if `expected` is its revision; 0: only if no token has its id. The time of
    /// its last use is ignored.
    async fn save_token(&self, token: Token, expected: i64) -> Result<Saved, Error>;

    /// Deletes tokens that were revoked, or expired, before an instant, at most `limit`; returns the number of
    /// deleted tokens. This changes no revision: they were invalid.
    async fn forget_tokens(&self, ended_before: Millis, limit: usize) -> Result<usize, Error>;

    /// Notes the last uses of tokens. An older time changes nothing, and none of these changes a revision.
    async fn note_tokens_used(&self, used: Vec<(TokenId, Millis)>) -> Result<(), Error>;
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tokens {
    pub revision: i64,
    pub all: Vec<Token>,
}

impl Tokens {
    /// The instant from which each request needs a token, if that was postponed. `None` if it was not, or if no token
    /// exists.
    #[must_use]
    pub fn required_at(&self) -> Option<Millis> {
        self.all.iter().map(|token| token.required_at).min().flatten()
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    pub id: TokenId,
    /// The name of the token for people.
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
    /// The last use, precise to about a minute.
    pub used_at: Option<Millis>,
    /// The revision of the last change of the token.
    pub revision: i64,
    /// Requests without a token are accepted until then, in spite of this token. Named with the first token, the same
    /// for all that are created before then, and never changed. `None` if a token is required from its creation on.
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
