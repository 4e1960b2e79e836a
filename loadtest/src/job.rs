//! The state that the threads of a run share, and the threads themselves: one for inserts and one for executors, each
//! with a runtime of its own, so that building a large insert does not delay the reading of a receipt.

use crate::{check::Checker, http::Target, plan::Plan, wire::Shape};
use anyhow::Context as _;
use parking_lot::Mutex;
use std::{future::Future, sync::Arc, time::Duration};
use tokio::sync::{oneshot, watch};

#[derive(Debug)]
pub(crate) struct RunJob {
    pub(crate) target: Target,
    /// The engines for inserts, and those for executors.
    pub(crate) inserts_at: Target,
    pub(crate) executes_at: Target,
    pub(crate) shape: Shape,
    pub(crate) plan: Arc<Plan>,
    pub(crate) checker: Mutex<Checker>,
}

impl RunJob {
    pub(crate) fn new(target: Target, shape: Shape, plan: Plan) -> Arc<Self> {
        let everywhere = [target.clone(), target.clone()];
        Self::at(target, everywhere, shape, plan)
    }

    pub(crate) fn at(
        target: Target,
        [inserts_at, executes_at]: [Target; 2],
        shape: Shape,
        plan: Plan,
    ) -> Arc<Self> {
        let plan = Arc::new(plan);
        let checker = Mutex::new(Checker::new(Arc::clone(&plan)));
        Arc::new(Self { target, inserts_at, executes_at, shape, plan, checker })
    }
}

/// Work on a thread of its own, until it ends, fails, or is stopped.
#[derive(Debug)]
pub(crate) struct JobThread {
    name: &'static str,
    result: oneshot::Receiver<anyhow::Result<()>>,
}

impl JobThread {
    pub(crate) fn start<W>(
        name: &'static str,
        mut stop: watch::Receiver<bool>,
        work: impl FnOnce() -> W + Send + 'static,
    ) -> anyhow::Result<Self>
    where
        W: Future<Output = anyhow::Result<()>>,
    {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (sender, result) = oneshot::channel();
        let run = move || {
            let outcome = runtime.block_on(async {
                tokio::select! {
                    outcome = work() => outcome,
                    _ = stop.wait_for(|stop| *stop) => Ok(()),
                }
            });
            // No caller waits for it any more when the run has failed elsewhere.
            let _ = sender.send(outcome);
        };
        std::thread::Builder::new().name(name.into()).spawn(run).context("starting a thread")?;
        Ok(Self { name, result })
    }

    /// Returns `None` while the thread works.
    pub(crate) fn poll(&mut self) -> Option<anyhow::Result<()>> {
        match self.result.try_recv() {
            Ok(result) => Some(result.context(self.name)),
            Err(oneshot::error::TryRecvError::Empty) => None,
            Err(oneshot::error::TryRecvError::Closed) => Some(Err(anyhow::anyhow!("{} panicked", self.name))),
        }
    }

    pub(crate) async fn join(self) -> anyhow::Result<()> {
        self.result.await.map_err(|_| anyhow::anyhow!("{} panicked", self.name))?.context(self.name)
    }
}

/// Executors never end by themselves but with an error; inserts do when all are answered.
pub(crate) fn still_at_work(threads: Vec<JobThread>) -> anyhow::Result<Vec<JobThread>> {
    let mut working = Vec::new();
    for mut thread in threads {
        match thread.poll() {
            None => working.push(thread),
            Some(result) => result?,
        }
    }
    Ok(working)
}

/// Pauses between repetitions of a call: short, so that a restart is noticed at once, yet no busy loop.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    repetitions: u32,
}

impl Pause {
    pub(crate) async fn wait(&mut self) {
        self.repetitions += 1;
        let pause_ms = 10_u64.saturating_mul(u64::from(self.repetitions)).min(50);
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
    }
}
