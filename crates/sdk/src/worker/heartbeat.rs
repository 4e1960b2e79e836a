//! Heartbeats, on a task of their own so that neither leasing nor reporting delays them: three in the time of
//! a lease. They extend leases, carry progress, and report tasks that were lost or should stop.

use std::sync::Arc;

use punctual_protocol::limits::BATCH_MAX;
use punctual_protocol::{HeartbeatRequest, LeaseBeat, LeaseNews};
use tokio::time::{Duration, Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::WorkerContext;
use super::held::Lease;

/// An idle worker reports its presence and its capacity this often.
const IDLE: Duration = Duration::from_secs(10);
/// An unavailable server does not delay the end.
const FAREWELL: Duration = Duration::from_secs(2);

pub(super) async fn run(shared: Arc<WorkerContext>, done: CancellationToken) {
    done.run_until_cancelled(beat_on(&shared)).await;
}

async fn beat_on(shared: &WorkerContext) {
    let period = Duration::from_millis(shared.options.lease_ms) / 3;
    let mut next = Instant::now() + period;
    let mut said_idle = Instant::now();
    loop {
        sleep_until(next).await;
        let began = Instant::now();
        let leases = shared.held.alive();
        let idle = leases.is_empty();
        if idle && said_idle.elapsed() < IDLE {
            next = began + period;
            continue;
        }
        said_idle = began;
        let heard = beat_all(shared, &leases, period).await;
        // After a failure sooner, as the lease runs on.
        next = began + if heard { period } else { period / 4 };
    }
}

/// True if the server received all heartbeats.
async fn beat_all(shared: &WorkerContext, leases: &[Arc<Lease>], patience: Duration) -> bool {
    let mut heard = true;
    for part in leases.chunks(BATCH_MAX) {
        heard &= beat(shared, part, patience).await;
    }
    if leases.is_empty() {
        heard = beat(shared, leases, patience).await;
    }
    heard
}

async fn beat(shared: &WorkerContext, leases: &[Arc<Lease>], patience: Duration) -> bool {
    let request = request(shared, leases);
    let why = match timeout(patience, shared.client.heartbeat(&request)).await {
        Ok(Ok(answer)) => {
            shared.set_desired_state(answer.wish);
            let mut heard = true;
            for ((lease, news), unsent) in leases.iter().zip(&answer.leases).zip(request.leases) {
                if news.unavailable {
                    heard = false;
                    lease.control.restore_progress(unsent.progress);
                    lease.control.restore_log(unsent.log);
                } else {
                    handle_news(shared, lease, news);
                }
            }
            if !heard {
                tracing::warn!(
                    "nothing is known of some leases: a database of the server does not answer; trying again"
                );
            }
            return heard;
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => "no answer in time".to_owned(),
    };
    for (lease, unsent) in leases.iter().zip(request.leases) {
        lease.control.restore_progress(unsent.progress);
        lease.control.restore_log(unsent.log);
    }
    tracing::warn!(leases = leases.len(), error = why, "a heartbeat failed, trying again");
    false
}

fn request(shared: &WorkerContext, leases: &[Arc<Lease>]) -> HeartbeatRequest {
    let beat = |lease: &Arc<Lease>| LeaseBeat {
        r#ref: lease.reference.clone(),
        token: lease.token.clone(),
        progress: lease.control.take_progress(),
        log: lease.control.take_log(),
    };
    shared.beat_request(leases.iter().map(beat).collect())
}

/// Reports the worker's regular end. Best effort: without it, the worker is found silent.
pub(super) async fn farewell(shared: &WorkerContext) {
    let request = HeartbeatRequest { leaving: true, ..shared.beat_request(Vec::new()) };
    match timeout(FAREWELL, shared.client.heartbeat(&request)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::debug!(error = %error, "the farewell was not heard"),
        Err(_) => tracing::debug!("the farewell was not answered"),
    }
}

fn handle_news(shared: &WorkerContext, lease: &Lease, news: &LeaseNews) {
    // The answer is in the order of the request; otherwise it says nothing about this lease.
    if news.r#ref != lease.reference {
        tracing::error!(task = lease.reference, "the heartbeat's answer is about another task");
        return;
    }
    if news.lost {
        return lease.lost.cancel();
    }
    lease.extend(shared.options.lease_ms);
    if news.cancel_requested {
        lease.control.cancel();
    }
}
