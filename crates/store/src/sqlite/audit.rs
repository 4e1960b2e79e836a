//! The audit. An entry is appended before the change, and completed after it.

use super::{lanes::Lane, ledger::Ledger, state::SqliteStore, statements::sql};
use crate::{audit, rows};
use async_trait::async_trait;
use punctual_contract::{
    AuditStore, Error as CallError,
    audit::{AuditEntry, AuditPage, AuditQuery, AuditResult},
};
use punctual_domain::time::Millis;
use rusqlite::{Connection, OptionalExtension as _, params};

#[async_trait]
impl AuditStore for SqliteStore {
    async fn append_audit(&self, entry: AuditEntry) -> Result<i64, CallError> {
        self.writing("append to the audit", 1, move |conn, _: &mut Ledger| append(conn, &entry)).await
    }

    async fn complete_audit(&self, id: i64, audit_result: AuditResult) -> Result<(), CallError> {
        let work = move |conn: &Connection, _: &mut Ledger| {
            let result = params![
                id,
                audit_result.status,
                audit_result.at.0,
                audit_result.reason,
                audit_result.before,
                audit_result.after
            ];
            conn.prepare_cached(sql!(audit, complete))?.execute(result).map(drop)
        };
        self.writing("complete an entry of the audit", 1, work).await
    }

    async fn audit_entries(&self, query: AuditQuery) -> Result<AuditPage, CallError> {
        self.reading("read the audit", Lane::Bulk, move |conn| entries(conn, &query)).await
    }

    async fn trim_audit(&self, before: Millis, limit: usize) -> Result<usize, CallError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let work = move |conn: &Connection, _: &mut Ledger| {
            conn.prepare_cached(sql!(audit, delete_oldest))?.execute(params![before.0, limit])
        };
        self.maintaining("trim the audit", 1, work).await
    }
}

fn append(conn: &Connection, entry: &AuditEntry) -> rusqlite::Result<i64> {
    let result = entry.result.as_ref();
    let values = params![
        entry.at.0,
        entry.token_id,
        entry.caller,
        entry.address,
        entry.action,
        entry.request,
        entry.namespace,
        entry.request_id,
        entry.times,
        result.map(|audit| audit.status),
        result.map(|audit| audit.at.0),
        result.and_then(|audit| audit.reason.as_deref()),
        result.and_then(|audit| audit.before.as_deref()),
        result.and_then(|audit| audit.after.as_deref()),
        entry.key.as_ref().map(<[u8; 16]>::as_slice),
    ];
    conn.prepare_cached(sql!(audit, append))?.query_row(values, |row| row.get(0))
}

fn entries(conn: &Connection, query: &AuditQuery) -> rusqlite::Result<AuditPage> {
    let bounds = conn
        .prepare_cached(sql!(audit, read_bounds))?
        .query_row([], |value| Ok((value.get(0)?, value.get(1)?)))?;
    let first = |at: Millis| {
        conn.prepare_cached(sql!(audit, find_since))?
            .query_row([at.0], |value| value.get::<_, i64>(0))
            .optional()
    };
    let first = audit::first_at(query).map(first).transpose()?;
    let Some(range) = audit::range(query, bounds, first) else { return Ok(AuditPage::default()) };
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let asked = params![
        range.from,
        range.below,
        text(&query.token_id),
        text(&query.action),
        text(&query.namespace),
        query.since.unwrap_or(Millis(i64::MIN)).0,
        query.until.unwrap_or(Millis::MAX).0,
        i64::try_from(query.limit).unwrap_or(i64::MAX),
    ];
    let entries = conn
        .prepare_cached(sql!(audit, list_page))?
        .query_map(asked, |row| rows::audit_entry(row))?
        .collect::<Result<_, _>>()?;
    Ok(audit::page(query, range, AuditPage { entries, next_before_id: None }))
}
