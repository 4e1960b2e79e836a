//! The demo: a stream of tasks, an executor for them that takes them over HTTP like any other, and the account of
//! both. Tasks of an earlier run that was killed are executed too; they are not of this account.

use super::{
    insert,
    screen::{Fired, Screen},
    tally::{Summary, Tally},
};
use crate::clock::SystemClock;
use anyhow::Result;
use parking_lot::Mutex;
use punctual_sdk::{Client, HandlerError, Task, Worker};
use serde::{Deserialize, Serialize};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{Notify, mpsc},
    task::JoinSet,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

pub(super) const QUEUE: &str = "demo";
pub(super) const KIND: &str = "demo";
/// The maximum delay of the last task after its due time.
const DRAIN_WITHIN: Duration = Duration::from_secs(15);
const CONCURRENCY: usize = 256;

#[derive(Clone, Copy, Debug)]
pub(super) struct DemoPlan {
    /// Tasks a second.
    pub(super) rate: u32,
    /// `None` runs until it is stopped.
    pub(super) run_for: Option<Duration>,
}

/// Payload of a demo task.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Note {
    pub(super) run: u64,
    pub(super) number: u64,
    pub(super) execute_at_ms: i64,
}

/// The state that the demo's inserting, running and displaying parts share.
#[derive(Debug)]
pub(super) struct Demo {
    /// Tells the tasks of this run from those of earlier ones; 53 bits, as JSON numbers go.
    pub(super) run: u64,
    pub(super) tally: Mutex<Tally>,
    pub(super) begun: Instant,
    fired: mpsc::UnboundedSender<Fired>,
    drained: Notify,
}

pub(super) async fn run(
    client: Client,
    plan: DemoPlan,
    screen: Screen,
    stop: CancellationToken,
) -> Result<Summary> {
    let (fired, to_show) = mpsc::unbounded_channel();
    let demo = Arc::new(Demo {
        run: fastrand::u64(..1 << 53),
        tally: Mutex::new(Tally::new()),
        begun: Instant::now(),
        fired,
        drained: Notify::new(),
    });
    let worker = worker(client.clone(), &demo);
    let (work_stop, show_stop) = (worker.shutdown(), CancellationToken::new());
    let mut working = JoinSet::new();
    working.spawn(worker.run());
    let mut showing = JoinSet::new();
    showing.spawn(screen.run(Arc::clone(&demo), to_show, show_stop.clone()));
    insert::stream(&client, &demo, plan, &stop).await;
    let is_over = demo.drain(&stop).await;
    let took = demo.begun.elapsed();
    // The last outcomes are reported before it ends.
    work_stop.cancel();
    let worked = working.join_next().await;
    show_stop.cancel();
    showing.join_all().await;
    let mut summary = demo.summary(took, is_over);
    if let Some(worked) = worked {
        let worked = worked??;
        summary.unsettled = worked.stale + worked.lost + worked.unreported;
    }
    Ok(summary)
}

fn worker(client: Client, demo: &Arc<Demo>) -> Worker {
    let (of_demo, of_others) = (Arc::clone(demo), Arc::clone(demo));
    Worker::new(client)
        .queue(QUEUE)
        .concurrency(CONCURRENCY)
        .executor("dev")
        .handle(KIND, move |task: Task| std::future::ready(of_demo.ran(&task)))
        .handle_any(move |task: Task| std::future::ready(of_others.ran_other(&task, true)))
}

impl Demo {
    fn ran(&self, task: &Task) -> Result<(), HandlerError> {
        let at = SystemClock::since_epoch();
        match task.payload::<Note>() {
            Ok(note) if note.run == self.run => {
                let ran = self.tally.lock().ran(note.number, note.execute_at_ms, at);
                self.show(Fired::Demo { number: note.number, ran });
                if self.tally.lock().is_drained() {
                    self.drained.notify_one();
                }
                Ok(())
            }
            Ok(_) => self.ran_other(task, false),
            Err(_) => self.ran_other(task, true),
        }
    }

    /// Runs a task of an earlier run, or the user's own.
    fn ran_other(&self, task: &Task, is_users: bool) -> Result<(), HandlerError> {
        let at_us = i64::try_from(SystemClock::since_epoch().as_micros()).unwrap_or(i64::MAX);
        self.tally.lock().ran_other();
        if is_users {
            let late_us = at_us.saturating_sub(task.execute_at_ms().saturating_mul(1_000));
            self.show(Fired::Users {
                reference: task.reference().to_owned(),
                kind: task.kind().to_owned(),
                late_us,
            });
        }
        Ok(())
    }

    fn show(&self, fired: Fired) {
        if self.fired.send(fired).is_err() {
            tracing::debug!("nothing is shown any more");
        }
    }

    /// Waits for all tasks. Returns true if they ran, or their time is over; false if the wait was interrupted.
    async fn drain(&self, stop: &CancellationToken) -> bool {
        let until = Instant::now() + insert::LONGEST_DELAY + DRAIN_WITHIN;
        while !self.tally.lock().is_drained() {
            tokio::select! {
                waited = timeout_at(until, self.drained.notified()) => if waited.is_err() { return true },
                () = stop.cancelled() => return false,
            }
        }
        true
    }

    pub(super) fn summary(&self, took: Duration, is_over: bool) -> Summary {
        let now_ms = i64::try_from(SystemClock::since_epoch().as_millis()).unwrap_or(i64::MAX);
        self.tally.lock().summary(now_ms, took, is_over)
    }
}
