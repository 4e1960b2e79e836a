//! A steady load on a queue of its own, beside what is measured: how late its tasks come. Must not know what is measured.

use crate::{
    clock::{now_ms, now_us},
    execute::{Manner, execute_all},
    http::Target,
    insert::{InsertCall, insert_all},
    job::{JobThread, RunJob, still_at_work},
    measure::Percentiles,
    plan::{Frame, LoadShape, Plan},
    server::Server,
    wire::Shape,
};
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;

const LOOK: Duration = Duration::from_millis(100);
const LEAD_MS: i64 = 100;
/// Least time from insert to due, and how long they may take in the end.
const AHEAD_MS: i64 = 1_000;
const GRACE_MS: i64 = 30_000;

#[derive(Debug, Clone, Copy)]
pub(crate) struct SteadyLoad {
    /// Tasks a second.
    pub(crate) rate: u64,
    pub(crate) duration_ms: i64,
    pub(crate) executors: usize,
}

/// Lateness, and what was broken. `each_look` runs again and again while the load does.
pub(crate) async fn load_beside(
    SteadyLoad { rate, duration_ms, executors }: SteadyLoad,
    server: &mut Server,
    target: &Target,
    mut each_look: impl AsyncFnMut(&mut Server, &RunJob) -> anyhow::Result<()>,
) -> anyhow::Result<(Percentiles, Vec<String>)> {
    let start_ms = now_ms() + LEAD_MS;
    let shape = Shape::new(format!("beside-{start_ms}"), start_ms * 1_000, 200);
    let batch = usize::try_from(rate / 10).unwrap_or(1).clamp(1, 1_000);
    let frame = Frame { start_ms, ahead_ms: AHEAD_MS, batch, seed: 1 };
    let job =
        RunJob::new(target.clone(), shape, Plan::new(LoadShape::Sustained { rate, duration_ms }, frame));
    let (stop, stopped) = watch::channel(false);
    let (inserted, executed) = (Arc::clone(&job), Arc::clone(&job));
    let manner = Manner {
        executors,
        lease_max: 500,
        wait_ms: 5_000,
        lease_ms: 10_000,
        linger: Duration::from_millis(5),
        work: Duration::ZERO,
    };
    let mut threads = vec![
        JobThread::start("insert", stopped.clone(), move || insert_all(inserted, InsertCall::Batch, 2))?,
        JobThread::start("execute", stopped, move || execute_all(executed, manner, None))?,
    ];
    let until_us = (job.plan.last_due_ms + GRACE_MS) * 1_000;
    let all = u64::try_from(job.plan.len())?;
    let is_over = || {
        let checker = job.checker.lock();
        checker.so_far().inserted >= all && checker.open() == 0 && now_us() > job.plan.last_due_ms * 1_000
    };
    while !is_over() && now_us() < until_us {
        tokio::time::sleep(LOOK).await;
        each_look(server, &job).await?;
        server.check_alive()?;
        threads = still_at_work(threads)?;
    }
    stop.send_replace(true);
    for thread in threads {
        thread.join().await?;
    }
    let checker = job.checker.lock();
    Ok((checker.measured.lateness.percentiles(), checker.judge().broken()))
}
