//! Tokens. A change and its number are one transaction.

use super::{lanes::Lane, ledger::Ledger, state::SqliteStore, statements::sql};
use crate::rows;
use async_trait::async_trait;
use punctual_contract::{
    AccessStore, Error as CallError,
    access::{Token, Tokens},
    settings::Saved,
};
use punctual_domain::{access::TokenId, time::Millis};
use rusqlite::{Connection, OptionalExtension as _, params};

const REVISION: &str = "access_revision";

#[async_trait]
impl AccessStore for SqliteStore {
    async fn access_revision(&self) -> Result<i64, CallError> {
        self.reading("look at the tokens", Lane::Urgent, revision).await
    }

    async fn tokens(&self) -> Result<Tokens, CallError> {
        self.reading("read the tokens", Lane::Urgent, all).await
    }

    async fn save_token(&self, token: Token, expected: i64) -> Result<Saved, CallError> {
        self.writing("save a token", 1, move |conn, _: &mut Ledger| save(conn, &token, expected)).await
    }

    async fn forget_tokens(&self, ended_before: Millis, limit: usize) -> Result<usize, CallError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let work = move |conn: &Connection, _: &mut Ledger| {
            conn.prepare_cached(sql!(access, delete_expired))?.execute(params![ended_before.0, limit])
        };
        self.maintaining("forget tokens", 1, work).await
    }

    async fn note_tokens_used(&self, used: Vec<(TokenId, Millis)>) -> Result<(), CallError> {
        let work = move |conn: &Connection, _: &mut Ledger| {
            let mut note = conn.prepare_cached(sql!(access, record_use))?;
            used.iter().try_for_each(|(id, at)| note.execute(params![id.as_str(), at.0]).map(drop))
        };
        self.writing("note which tokens were used", 1, work).await
    }
}

fn revision(conn: &Connection) -> rusqlite::Result<i64> {
    conn.prepare_cached(sql!(ledger, read_meta))?.query_row([REVISION], |value| value.get(0))
}

/// Both statements see the same: each reading is a transaction, and in memory nothing runs beside it.
fn all(conn: &Connection) -> rusqlite::Result<Tokens> {
    let revision = revision(conn)?;
    let all = conn
        .prepare_cached(sql!(access, list_all))?
        .query_map([], |row| rows::token(row))?
        .collect::<Result<_, _>>()?;
    Ok(Tokens { revision, all })
}

fn save(conn: &Connection, token: &Token, expected: i64) -> rusqlite::Result<Saved> {
    let id = token.id.as_str();
    let existing: Option<i64> =
        conn.prepare_cached(sql!(access, read_revision))?.query_row([id], |value| value.get(0)).optional()?;
    let existing = existing.unwrap_or(0);
    if existing != expected {
        return Ok(Saved::Conflict(existing));
    }
    let revision: i64 =
        conn.prepare_cached(sql!(access, take_revision))?.query_row([], |value| value.get(0))?;
    let reach = serde_json::to_string(&token.grant).expect("lists of texts always have a JSON form");
    conn.prepare_cached(sql!(access, save))?.execute(params![
        id,
        token.name,
        reach,
        token.secret.to_hex(),
        token.previous.as_ref().map(|previous| previous.secret.to_hex()),
        token.previous.as_ref().map(|previous| previous.until.0),
        token.created_at.0,
        token.created_by,
        token.expires_at.map(|expires_at| expires_at.0),
        token.rotated_at.map(|rotated_at| rotated_at.0),
        token.revoked.as_ref().map(|revoked| revoked.at.0),
        token.revoked.as_ref().map(|revoked| revoked.by.as_str()),
        revision,
        token.required_at.map(|at| at.0)
    ])?;
    Ok(Saved::Done(revision))
}
