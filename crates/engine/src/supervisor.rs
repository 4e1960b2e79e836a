//! Keeps the engine's services running: each runs at its period, on its own task. It is restarted after a
//! panic, counted, and stopped with the others. Decides nothing about tasks.

use crate::{core::Core, meters::ServiceMeters};
use futures_util::future::BoxFuture;
use punctual_contract::Error;
use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::task::{JoinError, JoinHandle};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Pause after a run that ended early, so that repeated early ends do not take a processor.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// An endless run that has lasted this long counts as healthy, whatever preceded it.
const RECOVERED_AFTER: Duration = Duration::from_secs(10);

type Run = Result<Result<usize, Error>, JoinError>;
/// One run of a service, and what requests an early one. Boxed, or all code below would be compiled for each
/// service.
type Once = Arc<dyn Fn(Arc<Core>) -> BoxFuture<'static, Result<usize, Error>> + Send + Sync>;
type Ask = Arc<dyn Fn(Arc<Core>) -> BoxFuture<'static, ()> + Send + Sync>;

#[derive(Debug, Default)]
pub(crate) struct Supervisor {
    services: TaskTracker,
    /// Periodic ones so far.
    periodic: AtomicU32,
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

    /// Runs `once` every `period`, and earlier when `asked` completes, until the engine stops.
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
        A: Future<Output = ()> + Send + 'static,
    {
        let asked: Ask = Arc::new(move |core| Box::pin(asked(core)));
        self.run_every(core, name, period, asked, Arc::new(move |core| Box::pin(once(core))));
    }

    fn run_every(&self, core: &Arc<Core>, name: &'static str, period: Duration, asked: Ask, once: Once) {
        let meters = core.meters.service(name);
        let turn = turn_of(self.periodic.fetch_add(1, Relaxed), period);
        let (its, runs) = (Arc::clone(core), self.services.clone());
        self.keep(core, Arc::clone(&meters), move || {
            let (core, meters, runs) = (Arc::clone(&its), Arc::clone(&meters), runs.clone());
            let (once, asked) = (Arc::clone(&once), Arc::clone(&asked));
            Box::pin(async move {
                let stopping = core.work.stopping.clone();
                let mut ticks = tokio::time::interval(period);
                ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
                // The first run is immediate.
                ticks.tick().await;
                ticks.reset_after(turn);
                let mut goes_on = !stopping.is_cancelled();
                while goes_on {
                    let run = runs.spawn(once(Arc::clone(&core)));
                    record(&core, &meters, run.await);
                    goes_on = tick(&mut ticks, asked(Arc::clone(&core)), &stopping).await;
                }
            })
        });
    }

    /// Runs `work` without a time limit; restarts it whenever it ends before the engine does.
    pub(crate) fn always<F, W>(&self, core: &Arc<Core>, name: &'static str, work: F)
    where
        F: Fn(Arc<Core>) -> W + Send + Sync + 'static,
        W: Future<Output = Result<usize, Error>> + Send + 'static,
    {
        self.run_always(core, name, Arc::new(move |core| Box::pin(work(core))));
    }

    fn run_always(&self, core: &Arc<Core>, name: &'static str, work: Once) {
        let meters = core.meters.service(name);
        let (its, runs) = (Arc::clone(core), self.services.clone());
        self.keep(core, Arc::clone(&meters), move || {
            let (core, meters, runs) = (Arc::clone(&its), Arc::clone(&meters), runs.clone());
            let work = Arc::clone(&work);
            Box::pin(async move {
                while !core.work.stopping.is_cancelled() {
                    let run = runs.spawn(work(Arc::clone(&core)));
                    record(&core, &meters, while_it_lasts(&meters, run).await);
                    // Before the engine stops it is missing, however it ended.
                    if !core.work.stopping.is_cancelled() {
                        tokio::time::sleep(AGAIN_AFTER).await;
                    }
                }
            })
        });
    }

    /// Runs `service` until it ends by itself, and again if it panics. This code itself cannot panic: it does
    /// not even log a line.
    fn keep(
        &self,
        core: &Core,
        meters: Arc<ServiceMeters>,
        service: impl Fn() -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) {
        let (runs, stopping) = (self.services.clone(), core.work.stopping.clone());
        self.services.spawn(async move {
            while runs.spawn(service()).await.is_err() && !stopping.is_cancelled() {
                meters.panicked();
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        });
    }

    /// Waits until every service has ended its last run.
    pub(crate) async fn stopped(&self) {
        self.services.close();
        self.services.wait().await;
    }
}

/// The delay of a service's second run, by the index of the service; later runs follow every `period`. All services
/// begin together, and their periods are multiples of each other. Without this delay they would always run at the
/// same instants, and due tasks would wait for all of them. Multiples of the golden section are spread evenly,
/// however many there are.
fn turn_of(nth: u32, period: Duration) -> Duration {
    /// Nearly all periods are multiples of this.
    const COMMON: Duration = Duration::from_millis(250);
    const GOLDEN: f64 = 0.618_033_988_75;
    period.min(COMMON).mul_f64((f64::from(nth + 1) * GOLDEN).fract())
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

/// Waits for an endless run, which reports no success: failures are over when none has occurred for a while.
async fn while_it_lasts(meters: &ServiceMeters, mut run: JoinHandle<Result<usize, Error>>) -> Run {
    match tokio::time::timeout(RECOVERED_AFTER, &mut run).await {
        Ok(ended) => ended,
        Err(_) => {
            recovered(meters);
            run.await
        }
    }
}

/// Logs the recovery for readers who saw the failures.
fn recovered(meters: &ServiceMeters) {
    let failures = meters.recovered();
    if failures > 0 {
        tracing::info!(service = meters.name, failures, "service runs well again");
    }
}

fn record(core: &Core, meters: &ServiceMeters, run: Run) {
    meters.runs.fetch_add(1, Relaxed);
    match run {
        Ok(Ok(handled)) => {
            recovered(meters);
            meters.succeeded_at.store(core.now().0, Relaxed);
            meters.handled.fetch_add(u64::try_from(handled).unwrap_or(u64::MAX), Relaxed);
        }
        Ok(Err(error)) => {
            let failures = meters.failed();
            tracing::warn!(service = meters.name, failures, %error, "service failed; it runs again");
        }
        Err(panic) => {
            meters.panicked();
            tracing::error!(service = meters.name, %panic, "service panicked; it is started again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twenty, as an engine has, in their periods: for a minute no two begin in the same 2 ms.
    #[test]
    fn services_take_turns() {
        const PERIODS_MS: [u32; 5] = [250, 1_000, 500, 1_000, 5_000];
        let mut begun = vec![0; 30_000];
        for nth in 0..20 {
            let period = PERIODS_MS[nth as usize % PERIODS_MS.len()];
            let turn = turn_of(nth, Duration::from_millis(period.into()));
            assert!(turn < Duration::from_millis(period.into()));
            let first = usize::try_from(turn.as_millis()).unwrap();
            (first..60_000).step_by(period as usize).for_each(|at| begun[at / 2] += 1);
        }
        assert_eq!(
            begun.iter().max(),
            Some(&1),
            "without turns all twenty begin together every five seconds"
        );
    }
}
