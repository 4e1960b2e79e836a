//! Push, for queues whose executors subscribe: leases ready tasks in the bus's name and publishes them.
//! Order of steps, and what a crash between two of them leaves:
//!
//! 1. The lease is committed (`dispatched`). Crash: nothing was sent; the lease expires, and the task is
//!    retried.
//! 2. The message is published; a refused one is published once more, immediately. Crash: as 1, or it was
//!    sent.
//! 3. A task that was refused twice is marked `dispatch_failed`, and its attempt is returned. A failed mark
//!    is made once more, immediately. After that the lease is in doubt (`unknown`): it is returned, and the
//!    task is ready again. Crash: as 1.
//! 4. The compensator retries `dispatch_failed` tasks. Crash: the partition's next owner finds them in the
//!    store.

pub(crate) mod unsent;

use crate::{
    core::Core,
    pipeline::{
        hand_over::lease,
        request::{LeaseRequest, Restrictions},
    },
};
use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::{Error, store::Assignment};
use punctual_domain::name::QueueKey;
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;
use unsent::mark_failed;

/// Messages in one publish.
const BATCH: usize = 100;
/// The wait of one request for ready tasks.
const WAIT_MS: u64 = 1_000;
/// Pause after a failed publish, to spare an unavailable bus. Doubled each time that nothing was accepted.
const BACK_OFF: Duration = Duration::from_millis(200);
const BACK_OFF_MAX: Duration = Duration::from_secs(2);

/// The result of one request for ready tasks.
#[derive(Debug, Default)]
pub(crate) struct Pushed {
    pub(crate) published: usize,
    /// Could not be sent.
    pub(crate) failed: usize,
}

/// The pushers that are at work, one for each push queue.
#[derive(Debug, Default)]
pub(crate) struct Pushers(Mutex<HashMap<QueueKey, CancellationToken>>);

impl Pushers {
    /// Starts missing pushers and ends superfluous ones: the push queues can change at any time. Returns how
    /// many were started or ended. A pusher that ends finishes the tasks that it has leased.
    pub(crate) fn run_once(&self, core: &Arc<Core>) -> usize {
        let wanted = core.push_queues();
        let mut working = self.0.lock();
        let before = working.len();
        working.retain(|queue, ending| {
            let stays = wanted.contains(queue) && !ending.is_cancelled();
            if !stays {
                ending.cancel();
            }
            stays
        });
        let mut changed = before - working.len();
        for queue in wanted {
            if working.contains_key(&queue) {
                continue;
            }
            let ending = core.work.stopping.child_token();
            working.insert(queue.clone(), ending.clone());
            changed += 1;
            let its = Arc::clone(core);
            core.work.detach(async move {
                // However it ends, even by a panic, it is started again if it is still needed.
                let _ended = ending.clone().drop_guard();
                if let Err(error) = run(its, Arc::new(queue), &ending).await {
                    tracing::warn!(%error, "a pusher failed; it is started again");
                }
            });
        }
        changed
    }
}

/// Pushes one queue until it must end. Returns the number of published messages.
async fn run(core: Arc<Core>, queue: Arc<QueueKey>, ending: &CancellationToken) -> Result<usize, Error> {
    let (mut published, mut back_off) = (0, BACK_OFF);
    while !ending.is_cancelled() {
        let pushed = run_once(&core, &queue, WAIT_MS).await?;
        published += pushed.published;
        if pushed.published > 0 {
            back_off = BACK_OFF;
        }
        if pushed.failed > 0 {
            tokio::select! {
                () = ending.cancelled() => {}
                () = tokio::time::sleep(back_off) => {}
            }
            back_off = (back_off * 2).min(BACK_OFF_MAX);
        }
    }
    Ok(published)
}

pub(crate) async fn run_once(core: &Arc<Core>, queue: &Arc<QueueKey>, wait_ms: u64) -> Result<Pushed, Error> {
    if core.hot.refusal().is_some() {
        // The bus is beside it: it may be another cluster's, whose executors would get these.
        return Ok(Pushed { published: 0, failed: 1 });
    }
    // While the bus accepts nothing and executors pull instead, a single task probes the bus; the others are
    // left to those executors.
    let is_anothers = core.maintenance.unsent.is_failing(queue) && core.arrivals.waiting(queue) > 0;
    let request = LeaseRequest {
        queue: Arc::clone(queue),
        max: if is_anothers { 1 } else { BATCH },
        wait_ms,
        lease_ms: core.options.push_lease_ms,
        executor: "bus".to_owned(),
        // Subscribers declare no version.
        version: None,
    };
    let leased = lease(core, request, Restrictions::default()).await?;
    let count = leased.len();
    if count == 0 {
        return Ok(Pushed::default());
    }
    let mut failed = publish(core, leased).await;
    if !failed.is_empty() {
        failed = publish(core, failed.into_iter().map(|pair| pair.0).collect()).await;
    }
    let pushed = Pushed { published: count - failed.len(), failed: failed.len() };
    core.maintenance.unsent.set_failing(queue, pushed.published == 0);
    if let Some((_, error)) = failed.first() {
        tracing::warn!(queue = %queue.queue, tasks = pushed.failed, error, "tasks could not be sent; the compensator brings them back");
    }
    mark_failed(core, failed).await;
    Ok(pushed)
}

/// Returns the messages that the bus did not accept or confirm, with the error. A message that was delivered
/// nevertheless is refused by its fence once the task is handed over again.
async fn publish(core: &Core, messages: Vec<Assignment>) -> Vec<(Assignment, String)> {
    let results = core.bus.publish(messages.clone()).await;
    let failed: Vec<_> = messages
        .into_iter()
        .zip(results)
        .filter_map(|(message, result)| result.err().map(|error| (message, error.to_string())))
        .collect();
    core.meters.publish_failures(failed.len());
    failed
}
