//! Receives other engines' announcements. Never does the work itself: it starts drains, and wakes the waiters of a
//! queue. Missed signals are found at the next check, so a lost one costs an interval.

pub(crate) mod state;

use crate::{
    core::Core,
    pipeline::{ahead, drain, fire, intake, remote_tasks},
    sharing::announce::GIVEN_UP,
};
use futures_util::FutureExt as _;
use punctual_contract::{
    Error,
    ownership::{Passed, Signal},
};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// Pause after a failure to receive signals.
const DEAF: Duration = Duration::from_millis(500);

/// Listens until the engine stops.
pub(crate) async fn run(core: Arc<Core>) -> Result<usize, Error> {
    run_until(&core, &core.work.stopping).await
}

/// Listens until `end` is cancelled: it stops between two announcements, never while it handles one.
pub(crate) async fn run_until(core: &Arc<Core>, end: &CancellationToken) -> Result<usize, Error> {
    let others = &core.shared.signals;
    let mut heard = 0;
    loop {
        let signals = tokio::select! {
            biased;
            () = end.cancelled() => return Ok(heard),
            signals = others.next() => signals,
        };
        match signals {
            Ok(signals) => {
                heard += signals.len();
                signals.into_iter().for_each(|signal| handle_signal(core, signal));
            }
            Err(error) => {
                look_at_everything(core).await;
                // An engine without signals looks at an interval, so it need not retry sooner.
                tokio::select! {
                    () = end.cancelled() => {}
                    () = tokio::time::sleep(DEAF) => {}
                }
                return Err(error);
            }
        }
    }
}

/// Handles pending signals, for an engine whose clock is moved manually. Returns their number.
pub(crate) async fn run_once(core: &Arc<Core>) -> usize {
    let others = &core.shared.signals;
    let mut heard = 0;
    while let Some(signals) = others.next().now_or_never() {
        match signals {
            Ok(signals) => {
                heard += signals.len();
                signals.into_iter().for_each(|signal| handle_signal(core, signal));
            }
            Err(_) => {
                look_at_everything(core).await;
                break;
            }
        }
    }
    heard
}

fn handle_signal(core: &Arc<Core>, signal: Signal) {
    let own_name = core.options.name.as_str();
    if signal.addressee().is_some_and(|addressee| addressee != own_name) {
        return;
    }
    match signal {
        Signal::Hello { engine }
        | Signal::Wanted { engine, .. }
        | Signal::Ready { engine, .. }
        | Signal::Freed { engine, .. }
            if engine == own_name => {}
        Signal::Hello { engine } => core.sharing.elsewhere.says_hello(engine),
        Signal::Wanted { engine, queue, places } => core.sharing.elsewhere.wants(engine, queue, places),
        Signal::Ready { engine, queue } => {
            core.sharing.elsewhere.has_ready(engine, &queue);
            core.arrivals.wake_one(&queue);
        }
        Signal::Freed { queue, lane, places, .. } => remote_tasks::freed(core, queue, lane.as_ref(), places),
        Signal::Demand(demand) => remote_tasks::handle_demand(core, *demand),
        Signal::Passed(passed) if passed.number == Passed::AHEAD => take_in(core, *passed),
        Signal::Passed(passed) => remote_tasks::handle_passed(core, *passed),
        Signal::Due { partition, due_at } if partition.0 < core.store.partitions() => {
            if core.holdings.tenure(partition).is_some() {
                core.sharing.asked.add(partition);
            } else if due_at == GIVEN_UP {
                core.sharing.look_at_ownership.notify_one();
            }
        }
        Signal::Due { .. } => {}
    }
}

/// The owner of their partitions has passed these to this engine before their time.
fn take_in(core: &Arc<Core>, passed: Passed) {
    if core.work.stopping.is_cancelled() {
        // They are stored where their owner finds them.
        let stopping = Arc::clone(core);
        core.work.detach_claim(async move { intake::admit(&stopping, passed.entries).await });
    } else {
        ahead::wanted::take_in(core, passed);
    }
}

/// Signals may have been missed.
async fn look_at_everything(core: &Arc<Core>) {
    core.arrivals.wake_all();
    core.sharing.look_at_ownership.notify_one();
    let drained = drain::run_once(core).await;
    fire::fire_all(core).await;
    if let Err(error) = drained {
        tracing::warn!(%error, "what may have been announced is found at the next look");
    }
}

/// Drains the partitions that were named, until the engine stops.
pub(crate) async fn drain_asked(core: Arc<Core>) -> Result<usize, Error> {
    let mut drained = 0;
    loop {
        tokio::select! {
            biased;
            () = core.work.stopping.cancelled() => return Ok(drained),
            () = core.sharing.asked.something.notified() => {}
        }
        let partitions = core.sharing.asked.take();
        drained += drain::drain_in(&core, &partitions).await?;
    }
}
