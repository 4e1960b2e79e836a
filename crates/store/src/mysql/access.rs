//! Tokens, in the catalog. A change and its number are one transaction, and a save waits for the one before: so
//! numbers appear in their order, and a reader that has read up to one has missed nothing.

use super::{
    background::to_its_end,
    ids::counted_by,
    session::Known,
    state::{MySqlState, MysqlStore},
    statements::sql,
    timeouts::{PING, WRITE, silent, watched},
};
use crate::{Error, rows};
use async_trait::async_trait;
use punctual_contract::{
    AccessStore, Error as CallError,
    access::{Token, Tokens},
    settings::Saved,
};
use punctual_domain::{access::TokenId, time::Millis};
use sqlx::{Connection as _, MySqlConnection, Row as _};
use std::sync::Arc;
use tokio::time::timeout;

const REVISION: &str = "access_revision";

#[async_trait]
impl AccessStore for MysqlStore {
    async fn access_revision(&self) -> Result<i64, CallError> {
        let work =
            |inner: Arc<MySqlState>| async move { revision(&mut *inner.access.acquire().await?).await };
        self.reading("look at the tokens", work).await
    }

    async fn tokens(&self) -> Result<Tokens, CallError> {
        self.reading("read the tokens", all).await
    }

    async fn save_token(&self, token: Token, expected: i64) -> Result<Saved, CallError> {
        const DOING: &str = "save a token";
        // In a task of its own: a caller that hangs up does not leave a transaction open.
        let saved = to_its_end(save(Arc::clone(&self.inner), token, expected)).await;
        saved.map_err(|error| CallError::may_have_happened(DOING, Error::Panicked(error.to_string())))?
    }

    async fn forget_tokens(&self, ended_before: Millis, limit: usize) -> Result<usize, CallError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let work = move |inner: Arc<MySqlState>| async move {
            let forget = sqlx::query(sql!(access, delete_expired)).bind(ended_before.0).bind(ended_before.0);
            let done = forget.bind(limit).execute(&mut *inner.access.acquire().await?).await?;
            Ok::<_, sqlx::Error>(usize::try_from(done.rows_affected()).unwrap_or(usize::MAX))
        };
        // Said again it is the same.
        self.reading("forget tokens", work).await
    }

    async fn note_tokens_used(&self, used: Vec<(TokenId, Millis)>) -> Result<(), CallError> {
        let work = |inner: Arc<MySqlState>| async move {
            let mut conn = inner.access.acquire().await?;
            for (id, at) in used {
                let note = sqlx::query(sql!(access, record_use)).bind(at.0).bind(id.as_str()).bind(at.0);
                note.execute(&mut *conn).await?;
            }
            Ok::<_, sqlx::Error>(())
        };
        // Said again it is the same.
        self.reading("note which tokens were used", work).await
    }
}

async fn revision(catalog: &mut MySqlConnection) -> sqlx::Result<i64> {
    sqlx::query(sql!(shards, read_meta)).bind(REVISION).fetch_one(catalog).await?.try_get(0)
}

/// Read again if another caller saved meanwhile: each statement sees what is committed.
async fn all(inner: Arc<MySqlState>) -> sqlx::Result<Tokens> {
    let mut conn = inner.access.acquire().await?;
    let mut before = revision(&mut conn).await?;
    loop {
        let rows = sqlx::query(sql!(access, list_all)).fetch_all(&mut *conn).await?;
        let after = revision(&mut conn).await?;
        if before == after {
            let all = rows.iter().map(rows::token).collect::<sqlx::Result<_>>()?;
            return Ok(Tokens { revision: after, all });
        }
        before = after;
    }
}

async fn save(inner: Arc<MySqlState>, token: Token, expected: i64) -> Result<Saved, CallError> {
    const DOING: &str = "save a token";
    let failed = |error| CallError::did_not_happen(DOING, error);
    let address = inner.address(0).map_err(failed)?;
    let Known { conn: mut catalog, number } =
        address.writer().await.map_err(|error| failed(address.failed(error)))?;
    let recorded = record(&mut catalog, &token, expected);
    let recorded = watched(WRITE, || vec![(number, address.clone())], recorded).await;
    let saved = match recorded.unwrap_or_else(|| Err((silent(), true))) {
        Ok(saved) => saved,
        Err((error, false)) => return Err(failed(address.failed(error))),
        Err((error, true)) => return Err(CallError::may_have_happened(DOING, address.failed(error))),
    };
    drop(timeout(PING, catalog.close()).await);
    Ok(saved)
}

/// One transaction. The error states whether the commit was sent.
async fn record(
    catalog: &mut MySqlConnection,
    token: &Token,
    expected: i64,
) -> Result<Saved, (sqlx::Error, bool)> {
    let mut tx = catalog.begin().await.map_err(|error| (error, false))?;
    let saved = change(&mut tx, token, expected).await.map_err(|error| (error, false))?;
    match saved {
        Saved::Done(_) => tx.commit().await.map_err(|error| (error, true))?,
        Saved::Conflict(_) => tx.rollback().await.map_err(|error| (error, false))?,
    }
    Ok(saved)
}

async fn change(tx: &mut MySqlConnection, token: &Token, expected: i64) -> sqlx::Result<Saved> {
    // First: any other that saves waits here.
    let revision = counted_by(tx, REVISION, 1).await?;
    let existing =
        sqlx::query(sql!(access, read_revision)).bind(token.id.as_str()).fetch_optional(&mut *tx).await?;
    let existing: i64 = existing.map(|row| row.try_get(0)).transpose()?.unwrap_or(0);
    if existing != expected {
        return Ok(Saved::Conflict(existing));
    }
    let reach = serde_json::to_string(&token.grant).expect("lists of texts always have a JSON form");
    let save = sqlx::query(sql!(access, save)).bind(token.id.as_str()).bind(&token.name).bind(reach);
    let save = save
        .bind(token.secret.to_hex())
        .bind(token.previous.as_ref().map(|previous| previous.secret.to_hex()));
    let save = save
        .bind(token.previous.as_ref().map(|previous| previous.until.0))
        .bind(token.created_at.0)
        .bind(&token.created_by);
    let save = save
        .bind(token.expires_at.map(|expires_at| expires_at.0))
        .bind(token.rotated_at.map(|rotated_at| rotated_at.0));
    let save = save.bind(token.revoked.as_ref().map(|revoked| revoked.at.0));
    let save = save.bind(token.revoked.as_ref().map(|revoked| revoked.by.as_str())).bind(revision);
    let save = save.bind(token.required_at.map(|at| at.0));
    save.execute(&mut *tx).await?;
    Ok(Saved::Done(revision))
}
