//! Checks a run every few milliseconds: inflicts what is due on the server, and decides when the run is over. Must
//! end in bounded time whatever the server does.

use crate::{
    ask::ask_about_open,
    clock::now_us,
    execute::{Manner, execute_all},
    fault::Faults,
    insert::{InsertCall, insert_all},
    job::{JobThread, RunJob},
    outage::Outage,
    progress::LoadProgress,
    report::{FaultReport, KillReport, OutageReport},
    run::options::RunOptions,
    server::{Server, Used},
    subscribe::Subscription,
};
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;

const TICK: Duration = Duration::from_millis(10);
/// After the last outcome executors continue polling this long, to see what should not come.
const AFTERMATH_US: i64 = 300_000;
/// The interval of questions about tasks in doubt.
const ASK_INTERVAL_US: i64 = 500_000;

/// The end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunEnd {
    Complete,
    OutOfTime,
    Interrupted,
}

impl RunEnd {
    pub(crate) fn broken(self) -> Option<String> {
        match self {
            Self::Complete => None,
            Self::OutOfTime => Some("not done in time".into()),
            Self::Interrupted => Some("interrupted".into()),
        }
    }
}

/// The disturbances of the server in mid-run, and their effects.
#[derive(Debug)]
pub(crate) struct Disturbance {
    pub(crate) kill: Option<KillReport>,
    pub(crate) faults: Vec<FaultReport>,
    pub(crate) outage: Option<OutageReport>,
    pub(crate) broken: Vec<String>,
}

pub(crate) struct Watcher<'a> {
    options: &'a RunOptions,
    server: Server,
    job: Arc<RunJob>,
    start_us: i64,
    kill_at_us: Option<i64>,
    /// When the server was killed, when it was gone, and how it came back.
    kill: Option<(i64, i64, KillReport)>,
    faults: Faults,
    outage: Option<Outage>,
    stop: watch::Sender<bool>,
    /// Still at work: inserts first, executors last.
    lanes: Vec<JobThread>,
    is_inserted: bool,
    complete_since_us: Option<i64>,
    next_question_us: i64,
}

impl<'a> Watcher<'a> {
    pub(crate) fn new(
        options: &'a RunOptions,
        server: Server,
        job: Arc<RunJob>,
        start_ms: i64,
    ) -> anyhow::Result<Self> {
        let (stop, stopped) = watch::channel(false);
        let mut lanes = vec![start_inserts(options, &job, stopped.clone())?];
        if !options.insert_only {
            lanes.push(start_executors(options, &server, &job, stopped)?);
        }
        Ok(Self {
            options,
            server,
            faults: Faults::new(&options.faults, options.server.engines(), start_ms * 1_000)?,
            outage: Outage::new(&options.faults, start_ms * 1_000),
            start_us: start_ms * 1_000,
            kill_at_us: options.kill_after.map(|after_ms| (start_ms + after_ms) * 1_000),
            kill: None,
            job,
            stop,
            lanes,
            is_inserted: false,
            complete_since_us: None,
            next_question_us: 0,
        })
    }

    pub(crate) async fn watch(&mut self) -> anyhow::Result<RunEnd> {
        let mut progress = LoadProgress::new(self.options.common.progress);
        let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
        loop {
            tokio::select! {
                _ = &mut interrupt => return Ok(RunEnd::Interrupted),
                () = tokio::time::sleep(TICK) => {}
            }
            progress.tick(&self.job.checker);
            self.poll_lanes()?;
            self.kill_when_due().await?;
            if self.faults.turn(self.server.engines()).await? {
                self.job.checker.lock().watch_aftermath(now_us());
            }
            if let Some(outage) = &mut self.outage {
                outage.turn(&mut self.server).await?;
            }
            if let Some(end) = self.end() {
                return Ok(end);
            }
            self.ask_when_in_doubt().await;
        }
    }

    /// Executors never end by themselves but with an error; inserts do when all are answered.
    fn poll_lanes(&mut self) -> anyhow::Result<()> {
        self.server.check_alive()?;
        let mut working = Vec::new();
        for mut lane in self.lanes.drain(..) {
            match lane.poll() {
                None => working.push(lane),
                Some(result) => {
                    result?;
                    self.is_inserted = true;
                }
            }
        }
        self.lanes = working;
        Ok(())
    }

    async fn kill_when_due(&mut self) -> anyhow::Result<()> {
        let [engine] = self.server.engines() else { return Ok(()) };
        if self.kill_at_us.is_none_or(|at_us| now_us() < at_us) {
            return Ok(());
        }
        self.kill_at_us = None;
        let killed_us = now_us();
        engine.kill().await?;
        let dead_us = now_us();
        self.job.checker.lock().watch_aftermath(dead_us);
        engine.start_again().await?;
        let report = KillReport {
            killed_after_s: milliseconds(killed_us - self.start_us) / 1e3,
            ready_after_ms: milliseconds(now_us() - killed_us),
            first_task_after_ms: None,
        };
        self.kill = Some((killed_us, dead_us, report));
        Ok(())
    }

    fn end(&mut self) -> Option<RunEnd> {
        let now_us = now_us();
        let is_executed = self.options.insert_only || self.job.checker.lock().open() == 0;
        let is_complete = self.is_inserted && is_executed;
        // What is still to be done to the server would be left out otherwise.
        if !is_complete || self.kill_at_us.is_some() || !self.disturbances_are_over() {
            self.complete_since_us = None;
            return (now_us > self.deadline_us()).then_some(RunEnd::OutOfTime);
        }
        let since_us = *self.complete_since_us.get_or_insert(now_us);
        let aftermath_us = if self.options.insert_only { 0 } else { AFTERMATH_US };
        (now_us - since_us >= aftermath_us).then_some(RunEnd::Complete)
    }

    fn disturbances_are_over(&self) -> bool {
        self.faults.are_over() && self.outage.as_ref().is_none_or(Outage::is_over)
    }

    /// Without executors the due times mean nothing: then it is inserts that must not stand still.
    fn deadline_us(&self) -> i64 {
        let counted_from_us = if self.options.insert_only {
            self.job.checker.lock().last_insert_us.max(self.start_us)
        } else {
            self.job.plan.last_due_ms.saturating_mul(1_000)
        };
        counted_from_us.saturating_add(self.options.grace.saturating_mul(1_000))
    }

    /// When nothing but doubt is left, or the last task has been due for long, the server is asked.
    async fn ask_when_in_doubt(&mut self) {
        let (open, doubtful) = {
            let checker = self.job.checker.lock();
            (checker.open(), checker.open_doubtful())
        };
        let grace_us = self.options.grace.saturating_mul(1_000);
        let is_late = now_us() > self.deadline_us() - grace_us / 3 * 2;
        let is_asked = self.is_inserted && doubtful > 0 && (open == doubtful || is_late);
        if is_asked && now_us() >= self.next_question_us {
            ask_about_open(&self.job).await;
            self.next_question_us = now_us() + ASK_INTERVAL_US;
        }
    }

    pub(crate) const fn server(&self) -> &Server {
        &self.server
    }

    pub(crate) fn used(&self) -> Used {
        self.server.used()
    }

    /// Ends the executors; the server stays until the caller drops the returned value.
    pub(crate) async fn stop(self) -> anyhow::Result<(Server, Disturbance)> {
        self.stop.send_replace(true);
        for lane in self.lanes {
            lane.join().await?;
        }
        let aftermaths = self.job.checker.lock().aftermaths().to_vec();
        let kill = self.kill.map(|(killed_us, dead_us, kill)| {
            let first_us = aftermaths.first().and_then(|aftermath| aftermath.first_after_us());
            let first_task_after_ms = first_us.map(|first_us| milliseconds(first_us + dead_us - killed_us));
            KillReport { first_task_after_ms, ..kill }
        });
        let (faults, broken) = (self.faults.reports(&aftermaths), self.faults.broken());
        let outage = self.outage.as_ref().and_then(Outage::report);
        Ok((self.server, Disturbance { kill, faults, outage, broken }))
    }
}

fn milliseconds(span_us: i64) -> f64 {
    span_us as f64 / 1e3
}

fn start_inserts(
    options: &RunOptions,
    job: &Arc<RunJob>,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<JobThread> {
    let (job, connections) = (Arc::clone(job), options.connections());
    let call = if options.singles { InsertCall::Single } else { InsertCall::Batch };
    JobThread::start("insert", stop, move || insert_all(job, call, connections))
}

fn start_executors(
    options: &RunOptions,
    server: &Server,
    job: &Arc<RunJob>,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<JobThread> {
    let job = Arc::clone(job);
    let whole_ms = |ms: i64| u64::try_from(ms).unwrap_or(0);
    let manner = Manner {
        executors: options.executors,
        lease_max: options.lease_max,
        wait_ms: whole_ms(options.wait),
        lease_ms: whole_ms(options.lease),
        linger: Duration::from_millis(whole_ms(options.linger)),
        work: Duration::ZERO,
    };
    let bus_url = server.bus_url().filter(|_| options.subscribers > 0);
    let subscription = bus_url.map(|bus_url| Subscription {
        bus_url,
        subscribers: options.subscribers,
        namespace: options.server.namespace.clone(),
        lease_ms: options.lease,
    });
    JobThread::start("execute", stop, move || execute_all(job, manner, subscription))
}
