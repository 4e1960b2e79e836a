//! Writes the leases that executors got during an outage, once the database returns, for their fences, and before
//! anything else of their attempts. A refused lease is not made another way: the task was cancelled or changed, or is
//! with another executor, and the outcome of the refused attempt is stale. Must not decide which tasks are handed
//! over.

use super::{
    hand_over::lease_in_table,
    lease::{AttemptStatus, JournalledLease, WaitingLease},
    pass::JournalPass,
    patience::{LOOK_WITHIN, STORE_ANSWERS_WITHIN, asked},
    record::Waiting,
};
use crate::answer::Reported;
use punctual_contract::{
    Error,
    journal::AttemptKey,
    store::{Beat, Dispatched, Extended, Grant},
};
use punctual_domain::{place::TaskRef, task::Task, time::Millis};

/// An outcome that waits is applied so soon after its lease is made, however many wait before it.
const OUTCOME_FOLLOWS_MS: i64 = 10_000;

/// The result for one lease.
enum Written {
    /// The store has it.
    Made,
    /// The attempt has ended: no lease is needed.
    Ended,
    Refused,
    /// It cannot be made now: another call is at it.
    Waits,
}

impl JournalPass<'_> {
    /// Writes leases of one database that answers. Failed ones are tried again in the next run.
    pub(super) async fn leases(&mut self, waiting: Vec<WaitingLease>) -> Result<(), Error> {
        let now = self.core.now();
        let grants: Vec<Grant> = waiting.iter().map(|(_, lease)| lease.grant(self.until(lease))).collect();
        let dispatched = asked(STORE_ANSWERS_WITHIN, self.core.store.dispatch(grants, now)).await?;
        let lost: Vec<TaskRef> = waiting
            .iter()
            .zip(&dispatched)
            .filter(|(_, dispatched)| **dispatched == Dispatched::Lost)
            .map(|((_, lease), _)| lease.place)
            .collect();
        let read = asked(LOOK_WITHIN, self.core.store.read(&lost));
        let rows = if lost.is_empty() { Vec::new() } else { read.await? };
        let mut rows = rows.into_iter();
        let (mut done, mut written) = (Vec::new(), 0);
        for ((number, lease), dispatched) in waiting.into_iter().zip(dispatched) {
            let became = match dispatched {
                Dispatched::Made(_) => Written::Made,
                Dispatched::Paused => Written::Waits,
                Dispatched::Lost => match lease.status_of(rows.next().flatten().as_ref()) {
                    AttemptStatus::Open => Written::Waits,
                    AttemptStatus::Ended => Written::Ended,
                    AttemptStatus::Refused => Written::Refused,
                    AttemptStatus::Made(until) => self.prolong(&lease, until).await,
                },
            };
            match became {
                Written::Waits => {}
                Written::Made | Written::Ended => {
                    self.has_lease(&lease, matches!(became, Written::Made));
                    written += usize::from(matches!(became, Written::Made));
                    done.push(number);
                }
                Written::Refused => self.refuse(number, &lease),
            }
        }
        self.core.maintenance.for_later.count_leases_written(written);
        self.journal.done(done).await;
        Ok(())
    }

    /// Defers outcomes that are stale because their lease is not written yet: another engine handed the task over,
    /// and will write it.
    pub(super) async fn without_early(
        &self,
        waiting: Vec<Waiting>,
        recorded: Vec<Reported>,
    ) -> (Vec<Waiting>, Vec<Reported>) {
        let stale = waiting.iter().zip(&recorded).filter(|(_, recorded)| **recorded == Reported::Stale);
        let stale: Vec<(AttemptKey, TaskRef)> =
            stale.map(|((_, report), _)| (report.key(), report.submission.report.place)).collect();
        if stale.is_empty() {
            return (waiting, recorded);
        }
        let places: Vec<TaskRef> = stale.iter().map(|(_, place)| *place).collect();
        let Ok(rows) = asked(LOOK_WITHIN, self.core.store.read(&places)).await else {
            // It is unknown which of them are early: all of them wait.
            let is_stale = |waiting: &Waiting| stale.iter().any(|(key, _)| *key == waiting.1.key());
            return waiting.into_iter().zip(recorded).filter(|(waiting, _)| !is_stale(waiting)).unzip();
        };
        let is_before = |key: &AttemptKey, row: Option<Task>| {
            row.is_some_and(|row| row.fence == key.fence - 1 && row.state.is_waiting())
        };
        let state = &self.core.maintenance.for_later;
        let early = stale.iter().zip(rows).filter(|((key, _), row)| is_before(key, row.clone()));
        let early: Vec<AttemptKey> =
            early.map(|((key, _), _)| *key).filter(|key| state.may_be_early(*key)).collect();
        let is_early = |waiting: &Waiting| early.contains(&waiting.1.key());
        waiting.into_iter().zip(recorded).filter(|(waiting, _)| !is_early(waiting)).unzip()
    }

    /// Restores the leases in the table, after a start or a takeover.
    pub(super) fn know_again(&self, waiting: &[WaitingLease]) {
        let mut table = self.core.live.lock();
        for (_, lease) in waiting {
            table.hand_over_for_later(lease.entry(), lease_in_table(lease));
        }
    }

    /// The lease end, as the last heartbeat has set it. If the outcome waits, the lease must last until that
    /// is applied: otherwise another engine would end it.
    fn until(&self, lease: &JournalledLease) -> Millis {
        let known = self.core.live.lock().for_later(lease.place.id, lease.fence).map(|known| known.until);
        let until = known.unwrap_or(lease.until);
        if self.journal.digest_of(lease.key()).is_none() {
            return until;
        }
        until.max(self.core.now().plus(OUTCOME_FOLLOWS_MS)).min(lease.longest)
    }

    /// A call whose answer was lost has made the lease, and heartbeats followed. If the lease has ended by
    /// now, they were too late.
    async fn prolong(&mut self, lease: &JournalledLease, made_until: Millis) -> Written {
        let until = self.until(lease);
        if until > made_until {
            let beat = Beat {
                place: lease.place,
                fence: lease.fence,
                lease_until: until,
                progress: None,
                log: None,
                executor: lease.executor.clone(),
                handed_over_at: None,
            };
            let extended = asked(STORE_ANSWERS_WITHIN, self.core.store.extend(vec![beat], self.core.now()));
            return match extended.await {
                Ok(answers) if answers.first() == Some(&Extended::Lost) => Written::Ended,
                Ok(_) => Written::Made,
                Err(error) => {
                    self.failed = Some(error);
                    Written::Waits
                }
            };
        }
        Written::Made
    }

    /// `is_made`: the attempt continues. If its executor never learned of it, the lease is returned, and the
    /// attempt with it.
    fn has_lease(&self, lease: &JournalledLease, is_made: bool) {
        let (now, mut table) = (self.core.now(), self.core.live.lock());
        let is_unheard = table.for_later(lease.place.id, lease.fence).is_some_and(|known| known.is_unheard);
        if is_made && is_unheard {
            table.record_for_later(lease.place.id, lease.fence);
            table.doubt_made(vec![lease.entry()], now);
        } else {
            table.written_for_later(lease.place.id, lease.fence, now);
        }
    }

    /// Refuses a lease. Its record is removed after that of its outcome, so that a start in between finds both or
    /// none.
    fn refuse(&mut self, number: u64, lease: &JournalledLease) {
        let (task, fence, executor) = (lease.place.id, lease.fence, &lease.executor);
        tracing::warn!(
            task,
            fence,
            executor,
            "a task that was handed over while its database was away was cancelled, changed or leased elsewhere meanwhile; its \
             outcome does not count"
        );
        self.core.live.lock().refuse_for_later(task, fence);
        self.core.maintenance.for_later.count_leases_refused();
        self.refused.push((number, lease.key()));
    }
}
