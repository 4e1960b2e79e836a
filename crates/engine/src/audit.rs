//! The audit from the side of the engine: what was refused is gathered and written together, changes of single tasks are
//! written beside them, and what is over is forgotten. Entries of other changes are written by whoever allows them, before
//! the change.

use crate::{core::Core, engine::Engine, options::STEP_LIMIT};
use parking_lot::Mutex;
use punctual_contract::{
    Error,
    audit::{AuditEntry, AuditKey, AuditResult},
};
use punctual_domain::time::Millis;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::sync::Semaphore;

/// How often what was refused is written.
pub(crate) const PERIOD: Duration = Duration::from_secs(60);
const TRIM_PERIOD_MS: i64 = 3_600_000;
/// Batches in one run: what is left waits for the next.
const TRIM_BATCHES: usize = 10;
/// Kinds of refusals in one period; what comes beyond is counted together.
const KINDS_MAX: usize = 1_000;
const MINUTE_MS: i64 = 60_000;
/// Changes of tasks that are kept while the audit cannot be written; the oldest go first, and their tasks' histories stay.
const NOTED_MAX: usize = 10_000;

/// Refused attempts that count as one: of one token (or none) from one address, in one minute, with one answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    minute: i64,
    status: u16,
    token_id: Option<String>,
    address: Option<String>,
}

/// Who write what was noted, at one time: enough for a thousand changes a second, and while the catalog hangs, all that
/// wait for it.
const WRITERS_MAX: u32 = 4;

#[derive(Debug)]
pub(crate) struct Audit {
    refused: Mutex<BTreeMap<Kind, AuditEntry>>,
    /// Changes of tasks that were made, the oldest first; and of what was refused that whose writing failed: it may have
    /// been written all the same, and stays as it is, so that it counts once.
    noted: Mutex<VecDeque<AuditEntry>>,
    writers: Semaphore,
    trimmed_at: AtomicI64,
}

impl Default for Audit {
    fn default() -> Self {
        Self {
            refused: Mutex::default(),
            noted: Mutex::default(),
            writers: Semaphore::new(WRITERS_MAX as usize),
            trimmed_at: AtomicI64::default(),
        }
    }
}

/// None: the machine gave no randomness, and a repetition cannot be told from another entry.
fn new_key() -> Option<AuditKey> {
    let mut key = AuditKey::default();
    getrandom::fill(&mut key).is_ok().then_some(key)
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
            refused.insert(kind, AuditEntry { times: 1, result, key: new_key(), ..entry });
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
            key: new_key(),
            ..AuditEntry::default()
        };
        refused.entry(others).or_insert_with(first).times += 1;
    }

    fn note(&self, entry: AuditEntry) {
        let mut noted = self.noted.lock();
        noted.push_back(AuditEntry { key: new_key(), ..entry });
        let too_many = noted.len().saturating_sub(NOTED_MAX);
        if too_many > 0 {
            tracing::error!(
                too_many,
                "the audit loses changes of tasks; only the tasks' histories have them"
            );
            noted.drain(..too_many);
        }
    }

    fn pending(&self) -> usize {
        self.noted.lock().len() + self.refused.lock().len()
    }

    /// What is to be written next, unless there is nothing.
    fn next(&self) -> Option<AuditEntry> {
        let noted = self.noted.lock().pop_front();
        noted.or_else(|| self.refused.lock().pop_first().map(|it| it.1))
    }
}

/// Writes what was refused, and forgets what is over. How many entries were written or forgotten.
pub(crate) async fn run_once(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    let written = write_noted(core).await?;
    Ok(written + trim(core, now).await?)
}

/// What was noted, and has not been written yet: all of it, also what others have in their hands.
pub(crate) async fn write_noted(core: &Arc<Core>) -> Result<usize, Error> {
    let all = core.audit.writers.acquire_many(WRITERS_MAX).await;
    let mut written = 0;
    // No more than stands here now, however fast others come.
    for _ in 0..core.audit.pending() {
        let Some(entry) = core.audit.next() else { break };
        write(core, entry).await?;
        written += 1;
    }
    drop(all);
    Ok(written)
}

/// Of changes of tasks alone, unless as many do it as may.
async fn write_changes(core: &Arc<Core>) -> Result<(), Error> {
    // Whoever notes something while the last of them ends finds it ended, or is seen by it.
    while !core.audit.noted.lock().is_empty() {
        let Ok(writer) = core.audit.writers.try_acquire() else { return Ok(()) };
        loop {
            let next = core.audit.noted.lock().pop_front();
            let Some(entry) = next else { break };
            write(core, entry).await?;
        }
        drop(writer);
    }
    Ok(())
}

async fn write(core: &Arc<Core>, entry: AuditEntry) -> Result<(), Error> {
    let appended = core.store.append_audit(entry.clone()).await;
    if appended.is_err() {
        core.audit.noted.lock().push_front(entry);
    }
    appended.map(drop)
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
    forget_tokens(core, before).await?;
    Ok(forgotten)
}

/// Tokens that were over before the oldest entry that is kept: nothing names them any more.
async fn forget_tokens(core: &Arc<Core>, before: Millis) -> Result<(), Error> {
    for _ in 0..TRIM_BATCHES {
        if core.store.forget_tokens(before, STEP_LIMIT).await? < STEP_LIMIT {
            break;
        }
    }
    Ok(())
}

impl Engine {
    /// Notes that something was refused with this status; it is written within a minute, with what is like it.
    pub fn note_refusal(&self, entry: AuditEntry, status: u16) {
        self.core.audit.refuse(entry, status);
    }

    /// Notes that a task was changed, which its history says too.
    pub fn note_change(&self, entry: AuditEntry) {
        self.core.audit.note(entry);
    }

    /// Writes the changes that were noted, unless as many do it already as may: these do not end before.
    ///
    /// # Errors
    /// A failing store; what is left is tried again within a minute.
    pub async fn write_changes(&self) -> Result<(), crate::Error> {
        let core = Arc::clone(&self.core);
        self.run(async move { Ok(write_changes(&core).await?) }).await
    }

    /// Writes what was noted now, for whoever reads the audit: they see their own.
    ///
    /// # Errors
    /// A failing store; what is left is tried again within a minute.
    pub async fn write_noted(&self) -> Result<(), crate::Error> {
        let core = Arc::clone(&self.core);
        self.run(async move { Ok(write_noted(&core).await.map(drop)?) }).await
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
    fn of_changes_that_cannot_be_written_the_newest_are_kept() {
        let audit = Audit::default();
        for at in 0..10_003 {
            audit.note(entry(at, "a"));
        }
        let noted = audit.noted.lock();
        let ends = (noted.front().map(|it| it.at.0), noted.back().map(|it| it.at.0));
        assert_eq!((noted.len(), ends), (NOTED_MAX, (Some(3), Some(10_002))));
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
