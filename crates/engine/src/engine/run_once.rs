//! Runs of an engine whose clock is moved by its caller: every service runs once, in the order of a task's
//! path. The steps are those of a running engine (`services`). Must not decide anything about a task.

use super::Engine;
use crate::{
    access, audit, clock, control, executors, for_later, idle,
    maintenance::{compensate, deletion, expired_leases, mark_ready, overdue, reconcile, retention, unused},
    options::STEP_LIMIT,
    parts,
    pipeline::{
        ahead, drain, fire, hot_set_monitor, intake, preload, push, refill, remote_tasks, scan,
        scan::state::next_scan_at, unknown,
    },
    shares,
    sharing::{adopt, announce, listen, own},
};
use futures_util::future::BoxFuture;
use punctual_contract::{Error as BackendError, hot::HotEntry, store::Scan};
use punctual_domain::{state::State, time::Millis};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The results of one run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineRun {
    /// The number of acquired partitions.
    pub gained: usize,
    pub preloaded: usize,
    pub drained: usize,
    pub fired: usize,
    pub leases_ended: usize,
    pub swept: usize,
    pub retired: usize,
}

impl Engine {
    /// Runs every service once at the clock's present time, for a caller that moves the clock manually. Must
    /// not be called on a started engine.
    ///
    /// # Errors
    /// The first failure of a back end; completed steps remain.
    pub fn run_once(&self) -> BoxFuture<'_, Result<EngineRun, BackendError>> {
        Box::pin(async move {
            let core = &self.core;
            clock::run_once(core).await?;
            let now = core.now();
            listen::run_once(core).await;
            // Even if the owners cannot be read: held partitions continue.
            let owned = own::run_once(core).await;
            control::run_once(core).await?;
            access::run_once(core).await?;
            let fired_from_store = hot_set_monitor::run_once(core).await?;
            let scanned = scan::run_once(core).await?;
            scan::serve_ready(core).await?;
            adopt::run_once(core).await?;
            let preloaded = preload::run_once(core, now).await?;
            core.work.claims_drained().await;
            let drained = drain::run_once(core).await?;
            core.live.lock().forget_old_attempts(now);
            ahead::run_once(core).await?;
            core.work.claims_drained().await;
            core.firing.timer.expired(now);
            let mut fired = fired_from_store + scanned + fire::fire_all(core).await + fire::fire_again(core);
            unknown::run_once(core, now).await?;
            parts::run_once(core).await?;
            for_later::run_once(core).await?;
            let leases_ended = expired_leases::run_once(core, now).await?;
            let swept = refill::run_once(core).await?;
            reconcile::run_once(core, now).await?;
            compensate::run_once(core, now).await?;
            core.work.claims_drained().await;
            fired += fire::fire_all(core).await;
            for queue in core.push_queues().into_iter().map(Arc::new) {
                while push::run_once(core, &queue, 0).await?.published > 0 {}
            }
            mark_ready::run_once(core, now).await?;
            let retired = retention::run_once(core, now).await?;
            deletion::run_once(core, now).await?;
            unused::run_once(core, now).await?;
            executors::run_once(core, now).await?;
            idle::run_once(core, now).await?;
            audit::run_once(core, now).await?;
            shares::run_once(core, now).await?;
            remote_tasks::run_once(core);
            announce::run_once(core).await?;
            overdue::run_manually(core, now).await?;
            Ok(EngineRun { gained: owned?, preloaded, drained, fired, leases_ended, swept, retired })
        })
    }

    /// Answers requests of other engines until `end` is cancelled, for an engine that is run manually: their
    /// calls wait for it.
    pub fn listen<'a>(&'a self, end: &'a CancellationToken) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            while !end.is_cancelled() {
                // An error means that signals may have been missed, and that everything was looked at.
                drop(listen::run_until(&self.core, end).await);
            }
        })
    }

    /// Ends an engine that is run manually, as [`crate::Running::stop`] does: returns claimed tasks, and lets
    /// the other engines know that its partitions are free.
    pub fn leave(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.core.work.stopping.cancel();
            // Tasks that were passed to this engine are returned, and no more are accepted.
            listen::run_once(&self.core).await;
            self.core.shared.signals.close().await;
            self.core.work.drain().await;
            ahead::clear(&self.core).await;
            let passed = self.core.live.lock().take_passed();
            if !passed.is_empty() {
                intake::admit(&self.core, passed).await;
            }
            self.core.work.claims_drained().await;
            // Fired and not handed over: marked ready.
            while let Ok(1..) = mark_ready::run_once(&self.core, Millis::MAX).await {}
            for written in
                [access::note_used(&self.core).await, audit::write_noted(&self.core).await.map(drop)]
            {
                if let Err(error) = written {
                    tracing::warn!(%error, "what was refused, or when tokens were used, could not be written");
                }
            }
            own::leave(&self.core).await;
            // Leases made in these partitions are returned.
            self.core.work.claims_drained().await;
        })
    }

    /// Sends pending announcements to the other engines now; a running engine does so by itself.
    ///
    /// # Errors
    /// Fails if an announcement cannot be sent; the others then find the change at their next check.
    pub fn announce(&self) -> BoxFuture<'_, Result<usize, BackendError>> {
        Box::pin(async move { announce::run_once(&self.core).await })
    }

    /// The next instant at which a run has work, or `None` if nothing waits and no lease is active.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn next_turn_at(&self) -> Result<Option<Millis>, BackendError> {
        let mut next: Option<Millis> = None;
        for partition in self.core.partitions() {
            let limit = if self.core.settings.known().scanned.is_empty() { 1 } else { STEP_LIMIT };
            let scan = Scan { partition, until: Millis::MAX, after: None, limit };
            let waiting = self.core.store.scan(scan).await?;
            next = next.into_iter().chain(waiting.iter().map(|entry| self.turn_of(entry))).min();
        }
        let ends = self.core.store.leases_ended(Millis::MAX, 1).await?;
        Ok(next
            .into_iter()
            .chain(ends.first().and_then(|task| task.lease.as_ref()).map(|lease| lease.until))
            .min())
    }

    /// A task of a queue that is scanned fires with a scan.
    fn turn_of(&self, entry: &HotEntry) -> Millis {
        if entry.state == State::Ready || !self.core.settings.is_scanned(&entry.queue) {
            return entry.due_at;
        }
        let interval_ms = self.core.settings.queue(&entry.queue).scan_interval_ms();
        next_scan_at(&entry.queue, interval_ms, entry.due_at.max(self.core.now()).plus(-1))
    }
}
