//! Runs that a caller requests: one now, or all of a past range; and the history of runs. They run beside the
//! schedule's own runs, whatever its policies are.

use crate::{
    Error, Planner,
    calls::TRIES,
    evaluate,
    make::{self, Made, OwnedRun},
    marked,
    planner::new_run,
};
use punctual_contract::{
    Error as BackendError,
    schedules::{Advance, NewRun, Run, RunQuery, ScheduleKey, StoredSchedule},
    store::Applied,
};
use punctual_domain::{
    schedule::{Invalid, Outcome, PlannedRun, RunKind, Timing},
    time::Millis,
};
use punctual_expressions::TimeSlice;
use std::sync::Arc;

/// Most runs of one backfill.
pub(crate) const BACKFILL_MAX: usize = 10_000;
/// Runs of a backfill that fire in a second, unless it says otherwise.
pub(crate) const BACKFILL_RATE: u32 = 100;
/// Steps of the calendar for the instants of one backfill.
const STEPS: u32 = 2_000_000;
/// Runs of one transaction.
const BATCH: usize = 500;

/// The result of a backfill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backfilled {
    /// Instants of the range.
    pub found: usize,
    pub first_at: Option<Millis>,
    pub last_at: Option<Millis>,
    /// The instant at which the last run fires.
    pub until: Option<Millis>,
}

impl Planner {
    /// Makes a run of this instant.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Invalid`] where the payload cannot be filled in, a failing store.
    pub async fn run_now(&self, key: &ScheduleKey) -> Result<Run, Error> {
        let now = self.inner.engine.now();
        let made = self.ask_for(key, RunKind::Manual, &[(now, now)], "asked for").await?;
        let Some((stored, run)) = made.into_iter().next() else { return Err(Error::Contended) };
        self.whole(&stored, &run).await
    }

    /// Makes the runs of a range again, begin inclusive and end exclusive, `rate` of them a second. Repeated
    /// while the schedule is unchanged, it makes no run twice.
    ///
    /// # Errors
    /// Fails like [`Planner::run_now`], and with [`Error::Invalid`] if the range has too many instants.
    pub async fn backfill(
        &self,
        key: &ScheduleKey,
        from: Millis,
        to: Millis,
        rate: Option<u32>,
    ) -> Result<Backfilled, Error> {
        let wrong = |field: &str, problem: String| Invalid { field: field.to_owned(), problem };
        if to <= from {
            return Err(wrong("to", "must lie behind `from`".to_owned()).into());
        }
        let stored = self.get(key).await?;
        let work = move |pass: &TimeSlice| {
            let (timing, mut budget) = (Timing::of(&stored.schedule)?, evaluate::calendar(STEPS, pass));
            let mut instants = timing.occurrences(Millis(from.0 - 1), BACKFILL_MAX + 1, &mut budget);
            let is_whole = budget.left() > 0 || instants.last().is_some_and(|instant| *instant >= to);
            instants.retain(|instant| *instant < to);
            Ok::<_, Invalid>((instants, is_whole))
        };
        let (instants, is_whole) =
            evaluate::for_request(self.inner.options.pool, &key.namespace, work).await??;
        if !is_whole {
            let problem = "its instants take too long to be computed: ask for shorter ranges".to_owned();
            return Err(wrong("to", problem).into());
        }
        if instants.len() > BACKFILL_MAX {
            let problem =
                format!("there are more than {BACKFILL_MAX} instants up to it: ask for shorter ranges");
            return Err(wrong("to", problem).into());
        }
        let pause_ms = 1_000.0 / f64::from(rate.unwrap_or(BACKFILL_RATE).max(1));
        let now = self.inner.engine.now();
        let mut fires_at = now.0 as f64;
        let mut wanted = Vec::with_capacity(instants.len());
        for at in &instants {
            #[expect(clippy::cast_possible_truncation, reason = "an instant of this millennium")]
            wanted.push((*at, Millis(fires_at as i64)));
            fires_at += pause_ms;
        }
        for (nth, some) in wanted.chunks(BATCH).enumerate() {
            let made = self.ask_for(key, RunKind::Backfill, some, "backfill").await;
            made.map_err(|error| if nth > 0 { after_some(error) } else { error })?;
        }
        Ok(Backfilled {
            found: wanted.len(),
            first_at: instants.first().copied(),
            last_at: instants.last().copied(),
            until: wanted.last().map(|pair| pair.1),
        })
    }

    /// The history of a schedule, the latest instant first, before an instant.
    ///
    /// # Errors
    /// [`Error::NotFound`], a failing store.
    pub async fn runs(
        &self,
        key: &ScheduleKey,
        before: Option<Millis>,
        limit: usize,
    ) -> Result<(StoredSchedule, Vec<Run>), Error> {
        let stored = self.get(key).await?;
        let before = before.unwrap_or(Millis(i64::MAX));
        let query = RunQuery { schedule: stored.id, from: Millis(i64::MIN), before, limit };
        let runs = self.inner.store.runs(&query).await?;
        Ok((stored, runs))
    }

    async fn ask_for(
        &self,
        key: &ScheduleKey,
        kind: RunKind,
        wanted: &[(Millis, Millis)],
        reason: &str,
    ) -> Result<Vec<OwnedRun>, Error> {
        for _ in 0..TRIES {
            let stored = Arc::new(self.get(key).await?);
            let (of, all, because) = (Arc::clone(&stored), wanted.to_vec(), reason.to_owned());
            let work = move |pass: &TimeSlice| {
                let mut budget = punctual_expressions::Budget::of_request(pass);
                asked_for(&of, kind, (&all, &because), &mut budget)
            };
            let runs = evaluate::for_request(self.inner.options.pool, &key.namespace, work).await??;
            let mut progress = stored.progress.clone();
            if kind == RunKind::Manual {
                progress.runs += u64::try_from(runs.len()).unwrap_or(0);
                progress.last_run_at = runs.last().map(|run| run.at).max(progress.last_run_at);
            }
            let (id, step, wake_at) = (stored.id, stored.step, stored.wake_at);
            let advance = Advance { id, step, progress, wake_at, runs: runs.clone(), takes_back: None };
            let now = self.inner.engine.now();
            let applied = self.inner.store.advance_schedules(vec![advance], now).await?;
            if applied.first() == Some(&Applied::Moved) {
                self.inner.count(Outcome::Created, runs.len());
                let made: Vec<OwnedRun> = runs.into_iter().map(|run| (Arc::clone(&stored), run)).collect();
                let answers = marked::make_some(&self.inner, &made).await.map_err(changed)?;
                make::record_made(&self.inner, &made, &answers).await.map_err(changed)?;
                if answers.iter().any(|answer| matches!(answer, Made::NotNow)) {
                    tracing::warn!(
                        "runs that were asked for could not all be made; they follow within seconds"
                    );
                }
                return Ok(made);
            }
        }
        Err(Error::Contended)
    }

    async fn whole(&self, stored: &StoredSchedule, run: &NewRun) -> Result<Run, Error> {
        let query =
            RunQuery { schedule: stored.id, from: run.at, before: Millis(run.at.0 + 1), limit: BATCH };
        let found = self.inner.store.runs(&query).await.map_err(changed)?;
        found.into_iter().find(|candidate| candidate.key == run.key(stored.id)).ok_or(Error::Contended)
    }
}

/// The lines of history of the requested runs. One whose payload has no value refuses all of them. The payloads of
/// all have one budget.
fn asked_for(
    stored: &StoredSchedule,
    kind: RunKind,
    (wanted, reason): (&[(Millis, Millis)], &str),
    budget: &mut punctual_expressions::Budget,
) -> Result<Vec<NewRun>, Invalid> {
    let (outcome, reason) = (Outcome::Created, Some(reason.to_owned()));
    let numbered = (stored.progress.next_number()..).zip(wanted);
    let one = |(number, (at, execute_at)): (u64, &(Millis, Millis))| {
        let unfilled = |problem: String| {
            let problem = format!("its payload could not be filled in: {problem}");
            Invalid { field: "task/payload".to_owned(), problem }
        };
        make::payload(stored, *at, number, budget).map_err(unfilled)?;
        let (at, execute_at, reason) = (*at, *execute_at, reason.clone());
        let run = PlannedRun { kind, at, execute_at, outcome, reason, number, version: 0 };
        Ok(new_run(stored.revision, run))
    };
    numbered.map(one).collect()
}

fn changed(error: BackendError) -> BackendError {
    error.after_a_change()
}

/// Some runs of the range are made: whatever prevents the rest, the error must not claim that nothing was
/// done.
fn after_some(error: Error) -> Error {
    match error {
        Error::Engine(punctual_engine::Error::Backend(error)) => changed(error).into(),
        other => BackendError::may_have_happened("make all runs of a range", other).into(),
    }
}
