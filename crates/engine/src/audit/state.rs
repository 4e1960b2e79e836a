//! Unwritten entries of the audit: refusals by kind, and changes of tasks in their order. Writes none of them
//! itself.

use parking_lot::Mutex;
use punctual_contract::audit::{AuditEntry, AuditKey, AuditResult};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::atomic::AtomicI64,
};
use tokio::sync::Semaphore;

/// Kinds of refusals in one period; further ones are counted together.
const KINDS_MAX: usize = 1_000;
const MINUTE_MS: i64 = 60_000;
/// The maximum number of changes of tasks in memory while the audit cannot be written. The oldest are dropped first;
/// the tasks' histories remain.
const NOTED_MAX: usize = 10_000;

/// Refused attempts that count as one: of one token (or none) from one address, in one minute, with one answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    minute: i64,
    status: u16,
    token_id: Option<String>,
    address: Option<String>,
}

/// The maximum number of concurrent writers. They suffice for a thousand changes a second. While the catalog hangs,
/// no more wait for it.
pub(super) const WRITERS_MAX: u32 = 4;

#[derive(Debug)]
pub(crate) struct Audit {
    refused: Mutex<BTreeMap<Kind, AuditEntry>>,
    /// Changes of tasks, the oldest first, and refusals whose write failed. A failed write may have succeeded
    /// nevertheless, so its entry stays unchanged and counts once.
    pub(super) noted: Mutex<VecDeque<AuditEntry>>,
    pub(super) writers: Semaphore,
    pub(super) trimmed_at: AtomicI64,
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

/// Returns `None` if the machine has no randomness: a repeated entry could then not be distinguished from a new one.
fn new_key() -> Option<AuditKey> {
    let mut key = AuditKey::default();
    getrandom::fill(&mut key).is_ok().then_some(key)
}

impl Audit {
    /// The first refusal of a kind records what was tried.
    pub(super) fn refuse(&self, entry: AuditEntry, status: u16) {
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

    pub(super) fn note(&self, entry: AuditEntry) {
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

    pub(super) fn pending(&self) -> usize {
        self.noted.lock().len() + self.refused.lock().len()
    }

    /// The next entry to write, if any.
    pub(super) fn next(&self) -> Option<AuditEntry> {
        let noted = self.noted.lock().pop_front();
        noted.or_else(|| self.refused.lock().pop_first().map(|pair| pair.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_domain::time::Millis;

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
        let times: Vec<i64> = audit.refused.lock().values().map(|entry| entry.times).collect();
        assert_eq!((times.len(), times.iter().sum::<i64>(), times.iter().max()), (4, 6, Some(&3)));
    }

    #[test]
    fn of_changes_that_cannot_be_written_the_newest_are_kept() {
        let audit = Audit::default();
        for at in 0..10_003 {
            audit.note(entry(at, "a"));
        }
        let noted = audit.noted.lock();
        let ends = (noted.front().map(|entry| entry.at.0), noted.back().map(|entry| entry.at.0));
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
        assert_eq!(refused.values().map(|entry| entry.times).sum::<i64>(), 5_000);
    }
}
