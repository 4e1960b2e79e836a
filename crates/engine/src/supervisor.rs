//! Keeps the engine's services running: each is run at its period, on its own task, started again after a panic,
//! counted, and stopped together. Decides nothing about tasks.

use crate::{core::Core, meters::ServiceMeters};
use punctual_contract::Error;
use std::{
    future::Future,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

#[derive(Debug, Default)]
pub(crate) struct Supervisor {
    services: TaskTracker,
}

impl Supervisor {
    /// Runs `once` every `period` until the engine stops. A run that overlaps its period delays the next one.
    pub(crate) fn every<F, W>(&self, core: &Arc<Core>, name: &'static str, period: Duration, once: F)
    where
        F: Fn(Arc<Core>) -> W + Send + Sync + 'static,
        W: Future<Output = Result<usize, Error>> + Send + 'static,
    {
        self.every_or_when(core, name, period, |_| std::future::pending(), once);
    }

    /// Runs `once` every `period`, and ahead of it when `asked` is done, until the engine stops.
    pub(crate) fn every_or_when<F, W, A>(
        &self,
        core: &Arc<Core>,
        name: &'static str,
        period: Duration,
        asked: impl Fn(Arc<Core>) -> A + Send + Sync + 'static,
        once: F,
    ) where
        F: Fn(Arc<Core>) -> W + Send + Sync + 'static,
        W: Future<Output = Result<usize, Error>> + Send + 'static,
        A: Future<Output = ()> + Send,
    {
        let (core, meters) = (Arc::clone(core), core.meters.service(name));
        let runs = self.services.clone();
        self.services.spawn(async move {
            let stopping = core.stopping.clone();
            let mut ticks = tokio::time::interval(period);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            while tick(&mut ticks, asked(Arc::clone(&core)), &stopping).await {
                let run = runs.spawn(once(Arc::clone(&core)));
                record(&meters, run.await);
            }
        });
    }

    /// Runs `work` once, for as long as it takes; again if it panics.
    pub(crate) fn always<F, W>(&self, core: &Arc<Core>, name: &'static str, work: F)
    where
        F: Fn(Arc<Core>) -> W + Send + Sync + 'static,
        W: Future<Output = Result<usize, Error>> + Send + 'static,
    {
        let (core, meters) = (Arc::clone(core), core.meters.service(name));
        let runs = self.services.clone();
        self.services.spawn(async move {
            while !core.stopping.is_cancelled() {
                let run = runs.spawn(work(Arc::clone(&core)));
                if record(&meters, run.await) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    }

    /// Waits until every service has ended its last run.
    pub(crate) async fn stopped(&self) {
        self.services.close();
        self.services.wait().await;
    }
}

async fn tick(
    ticks: &mut tokio::time::Interval,
    asked: impl Future<Output = ()>,
    stopping: &CancellationToken,
) -> bool {
    tokio::select! {
        biased;
        () = stopping.cancelled() => false,
        () = asked => true,
        _ = ticks.tick() => true,
    }
}

/// True: it ended well.
fn record(meters: &ServiceMeters, run: Result<Result<usize, Error>, tokio::task::JoinError>) -> bool {
    meters.runs.fetch_add(1, Relaxed);
    match run {
        Ok(Ok(handled)) => {
            meters.failures_in_a_row.store(0, Relaxed);
            meters.handled.fetch_add(u64::try_from(handled).unwrap_or(u64::MAX), Relaxed);
            true
        }
        Ok(Err(error)) => {
            meters.failures.fetch_add(1, Relaxed);
            meters.failures_in_a_row.fetch_add(1, Relaxed);
            tracing::warn!(service = meters.name, %error, "service failed; it runs again");
            false
        }
        Err(panic) => {
            meters.panics.fetch_add(1, Relaxed);
            meters.failures_in_a_row.fetch_add(1, Relaxed);
            tracing::error!(service = meters.name, %panic, "service panicked; it is started again");
            false
        }
    }
}
