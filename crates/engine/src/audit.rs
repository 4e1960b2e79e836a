//! The audit from the side of the engine: what was refused is gathered and written together, and what is over is
//! forgotten. Entries of what was allowed are written by whoever allows it, before the change.

use crate::{core::Core, engine::Engine, options::STEP_LIMIT};
use parking_lot::Mutex;
use punctual_contract::{
    Error,
    audit::{AuditEntry, AuditResult},
};
use punctual_domain::time::Millis;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    time::Duration,
};

/// How often what was refused is written.
pub(crate) const PERIOD: Duration = Duration::from_secs(60);
const TRIM_PERIOD_MS: i64 = 3_600_000;
/// Batches in one run: what is left waits for the next.
const TRIM_BATCHES: usize = 10;
/// Kinds of refusals in one period; what comes beyond is counted together.
const KINDS_MAX: usize = 1_000;
const MINUTE_MS: i64 = 60_000;

/// Refused attempts that count as one: of one token (or none) from one address, in one minute, with one answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    minute: i64,
    status: u16,
    token_id: Option<String>,
    address: Option<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Audit {
    refused: Mutex<BTreeMap<Kind, AuditEntry>>,
    trimmed_at: AtomicI64,
}

impl Audit {
    /// The first of a kind says what was tried.
    fn refuse(&self, entry: AuditEntry, status: u16) {
        let minute = entry.at.0.div_euclid(MINUTE_MS);
        let kind = Kind { minute, status, token_id: entry.token_id.clone(), address: entry.address.clone() };
        let mut refused = self.refused.lock();
        if let Some(known) = refused.get_mut(&kind) {
            known.times += 1;
            return;
        }
        if refused.len() < KINDS_MAX {
            let result = Some(AuditResult { at: entry.at, status, ..AuditResult::default() });
            refused.insert(kind, AuditEntry { times: 1, result, ..entry });
            return;
        }
        let others = Kind { minute, status, token_id: None, address: None };
        let first = || AuditEntry {
            at: entry.at,
            caller: "(many)".to_owned(),
            action: "refused".to_owned(),
            request: "more kinds of refused requests than are told apart".to_owned(),
            times: 0,
            result: Some(AuditResult { at: entry.at, status, ..AuditResult::default() }),
            ..AuditEntry::default()
        };
        refused.entry(others).or_insert_with(first).times += 1;
    }

    /// What could not be written is tried again.
    fn back(&self, left: BTreeMap<Kind, AuditEntry>) {
        let mut refused = self.refused.lock();
        for (kind, entry) in left {
            match refused.get_mut(&kind) {
                Some(known) => known.times += entry.times,
                None => drop(refused.insert(kind, entry)),
            }
        }
    }
}

/// Writes what was refused, and forgets what is over. How many entries were written or forgotten.
pub(crate) async fn run_once(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    let written = write_refused(core).await?;
    Ok(written + trim(core, now).await?)
}

pub(crate) async fn write_refused(core: &Arc<Core>) -> Result<usize, Error> {
    let mut left = std::mem::take(&mut *core.audit.refused.lock());
    let mut written = 0;
    while let Some((kind, entry)) = left.pop_first() {
        if let Err(error) = core.store.append_audit(entry.clone()).await {
            left.insert(kind, entry);
            core.audit.back(left);
            return Err(error);
        }
        written += 1;
    }
    Ok(written)
}

/// One engine does it for all, once an hour.
async fn trim(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    let trimmed_at = Millis(core.audit.trimmed_at.load(Relaxed));
    if !core.leads() || now.since(trimmed_at).abs() < TRIM_PERIOD_MS {
        return Ok(0);
    }
    let before = now.plus(-core.options.keep_audit_ms);
    let mut forgotten = 0;
    for _ in 0..TRIM_BATCHES {
        let batch = core.store.trim_audit(before, STEP_LIMIT).await?;
        forgotten += batch;
        if batch < STEP_LIMIT {
            core.audit.trimmed_at.store(now.0, Relaxed);
            break;
        }
    }
    Ok(forgotten)
}

impl Engine {
    /// Notes that something was refused with this status; it is written within a minute, with what is like it.
    pub fn note_refusal(&self, entry: AuditEntry, status: u16) {
        self.core.audit.refuse(entry, status);
    }

    /// Writes what was refused now, for whoever reads the audit: they see their own.
    ///
    /// # Errors
    /// A failing store; what is left is tried again.
    pub async fn write_refused(&self) -> Result<(), crate::Error> {
        let core = Arc::clone(&self.core);
        self.run(async move { Ok(write_refused(&core).await.map(drop)?) }).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(at: i64, address: &str) -> AuditEntry {
        AuditEntry { at: Millis(at), address: Some(address.to_owned()), ..AuditEntry::default() }
    }

    #[test]
    fn refusals_of_one_kind_in_one_minute_are_one_entry_that_counts() {
        let audit = Audit::default();
        for at in [0, 1, 59_999] {
            audit.refuse(entry(at, "a"), 401);
        }
        audit.refuse(entry(60_000, "a"), 401);
        audit.refuse(entry(0, "b"), 401);
        audit.refuse(entry(0, "a"), 403);
        let times: Vec<i64> = audit.refused.lock().values().map(|it| it.times).collect();
        assert_eq!((times.len(), times.iter().sum::<i64>(), times.iter().max()), (4, 6, Some(&3)));
    }

    #[test]
    fn however_many_kinds_come_they_are_bounded_and_all_counted() {
        let audit = Audit::default();
        for nth in 0..5_000 {
            audit.refuse(entry(0, &nth.to_string()), 401);
        }
        let refused = audit.refused.lock();
        assert_eq!(refused.len(), KINDS_MAX + 1);
        assert_eq!(refused.values().map(|it| it.times).sum::<i64>(), 5_000);
    }
}
