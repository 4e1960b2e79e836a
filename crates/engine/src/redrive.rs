//! Gives dead tasks new attempts, many in one call, spread over time. The store alone decides each; tasks
//! that are no longer dead are skipped. A crash leaves some redriven and the rest dead; when the call is
//! repeated, it continues with those that are still dead.

use crate::{
    core::Core,
    pipeline::{entry::entry_of, intake},
};
use punctual_contract::{
    Error,
    store::{Applied, Change, Query, Step},
};
use punctual_domain::{history::Note, state::State, task::Task, time::Millis};
use std::sync::Arc;

/// Tasks of one transaction.
const STEP: usize = 500;
/// Pages of the store that one call reads, so that it ends even if few tasks match.
const PAGES_MAX: usize = 50;

/// The selection of dead tasks, their maximum number, and the rate.
#[derive(Clone, Debug)]
pub struct RedriveMany {
    /// The query, whose state is ignored.
    pub query: Query,
    pub limit: usize,
    /// The first is due then, but never before now.
    pub start_at: Millis,
    /// `None` moves all to `start_at`.
    pub per_second: Option<f64>,
    /// Only counts.
    pub dry_run: bool,
}

/// The result of the call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Redriven {
    pub tasks: u64,
    /// Tasks that were dead when they were searched, and no longer when they were redriven.
    pub lost: u64,
    /// The instant at which the next task would be due.
    pub until: Millis,
    /// The `before_id` to continue with, or `None` if there are no more.
    pub next_before_id: Option<i64>,
}

pub(crate) async fn many(core: &Arc<Core>, asked: RedriveMany, by: &str) -> Result<Redriven, Error> {
    let start_at = asked.start_at.max(core.now());
    let mut done = Redriven { until: start_at, ..Redriven::default() };
    let mut query = Query { state: Some(State::Dead), ..asked.query };
    // Some have been redriven by then: the error must not claim that nothing was done.
    let reported = |error: Error, done: &Redriven| {
        let is_done = done.tasks > 0 && !asked.dry_run;
        if is_done { error.after_a_change() } else { error }
    };
    for _ in 0..PAGES_MAX {
        let left = asked.limit.saturating_sub(usize::try_from(done.tasks).unwrap_or(usize::MAX));
        query.limit = left.min(STEP);
        if left == 0 {
            break;
        }
        let page = core.store.list(&query).await.map_err(|error| reported(error, &done))?;
        let spread = |nth: u64| at(start_at, asked.per_second, done.tasks.saturating_add(nth));
        let redriven = if asked.dry_run {
            page.tasks.len()
        } else {
            redrive(core, &page.tasks, by, spread).await.map_err(|error| reported(error, &done))?
        };
        done.lost += count(page.tasks.len() - redriven);
        done.tasks += count(redriven);
        done.until = at(start_at, asked.per_second, done.tasks);
        done.next_before_id = page.next_before_id;
        query.before_id = page.next_before_id;
        if page.next_before_id.is_none() {
            break;
        }
    }
    Ok(done)
}

fn count(tasks: usize) -> u64 {
    u64::try_from(tasks).unwrap_or(u64::MAX)
}

/// The due time of the task at an index.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "a number of tasks is small, and a time beyond the last instant is the last"
)]
fn at(start_at: Millis, per_second: Option<f64>, nth: u64) -> Millis {
    let after_ms = per_second.map_or(0.0, |per_second| nth as f64 * 1_000.0 / per_second);
    start_at.plus(after_ms as i64)
}

async fn redrive(
    core: &Arc<Core>,
    tasks: &[Task],
    by: &str,
    due: impl Fn(u64) -> Millis,
) -> Result<usize, Error> {
    if tasks.is_empty() {
        return Ok(0);
    }
    let step = |(nth, task): (u64, &Task)| {
        let note = Note { by: by.to_owned(), due_at: Some(due(nth)), ..Note::default() };
        Step {
            place: task.place,
            fence: Some(task.fence),
            change: Change::Redrive { execute_at: due(nth) },
            note,
            fired_at: None,
            known: None,
        }
    };
    let steps: Vec<Step> = (0..).zip(tasks).map(step).collect();
    let applied = core.store.apply(steps, core.now()).await?;
    let moved = tasks.iter().zip(applied).filter(|(_, stepped)| *stepped == Applied::Moved);
    let places: Vec<_> = moved.map(|(task, _)| task.place).collect();
    // The rest is not essential: the preloader and the refill find them too.
    let now = core.store.read(&places).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "redriven tasks wait for the preloader or the refill");
        Vec::new()
    });
    let waiting = now.into_iter().flatten().filter(|task| task.state.is_waiting());
    intake::admit(core, waiting.map(|task| entry_of(&task)).collect()).await;
    Ok(places.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_spreads_tasks_evenly() {
        let times = |per_second| (0..4).map(|nth| at(Millis(1_000), per_second, nth).0).collect::<Vec<_>>();
        assert_eq!(times(None), [1_000; 4]);
        assert_eq!(times(Some(2.0)), [1_000, 1_500, 2_000, 2_500]);
        assert_eq!(times(Some(0.5)), [1_000, 3_000, 5_000, 7_000]);
        assert_eq!(times(Some(3_000.0)), [1_000, 1_000, 1_000, 1_001]);
        assert_eq!(at(Millis(1), Some(0.001), u64::MAX), Millis(1).plus(i64::MAX));
    }
}
