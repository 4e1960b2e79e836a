//! The engine's part of the audit. Refused calls are collected and written in batches. Changes of single tasks are written
//! beside the changes, and old entries are deleted. Entries of other changes are written by the caller, before the change.

pub(crate) mod state;

use crate::{core::Core, engine::Engine, options::STEP_LIMIT};
use punctual_contract::{Error, audit::AuditEntry};
use punctual_domain::time::Millis;
use state::WRITERS_MAX;
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

/// The period in which refusals are written.
pub(crate) const PERIOD: Duration = Duration::from_secs(60);
const TRIM_PERIOD_MS: i64 = 3_600_000;
/// Batches in one run; the rest waits for the next run.
const TRIM_BATCHES: usize = 10;

/// Writes noted refusals, and deletes expired entries. Returns how many entries were written or deleted.
pub(crate) async fn run_once(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    let written = write_noted(core).await?;
    Ok(written + trim(core, now).await?)
}

/// Writes all noted entries, including those that other writers hold.
pub(crate) async fn write_noted(core: &Arc<Core>) -> Result<usize, Error> {
    let all = core.callers.audit.writers.acquire_many(WRITERS_MAX).await;
    let mut written = 0;
    // At most as many as are pending now, however fast others are added.
    for _ in 0..core.callers.audit.pending() {
        let Some(entry) = core.callers.audit.next() else { break };
        write(core, entry).await?;
        written += 1;
    }
    drop(all);
    Ok(written)
}

/// Writes the noted changes of tasks, unless the maximum number of writers is at work.
async fn write_changes(core: &Arc<Core>) -> Result<(), Error> {
    // A caller that notes an entry as the last writer ends either finds a free permit, or the writer sees its
    // entry.
    while !core.callers.audit.noted.lock().is_empty() {
        let Ok(writer) = core.callers.audit.writers.try_acquire() else { return Ok(()) };
        loop {
            let next = core.callers.audit.noted.lock().pop_front();
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
        core.callers.audit.noted.lock().push_front(entry);
    }
    appended.map(drop)
}

/// One engine does it for all, once an hour.
async fn trim(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    let trimmed_at = Millis(core.callers.audit.trimmed_at.load(Relaxed));
    if !core.leads() || now.since(trimmed_at).abs() < TRIM_PERIOD_MS {
        return Ok(0);
    }
    let before = now.plus(-core.options.keep_audit_ms);
    let mut forgotten = 0;
    for _ in 0..TRIM_BATCHES {
        let batch = core.store.trim_audit(before, STEP_LIMIT).await?;
        forgotten += batch;
        if batch < STEP_LIMIT {
            core.callers.audit.trimmed_at.store(now.0, Relaxed);
            break;
        }
    }
    forget_tokens(core, before).await?;
    Ok(forgotten)
}

/// Deletes tokens that ended before the oldest stored entry: no entry names them.
async fn forget_tokens(core: &Arc<Core>, before: Millis) -> Result<(), Error> {
    for _ in 0..TRIM_BATCHES {
        if core.store.forget_tokens(before, STEP_LIMIT).await? < STEP_LIMIT {
            break;
        }
    }
    Ok(())
}

impl Engine {
    /// Notes a refusal with this status. It is written within a minute, together with similar ones.
    pub fn note_refusal(&self, entry: AuditEntry, status: u16) {
        self.core.callers.audit.refuse(entry, status);
    }

    /// Notes that a task was changed, which its history also has.
    pub fn note_change(&self, entry: AuditEntry) {
        self.core.callers.audit.note(entry);
    }

    /// Writes noted changes, unless enough writers are at work; those do not end before these are written.
    ///
    /// # Errors
    /// A failing store; the rest is tried again within a minute.
    pub async fn write_changes(&self) -> Result<(), crate::Error> {
        let core = Arc::clone(&self.core);
        self.run(async move { Ok(write_changes(&core).await?) }).await
    }

    /// Writes all noted entries, so that a reader of the audit sees its own.
    ///
    /// # Errors
    /// A failing store; the rest is tried again within a minute.
    pub async fn write_noted(&self) -> Result<(), crate::Error> {
        let core = Arc::clone(&self.core);
        self.run(async move { Ok(write_noted(&core).await.map(drop)?) }).await
    }
}
