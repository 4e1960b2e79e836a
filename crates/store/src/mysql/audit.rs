//! The audit in the catalog. Each statement is alone and is sent once. An entry that was perhaps appended is appended
//! again only by a caller that sent a key with it, by which it is stored once; otherwise the change that it belongs
//! to is refused.

use super::{
    background::to_its_end,
    row,
    state::{MySqlState, MysqlStore},
    statements::sql,
    timeouts::{LONG, WRITE, within},
};
use crate::{Error, audit, rows};
use async_trait::async_trait;
use punctual_contract::{
    AuditStore, Error as CallError,
    audit::{AuditEntry, AuditPage, AuditQuery, AuditResult},
};
use punctual_domain::time::Millis;
use sqlx::Row as _;
use std::{future::Future, sync::Arc};

#[async_trait]
impl AuditStore for MysqlStore {
    async fn append_audit(&self, entry: AuditEntry) -> Result<i64, CallError> {
        self.once("append to the audit", |inner| append(inner, entry)).await
    }

    async fn complete_audit(&self, id: i64, result: AuditResult) -> Result<(), CallError> {
        self.once("complete an entry of the audit", |inner| complete(inner, id, result)).await
    }

    async fn audit_entries(&self, query: AuditQuery) -> Result<AuditPage, CallError> {
        self.reading_within(LONG, "read the audit", |inner| entries(inner, query)).await
    }

    async fn trim_audit(&self, before: Millis, limit: usize) -> Result<usize, CallError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let work = move |inner: Arc<MySqlState>| async move {
            let trim = sqlx::query(sql!(audit, delete_oldest)).bind(before.0).bind(limit);
            let done = trim.execute(&mut *inner.access.acquire().await?).await?;
            Ok(usize::try_from(done.rows_affected()).unwrap_or(usize::MAX))
        };
        self.once("trim the audit", work).await
    }
}

impl MysqlStore {
    /// Runs a statement to its end, even if the caller disconnects.
    async fn once<A: Send + 'static, F: Future<Output = sqlx::Result<A>> + Send + 'static>(
        &self,
        doing: &'static str,
        work: impl FnOnce(Arc<MySqlState>) -> F,
    ) -> Result<A, CallError> {
        match to_its_end(within(WRITE, work(Arc::clone(&self.inner)))).await {
            Ok(done) => done.map_err(|error| CallError::may_have_happened(doing, error)),
            Err(panicked) => Err(CallError::may_have_happened(doing, Error::Panicked(panicked.to_string()))),
        }
    }
}

async fn append(inner: Arc<MySqlState>, entry: AuditEntry) -> sqlx::Result<i64> {
    let result = entry.result.as_ref();
    let append = sqlx::query(sql!(audit, append)).bind(entry.at.0).bind(&entry.token_id);
    let append = append.bind(&entry.caller).bind(&entry.address).bind(&entry.action).bind(&entry.request);
    let append = append.bind(&entry.namespace).bind(&entry.request_id).bind(entry.times);
    let append =
        append.bind(result.map(|audit| i32::from(audit.status))).bind(result.map(|audit| audit.at.0));
    let append = append.bind(result.and_then(|audit| audit.reason.as_deref()));
    let append = append.bind(result.and_then(|audit| audit.before.as_deref()));
    let append = append.bind(result.and_then(|audit| audit.after.as_deref()));
    let append = append.bind(entry.key.map(Vec::from));
    let done = append.execute(&mut *inner.access.acquire().await?).await?;
    i64::try_from(done.last_insert_id()).map_err(|error| row::odd(0, error))
}

async fn complete(inner: Arc<MySqlState>, id: i64, result: AuditResult) -> sqlx::Result<()> {
    let complete = sqlx::query(sql!(audit, complete)).bind(i32::from(result.status)).bind(result.at.0);
    let complete = complete.bind(&result.reason).bind(&result.before).bind(&result.after).bind(id);
    complete.execute(&mut *inner.access.acquire().await?).await.map(drop)
}

async fn entries(inner: Arc<MySqlState>, query: AuditQuery) -> sqlx::Result<AuditPage> {
    let mut conn = inner.access.acquire().await?;
    let bounds = sqlx::query(sql!(audit, read_bounds)).fetch_one(&mut *conn).await?;
    let bounds = (bounds.try_get(0)?, bounds.try_get(1)?);
    let first = match audit::first_at(&query) {
        None => None,
        Some(at) => {
            let first = sqlx::query(sql!(audit, find_since)).bind(at.0).fetch_optional(&mut *conn).await?;
            Some(first.map(|row| row.try_get::<i64, _>(0)).transpose()?)
        }
    };
    let Some(range) = audit::range(&query, bounds, first) else { return Ok(AuditPage::default()) };
    let mut asked = sqlx::query(sql!(audit, list_page)).bind(range.from).bind(range.below);
    for text in [&query.token_id, &query.action, &query.namespace] {
        let text = text.as_deref().unwrap_or_default();
        asked = asked.bind(text).bind(text);
    }
    let asked = asked.bind(query.since.unwrap_or(Millis(i64::MIN)).0);
    let asked = asked.bind(query.until.unwrap_or(Millis::MAX).0);
    let asked = asked.bind(i64::try_from(query.limit).unwrap_or(i64::MAX));
    let rows = asked.fetch_all(&mut *conn).await?;
    let entries = rows.iter().map(rows::audit_entry).collect::<sqlx::Result<_>>()?;
    Ok(audit::page(&query, range, AuditPage { entries, next_before_id: None }))
}
