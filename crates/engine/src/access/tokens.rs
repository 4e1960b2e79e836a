//! Tokens made, rotated and revoked, on a store alone: the first one is made before any engine lets anybody in.

use crate::{answer::Error, core::Core, engine::Engine};
use punctual_contract::{
    AccessStore, Error as BackendError,
    access::{Previous, Revoked, Token},
    settings::Saved,
};
use punctual_domain::{
    access::{Grant, Secret, TokenId},
    time::Millis,
};
use std::sync::Arc;

/// Changes that lose their race to others, one after the other.
const TRIES: usize = 8;

/// The properties of a new token.
#[derive(Clone, Debug)]
pub struct NewToken {
    pub name: String,
    pub grant: Grant,
    pub expires_at: Option<Millis>,
    /// The time after the creation of the first token for which requests without a token are accepted. For the first
    /// token only.
    pub grace_ms: Option<i64>,
}

/// A token, and its secret, which is nowhere else.
#[derive(Clone, Debug)]
pub struct Issued {
    pub token: Token,
    pub secret: Secret,
}

fn random<const N: usize>() -> Result<[u8; N], BackendError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| BackendError::did_not_happen("draw a random secret", error.to_string()))?;
    Ok(bytes)
}

/// The result of a request for a token.
#[derive(Clone, Debug)]
pub enum Created {
    Done(Box<Issued>),
    /// It named a time in which no token is required, and there have been tokens before.
    NotTheFirst,
}

/// The answer in that case.
pub const NOT_THE_FIRST: &str = "is for the first token only: there have been tokens before";

/// # Errors
/// A failing store. The error states whether the token may exist nevertheless; then its secret is lost.
pub async fn create(store: &dyn AccessStore, new: NewToken, by: &str, now: Millis) -> Result<Created, Error> {
    for _ in 0..TRIES {
        let before = store.tokens().await?;
        if new.grace_ms.is_some() && before.revision > 0 {
            return Ok(Created::NotTheFirst);
        }
        let put_off = before.required_at().filter(|at| now < *at);
        let secret = Secret::from_random(random()?, random()?);
        let mut token = Token {
            id: secret.id().clone(),
            name: new.name.clone(),
            grant: new.grant.clone(),
            secret: secret.hash(),
            previous: None,
            created_at: now,
            created_by: by.to_owned(),
            expires_at: new.expires_at,
            rotated_at: None,
            revoked: None,
            used_at: None,
            revision: 0,
            required_at: new.grace_ms.map(|grace_ms| now.plus(grace_ms)).or(put_off),
        };
        if let Saved::Done(revision) = store.save_token(token.clone(), 0).await? {
            token.revision = revision;
            return Ok(Created::Done(Box::new(Issued { token, secret })));
        }
    }
    Err(Error::Contended)
}

/// The token in its current state. `None` if no token has this id.
async fn find(store: &dyn AccessStore, id: &TokenId) -> Result<Option<Token>, Error> {
    Ok(store.tokens().await?.all.into_iter().find(|token| token.id == *id))
}

/// The result of a change of a token.
#[derive(Clone, Debug)]
pub enum Turned<T> {
    /// The change was made. `before` is the token before the change.
    Done { before: Box<Token>, after: T },
    /// No token has this id.
    NotFound,
    /// It is revoked: for good.
    Revoked(Box<Token>),
}

/// A new secret; the one that was good until now stays so for a while.
///
/// # Errors
/// Fails like [`create`].
pub async fn rotate(
    store: &dyn AccessStore,
    id: &TokenId,
    overlap_ms: i64,
    now: Millis,
) -> Result<Turned<Issued>, Error> {
    for _ in 0..TRIES {
        let Some(current) = find(store, id).await? else { return Ok(Turned::NotFound) };
        if current.revoked.is_some() {
            return Ok(Turned::Revoked(Box::new(current)));
        }
        let secret = Secret::of(id.clone(), random()?);
        let previous = Previous { secret: current.secret, until: now.plus(overlap_ms) };
        let mut token = Token {
            secret: secret.hash(),
            previous: Some(previous),
            rotated_at: Some(now),
            ..current.clone()
        };
        if let Saved::Done(revision) = store.save_token(token.clone(), current.revision).await? {
            token.revision = revision;
            let before = Box::new(current);
            return Ok(Turned::Done { before, after: Issued { token, secret } });
        }
    }
    Err(Error::Contended)
}

/// Revokes a token permanently, at every engine within a second. A revoked token is left as it is.
///
/// # Errors
/// Fails like [`create`]; the call can be repeated.
pub async fn revoke(
    store: &dyn AccessStore,
    id: &TokenId,
    by: &str,
    now: Millis,
) -> Result<Turned<Token>, Error> {
    for _ in 0..TRIES {
        let Some(current) = find(store, id).await? else { return Ok(Turned::NotFound) };
        if current.revoked.is_some() {
            return Ok(Turned::Done { before: Box::new(current.clone()), after: current });
        }
        let revoked = Some(Revoked { at: now, by: by.to_owned() });
        let mut token = Token { revoked, previous: None, ..current.clone() };
        if let Saved::Done(revision) = store.save_token(token.clone(), current.revision).await? {
            token.revision = revision;
            return Ok(Turned::Done { before: Box::new(current), after: token });
        }
    }
    Err(Error::Contended)
}

/// Here it holds from before the answer on.
async fn seen_here(core: &Arc<Core>) {
    if let Err(error) = super::look(core).await {
        tracing::warn!(%error, "tokens were changed and could not be read again; it will be repeated");
    }
}

impl Engine {
    /// All tokens in the store, including revoked ones.
    ///
    /// # Errors
    /// A failing store.
    pub async fn tokens(&self) -> Result<Vec<Token>, Error> {
        Ok(self.core.store.tokens().await?.all)
    }

    /// # Errors
    /// Fails like [`create`].
    pub async fn create_token(&self, new: NewToken, by: &str) -> Result<Created, Error> {
        let (core, by) = (Arc::clone(&self.core), by.to_owned());
        self.run(async move {
            let issued = create(core.store.as_ref(), new, &by, core.now()).await;
            seen_here(&core).await;
            issued
        })
        .await
    }

    /// # Errors
    /// Fails like [`rotate`].
    pub async fn rotate_token(&self, id: TokenId, overlap_ms: i64) -> Result<Turned<Issued>, Error> {
        let core = Arc::clone(&self.core);
        self.run(async move {
            let issued = rotate(core.store.as_ref(), &id, overlap_ms, core.now()).await;
            seen_here(&core).await;
            issued
        })
        .await
    }

    /// # Errors
    /// Fails like [`revoke`].
    pub async fn revoke_token(&self, id: TokenId, by: &str) -> Result<Turned<Token>, Error> {
        let (core, by) = (Arc::clone(&self.core), by.to_owned());
        self.run(async move {
            let token = revoke(core.store.as_ref(), &id, &by, core.now()).await;
            seen_here(&core).await;
            token
        })
        .await
    }
}
