//! The stream of demo tasks: at a steady rate, each with a random delay. Its time is chosen here, so that the check
//! does not depend on the server's answers.

use super::demo::{Demo, DemoPlan, KIND, Note, QUEUE};
use crate::clock::SystemClock;
use punctual_protocol::{InsertTask, Json};
use punctual_sdk::Client;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

const SHORTEST_DELAY: Duration = Duration::from_millis(50);
pub(super) const LONGEST_DELAY: Duration = Duration::from_secs(5);
/// The last ones are due this long before the end, so that they run before it.
const MARGIN: Duration = Duration::from_millis(250);
const TICK: Duration = Duration::from_millis(50);
/// The maximum size of one request, however large the backlog.
const BATCH_MAX: u64 = 1_000;

/// Inserts tasks until the time is over or `stop`.
pub(super) async fn stream(client: &Client, demo: &Demo, plan: DemoPlan, stop: &CancellationToken) {
    let ends_at = plan.run_for.map(|run_for| demo.begun + run_for);
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut numbered = 0;
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = stop.cancelled() => return,
        }
        let Some(longest) = longest_delay(ends_at, Instant::now()) else { break };
        let numbers =
            numbered..wished(plan.rate, demo.begun.elapsed()).min(numbered + BATCH_MAX).max(numbered);
        numbered = numbers.end;
        let batch: Vec<Note> = numbers.map(|number| note(demo.run, number, longest)).collect();
        if !batch.is_empty() {
            insert(client, demo, &batch).await;
        }
    }
}

/// `None` if it is too late for another task.
fn longest_delay(ends_at: Option<Instant>, now: Instant) -> Option<Duration> {
    let Some(ends_at) = ends_at else { return Some(LONGEST_DELAY) };
    let left = ends_at.saturating_duration_since(now).saturating_sub(MARGIN);
    (left >= SHORTEST_DELAY).then(|| left.min(LONGEST_DELAY))
}

/// The number of tasks that should be inserted by now.
fn wished(rate: u32, elapsed: Duration) -> u64 {
    let ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    ms.saturating_mul(u64::from(rate)) / 1_000
}

fn note(run: u64, number: u64, longest: Duration) -> Note {
    let at =
        SystemClock::since_epoch() + SHORTEST_DELAY + (longest - SHORTEST_DELAY).mul_f64(fastrand::f64());
    Note { run, number, execute_at_ms: i64::try_from(at.as_millis()).unwrap_or(i64::MAX) }
}

async fn insert(client: &Client, demo: &Demo, batch: &[Note]) {
    {
        let mut tally = demo.tally.lock();
        batch.iter().for_each(|note| tally.planned(note.number, note.execute_at_ms));
    }
    let tasks: Vec<InsertTask> = batch.iter().map(task).collect();
    let (answered, error) = match client.insert_batch(&tasks).await {
        Ok(items) => (items, None),
        Err(stopped) => (stopped.done, Some(stopped.source)),
    };
    let mut tally = demo.tally.lock();
    for (place, note) in batch.iter().enumerate() {
        if answered.get(place).is_none_or(|item| item.task.is_none()) {
            tally.failed(note.number);
        }
    }
    if let Some(error) = error {
        tracing::warn!(%error, tasks = batch.len(), "demo tasks could not be inserted");
    }
}

fn task(note: &Note) -> InsertTask {
    InsertTask {
        kind: Some(KIND.to_owned()),
        execute_at_ms: Some(note.execute_at_ms),
        payload: Json::of(note).ok(),
        labels: [("demo_run".to_owned(), note.run.to_string())].into(),
        ..InsertTask::new(QUEUE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_tasks_are_due_before_the_end() {
        let now = Instant::now();
        let longest = |left_ms| longest_delay(Some(now + Duration::from_millis(left_ms)), now);
        assert_eq!(longest(60_000), Some(LONGEST_DELAY));
        assert_eq!(longest(1_250), Some(Duration::from_secs(1)));
        assert_eq!((longest(300), longest(299), longest(0)), (Some(SHORTEST_DELAY), None, None));
        assert_eq!(longest_delay(None, now), Some(LONGEST_DELAY));
    }

    #[test]
    fn a_quarter_of_a_minute_at_the_usual_rate_is_well_over_a_thousand_tasks() {
        assert_eq!(wished(100, Duration::from_secs(15) - MARGIN - SHORTEST_DELAY), 1_470);
    }
}
