//! Step 6 for queues whose executors subscribe: leases ready tasks in the bus's name and publishes them. The lease is
//! durable before the message is sent: a crash between the two lets the lease run out, and the task is tried again.
//! A message that cannot be published gives its attempt back at once.

use crate::{
    core::Core,
    pipeline::hand_over::{LeaseRequest, give_back, lease},
};
use punctual_contract::{Error, store::Assignment};
use punctual_domain::name::QueueKey;
use std::{sync::Arc, time::Duration};

/// Messages in one publish.
const BATCH: usize = 100;
/// How long one look for ready tasks waits.
const WAIT_MS: u64 = 1_000;
/// After a failed publish, so that a bus that is away is not hammered.
const BACK_OFF: Duration = Duration::from_millis(200);

/// Pushes one queue until the engine stops. Messages published.
pub(crate) async fn run(core: Arc<Core>, queue: Arc<QueueKey>) -> Result<usize, Error> {
    let mut published = 0;
    while !core.stopping.is_cancelled() {
        let (count, failed) = run_once(&core, &queue, WAIT_MS).await?;
        published += count;
        if failed > 0 {
            tracing::warn!(queue = %queue.queue, tasks = failed, "publish failed; the attempts were given back");
            tokio::time::sleep(BACK_OFF).await;
        }
    }
    Ok(published)
}

/// Messages published, and messages that could not be.
pub(crate) async fn run_once(
    core: &Arc<Core>,
    queue: &Arc<QueueKey>,
    wait_ms: u64,
) -> Result<(usize, usize), Error> {
    let request = LeaseRequest {
        queue: Arc::clone(queue),
        max: BATCH,
        wait_ms,
        lease_ms: core.options.push_lease_ms,
        executor: "bus".to_owned(),
    };
    let leased = lease(core, request).await?;
    if leased.is_empty() {
        return Ok((0, 0));
    }
    let results = core.bus.publish(leased.clone()).await;
    let failed: Vec<Assignment> =
        leased.iter().zip(results).filter(|(_, it)| it.is_err()).map(|(it, _)| it.clone()).collect();
    let counts = (leased.len() - failed.len(), failed.len());
    give_back(core, failed).await;
    Ok(counts)
}
