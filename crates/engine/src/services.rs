//! The services of a running engine: which ones exist, how often each runs, and what wakes it earlier. Must
//! not contain a service's work.

use crate::{
    access,
    agenda::{self, state::Topic},
    alerts, audit, clock, control,
    core::Core,
    engine::Engine,
    executors, for_later, idle,
    maintenance::{
        compensate, deletion, expired_leases, index, mark_ready, overdue, reconcile, retention, unused,
    },
    parts,
    pipeline::{ahead, drain, fire, hot_set_monitor, preload, push, refill, remote_tasks, scan, unknown},
    readiness, shares,
    sharing::{adopt, announce, database_reachability, listen, own},
    supervisor::Supervisor,
};
use futures_util::future::BoxFuture;
use punctual_contract::{Error, hot::Keeps};
use punctual_domain::time::Millis;
use std::{future::Future, sync::Arc, time::Duration};
use tokio::{
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    time::sleep,
};

/// The interval of services that are asked to run whenever there is something to do. A little longer than five seconds, which is the
/// interval of what the planner does besides.
const RARELY: Duration = Duration::from_millis(5_100);

/// An engine at work.
#[derive(Debug)]
pub struct Running {
    pub(crate) engine: Engine,
    pub(crate) supervisor: Supervisor,
    pub(crate) wheel_thread: std::thread::JoinHandle<()>,
}

impl Running {
    /// Stops the engine: no task fires any more, running work is finished, claims are returned, and the other
    /// engines know that its partitions are free.
    pub fn stop(self) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.engine.core.work.stopping.cancel();
            self.engine.core.firing.timer.stop();
            self.supervisor.stopped().await;
            if self.wheel_thread.join().is_err() {
                tracing::error!("the wheel's thread had panicked");
            }
            self.engine.leave().await;
        })
    }

    /// Runs `once` every `period` beside the engine's own services, and once immediately. It is restarted
    /// after a panic, counted, part of the alerts, and stopped with the engine. A run that is interrupted by
    /// the stop is dropped, so the next run must be able to continue from any state.
    pub fn supervise<F, W>(&self, name: &'static str, period: Duration, once: F)
    where
        F: Fn(Millis) -> W + Send + Sync + 'static,
        W: Future<Output = Result<usize, Error>> + Send + 'static,
    {
        self.supervise_when(name, period, std::future::pending, once);
    }

    /// The same, and ahead of its time when `asked` is done.
    pub fn supervise_when<F, W, A>(
        &self,
        name: &'static str,
        period: Duration,
        asked: impl Fn() -> A + Send + Sync + 'static,
        once: F,
    ) where
        F: Fn(Millis) -> W + Send + Sync + 'static,
        W: Future<Output = Result<usize, Error>> + Send + 'static,
        A: Future<Output = ()> + Send + 'static,
    {
        self.supervisor.every_or_when(
            &self.engine.core,
            name,
            period,
            move |_| asked(),
            move |core| {
                let (run, stopping) = (once(core.now()), core.work.stopping.clone());
                async move {
                    tokio::select! {
                        done = run => done,
                        () = stopping.cancelled() => Ok(0),
                    }
                }
            },
        );
    }
}

impl Running {
    /// As `supervise_when`, of a service that reads the store for one topic: it runs only if there may be work there, as soon as an
    /// agenda shows it, and whenever `asked` is done.
    pub fn supervise_topic<F, W, A>(
        &self,
        (topic, name): (Topic, &'static str),
        period: Duration,
        asked: impl Fn() -> A + Send + Sync + 'static,
        once: F,
    ) where
        F: Fn(Millis) -> W + Send + Sync + 'static,
        W: Future<Output = Result<usize, Error>> + Send + 'static,
        A: Future<Output = ()> + Send + 'static,
    {
        let (waiting, gate) = (Arc::clone(&self.engine.core), Arc::clone(&self.engine.core));
        let asked = move || {
            let (core, asked) = (Arc::clone(&waiting), asked());
            async move {
                tokio::select! {
                    () = asked => core.agendas.distrust(topic),
                    () = called(&core, topic, period) => {}
                }
            }
        };
        let once = Arc::new(once);
        self.supervise_when(name, interval(period), asked, move |now| {
            let (core, once) = (Arc::clone(&gate), Arc::clone(&once));
            async move { if agenda::has_nothing(&core, topic) { Ok(0) } else { once(now).await } }
        });
    }
}

/// A service that is called runs rarely by itself; one that was set to a long interval keeps to it.
fn interval(period: Duration) -> Duration {
    if period <= agenda::CALLS_WITHIN { RARELY } else { period }
}

/// Waits until an agenda shows work for a service of this interval.
async fn called(core: &Core, topic: Topic, period: Duration) {
    if period <= agenda::CALLS_WITHIN {
        core.agendas.called(topic).await;
    } else {
        std::future::pending().await
    }
}

/// Runs a service that reads the store for one topic, if there may be work, and as soon as an agenda shows it.
fn on_agenda<F, W>(
    supervisor: &Supervisor,
    core: &Arc<Core>,
    (topic, name): (Topic, &'static str),
    period: Duration,
    once: F,
) where
    F: Fn(Arc<Core>) -> W + Send + Sync + 'static,
    W: Future<Output = Result<usize, Error>> + Send + 'static,
{
    let asked = move |core: Arc<Core>| async move { called(&core, topic, period).await };
    let once = Arc::new(once);
    supervisor.every_or_when(core, name, interval(period), asked, move |core| {
        let once = Arc::clone(&once);
        async move { if agenda::has_nothing(&core, topic) { Ok(0) } else { once(core).await } }
    });
}

impl Engine {
    /// Records, before `start`, that the hot set did not answer its first call. Firing begins from the store, and
    /// continues by the hot set as soon as it answers.
    pub fn begins_without_hot_set(&self, error: &Error) {
        hot_set_monitor::mark_unavailable(&self.core, error);
    }

    /// Starts the wheel's thread and all services; needs a tokio runtime.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(&self) -> std::io::Result<Running> {
        let (due, ticks) = unbounded_channel();
        let meters = self.core.meters.service("wheel");
        let wheel_thread = self.core.firing.timer.spawn(Arc::clone(&self.core.clock), due, meters)?;
        self.core.health.firing.beat();
        readiness::begin(&self.core);
        let supervisor = Supervisor::default();
        let interval_ms = self.core.options.agenda_interval_ms.min(self.core.options.lease_check_interval_ms);
        supervisor.every(&self.core, "agenda", Duration::from_millis(interval_ms), |core| async move {
            agenda::run_once(&core).await
        });
        let settings = (Topic::Settings, "settings");
        on_agenda(&supervisor, &self.core, settings, control::PERIOD, |core| async move {
            control::run_once(&core).await
        });
        self.supervise_access(&supervisor);
        self.supervise_sharing(&supervisor);
        self.supervise_pipeline(&supervisor, ticks);
        if self.core.store_fallback.hot_set_keeps() == Keeps::Due {
            self.supervise_hot_set(&supervisor);
        }
        self.supervise_store_source(&supervisor);
        self.supervise_maintenance(&supervisor);
        self.supervise_deletion(&supervisor);
        Ok(Running { engine: self.clone(), supervisor, wheel_thread })
    }

    fn supervise_access(&self, supervisor: &Supervisor) {
        let core = &self.core;
        let asked = |core: Arc<Core>| async move { core.agendas.called(Topic::Access).await };
        supervisor.every_or_when(core, "access", access::PERIOD, asked, |core| async move {
            access::run_when_changed(&core).await
        });
        supervisor.every(core, "audit", audit::PERIOD, |core| async move {
            audit::run_once(&core, core.now()).await
        });
    }

    fn supervise_sharing(&self, supervisor: &Supervisor) {
        let core = &self.core;
        supervisor.every(core, "clock", clock::PERIOD, |core| async move { clock::run_once(&core).await });
        let asked = |core: Arc<Core>| async move { core.sharing.look_at_ownership.notified().await };
        supervisor.every_or_when(core, "own", own::PERIOD, asked, |core| async move {
            own::stay_alive(&core).await
        });
        let asked = |core: Arc<Core>| async move { core.sharing.rebalance.notified().await };
        supervisor.every_or_when(core, "rebalance", own::PERIOD, asked, |core| async move {
            own::rebalance(&core).await
        });
        supervisor.every(core, "reach", database_reachability::PERIOD, |core| async move {
            database_reachability::run_once(&core).await
        });
        supervisor.every(core, "elsewhere", remote_tasks::PERIOD, |core| async move {
            Ok(remote_tasks::run_once(&core))
        });
        supervisor.always(core, "announce", announce::run);
        supervisor.always(core, "listen", listen::run);
        supervisor.always(core, "drain_asked", listen::drain_asked);
    }

    fn supervise_pipeline(&self, supervisor: &Supervisor, ticks: UnboundedReceiver<()>) {
        let core = &self.core;
        let ticks = Arc::new(tokio::sync::Mutex::new(ticks));
        supervisor.always(core, "fire", move |core| fire::fire_when_due(core, Arc::clone(&ticks)));
        supervisor.always(core, "ahead", ahead::run);
        let asked = |core: Arc<Core>| async move { core.limits.shares.wanted().await };
        supervisor.every_or_when(core, "shares", shares::PERIOD, asked, |core| async move {
            shares::run_once(&core, core.now()).await
        });
        let pushers = Arc::new(push::Pushers::default());
        // A pusher that failed is started again; without push queues there is none.
        let asked = |core: Arc<Core>| async move {
            if core.push_queues().is_empty() {
                core.settings.changed.push.notified().await;
            } else {
                sleep(control::PERIOD).await;
            }
        };
        supervisor.every_or_when(core, "push", RARELY, asked, move |core| {
            let pushers = Arc::clone(&pushers);
            async move { Ok(pushers.run_once(&core)) }
        });
    }

    fn supervise_deletion(&self, supervisor: &Supervisor) {
        let asked = |core: Arc<Core>| async move {
            if deletion::is_going(&core) {
                sleep(deletion::PERIOD).await;
            } else {
                core.settings.changed.deletion.notified().await;
            }
        };
        supervisor.every_or_when(&self.core, "deletion", RARELY, asked, |core| async move {
            deletion::run_once(&core, core.now()).await
        });
        supervisor.every(&self.core, "idle_queues", idle::PERIOD, |core| async move {
            idle::run_once(&core, core.now()).await
        });
        // Not called: it works at a bounded rate.
        supervisor.every(&self.core, "index", index::PERIOD, |core| async move {
            if agenda::has_nothing(&core, Topic::Labels) {
                return Ok(0);
            }
            index::run_once(&core, core.now()).await
        });
    }

    /// Services that fill the hot set and take due tasks from it.
    fn supervise_hot_set(&self, supervisor: &Supervisor) {
        let core = &self.core;
        let asked = |core: Arc<Core>| async move { core.filling.look_through.notified().await };
        supervisor.every_or_when(core, "adopt", Duration::from_secs(1), asked, |core| async move {
            adopt::run_once(&core).await
        });
        let period = Duration::from_millis(core.options.claim_interval_ms);
        supervisor.every(core, "drain", period, |core| async move { drain::run_once(&core).await });
        let period = Duration::from_millis(core.options.preload_interval_ms);
        let asked = |core: Arc<Core>| async move { core.filling.preload.notified().await };
        supervisor.every_or_when(core, "preload", period, asked, |core| async move {
            preload::run_once(&core, core.now()).await
        });
        supervisor.always(core, "refill_asked", refill::when_asked);
    }

    /// Services that read tasks from the store without the hot set.
    fn supervise_store_source(&self, supervisor: &Supervisor) {
        let core = &self.core;
        supervisor.every_or_when(
            core,
            "from_store",
            hot_set_monitor::PERIOD,
            hot_set_monitor::is_asked,
            |core| async move { hot_set_monitor::run_once(&core).await },
        );
        let asked = |core: Arc<Core>| async move {
            if scan::is_needed(&core) {
                sleep(scan::PERIOD).await;
            } else {
                core.settings.changed.scan.notified().await;
            }
        };
        supervisor.every_or_when(
            core,
            "scan",
            RARELY,
            asked,
            |core| async move { scan::run_once(&core).await },
        );
        supervisor.every(core, "scan_ready", scan::READY_PERIOD, |core| async move {
            scan::serve_ready(&core).await
        });
    }

    fn supervise_maintenance(&self, supervisor: &Supervisor) {
        let core = &self.core;
        let period = Duration::from_millis(core.options.sweep_interval_ms);
        let asked = |core: Arc<Core>| async move { core.filling.overdue.asked().await };
        supervisor.every_or_when(core, "refill", period, asked, |core| async move {
            core.live.lock().forget_old_attempts(core.now());
            refill::run(core).await
        });
        let period = Duration::from_millis(core.options.reconcile_interval_ms);
        supervisor.every_or_when(core, "reconcile", period, reconcile::when_asked, |core| async move {
            reconcile::run_once(&core, core.now()).await
        });
        // Before leases are ended.
        let asked = |core: Arc<Core>| async move {
            if core.maintenance.for_later.has_journal() {
                sleep(for_later::PERIOD).await;
            } else {
                std::future::pending().await
            }
        };
        supervisor.every_or_when(core, "outcomes_for_later", RARELY, asked, |core| async move {
            for_later::run_once(&core).await
        });
        let period = Duration::from_millis(core.options.lease_check_interval_ms);
        on_agenda(supervisor, core, (Topic::Leases, "leases"), period, |core| async move {
            expired_leases::run_once(&core, core.now()).await
        });
        let period = Duration::from_millis(core.options.compensate_interval_ms);
        supervisor.every(core, "compensate", period, |core| async move {
            compensate::run_once(&core, core.now()).await
        });
        let period = Duration::from_millis(core.options.mark_ready_interval_ms);
        supervisor.every(core, "mark_ready", period, |core| async move {
            mark_ready::run_once(&core, core.now()).await
        });
        supervisor.every(core, "parts", parts::PERIOD, |core| async move {
            let given_back = unknown::run_once(&core, core.now()).await;
            let offered = parts::run_once(&core).await?;
            Ok(given_back? + offered)
        });
        supervisor.every(core, "executors", executors::PERIOD, |core| async move {
            executors::run_once(&core, core.now()).await
        });
        let period = Duration::from_millis(core.options.overdue_look_interval_ms);
        supervisor
            .every(core, "overdue", period, |core| async move { overdue::run_once(&core, core.now()).await });
        supervisor.every(core, "alerts", alerts::PERIOD, |core| async move {
            alerts::run_once(&core, core.now()).await
        });
        supervisor.every(core, "check_writers", readiness::PERIOD, |core| async move {
            readiness::run_once(&core).await
        });
        let period = Duration::from_millis(core.options.retire_interval_ms);
        supervisor.every(core, "retention", period, |core| async move {
            retention::run_once(&core, core.now()).await
        });
        let period = Duration::from_millis(core.options.unused_interval_ms);
        supervisor.every(
            core,
            "unused",
            period,
            |core| async move { unused::run_once(&core, core.now()).await },
        );
    }
}
