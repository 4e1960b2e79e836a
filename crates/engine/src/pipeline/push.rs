//! Step 6 for queues whose executors subscribe: leases ready tasks in the bus's name and publishes them. Order of
//! steps, and what a crash between two of them leaves:
//!
//! 1. The lease is committed (`dispatched`). Crash: nothing was sent; the lease runs out, and the task is tried again.
//! 2. The message is published; one that is refused is published once more, at once. Crash: as 1, or it was sent.
//! 3. What was refused twice is marked `dispatch_failed`, its attempt given back; a mark that fails is made once more, at
//!    once. After that the lease is in doubt (`unknown`): it is given back, and the task is ready again. Crash: as 1.
//! 4. The compensator brings back what is `dispatch_failed`. Crash: the partition's next owner finds it in the store.

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
/// How long one look for ready tasks waits.
const WAIT_MS: u64 = 1_000;
/// After a failed publish, so that a bus that is unavailable is not hammered; twice as long each time that nothing was taken.
const BACK_OFF: Duration = Duration::from_millis(200);
const BACK_OFF_MAX: Duration = Duration::from_secs(2);

/// What one look for ready tasks has brought.
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
    /// Starts those that are missing and ends those that should not be: which they are can change at any time. How many
    /// were started or ended. One that ends finishes what it has leased.
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
                // However it ends, a panic included: it is started again if it is still wanted.
                let _ended = ending.clone().drop_guard();
                if let Err(error) = run(its, Arc::new(queue), &ending).await {
                    tracing::warn!(%error, "a pusher failed; it is started again");
                }
            });
        }
        changed
    }
}

/// Pushes one queue until it is to end. Messages published.
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
    // While the bus takes nothing and executors ask for tasks instead, one shows whether it is back; the others are theirs.
    let is_anothers = core.maintenance.unsent.is_failing(queue) && core.arrivals.waiting(queue) > 0;
    let request = LeaseRequest {
        queue: Arc::clone(queue),
        max: if is_anothers { 1 } else { BATCH },
        wait_ms,
        lease_ms: core.options.push_lease_ms,
        executor: "bus".to_owned(),
        // Who subscribes says no version.
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

/// Those that the bus did not take, or did not say that it took, with the error. A message that is there all the same
/// is refused by its fence as soon as the task is handed over again.
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
