//! The audit of commands that work on a store itself: written before what they do, completed after it, as the API does it.

use crate::clock::SystemClock;
use anyhow::{Context, Result};
use punctual_contract::{
    AuditStore, Clock as _,
    audit::{AuditEntry, AuditResult},
};
use std::fmt::Display;

/// The migration that creates a store.
const FIRST_MIGRATION: &str = "0001_tasks";

/// The user who runs the command, by the environment.
pub(crate) fn operator() -> String {
    let user = std::env::var("USER").ok().filter(|text| !text.is_empty());
    user.map_or_else(|| "command".to_owned(), |user| format!("{user} (command)"))
}

/// The change of a command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Audited<T> {
    pub(crate) value: T,
    /// JSON.
    pub(crate) before: Option<String>,
    pub(crate) after: Option<String>,
}

/// Writes the audit entry of migrations that updated an existing store. It is written after them, unlike for every
/// other change: they may have created the audit itself. The creation of a store has no entry.
pub(crate) async fn note_migrations(store: &dyn AuditStore, applied: &[String], said: &str) -> Result<()> {
    if applied.is_empty() || applied.iter().any(|text| text == FIRST_MIGRATION) {
        return Ok(());
    }
    let after = Some(serde_json::json!({ "applied": applied }).to_string());
    let work = async { Ok(Audited { value: (), before: None, after }) };
    audited(store, "migrate", said, work).await.context("the schema is up to date")
}

/// Does the work when its entry is written; nothing is done when that fails.
pub(crate) async fn audited<T>(
    store: &dyn AuditStore,
    action: &str,
    said: impl Display,
    work: impl Future<Output = Result<Audited<T>>>,
) -> Result<T> {
    let entry = AuditEntry {
        at: SystemClock.now(),
        caller: operator(),
        action: action.to_owned(),
        request: format!("punctual {said}"),
        times: 1,
        ..AuditEntry::default()
    };
    let id = store.append_audit(entry).await.context("the audit cannot be written, and nothing was done")?;
    let done = work.await;
    let at = SystemClock.now();
    let result = match &done {
        Ok(audited) => AuditResult {
            at,
            status: 200,
            before: audited.before.clone(),
            after: audited.after.clone(),
            reason: None,
        },
        Err(error) => {
            AuditResult { at, status: 500, reason: Some(format!("{error:#}")), ..AuditResult::default() }
        }
    };
    if let Err(error) = store.complete_audit(id, result).await {
        tracing::warn!(%error, "an entry of the audit stays without its result");
    }
    done.map(|audited| audited.value)
}
