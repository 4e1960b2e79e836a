//! The planner: finds schedules with work, asks the domain for their next step (in the pool, with a budget),
//! commits the step together with its runs, and makes their tasks. `run_once` is bounded, repeatable at any
//! time, and may run at several engines at once.

use crate::{
    allowance::{self, Allowances},
    evaluate, expressions, look,
    make::{self, OwnedRun},
    marked,
    options::Options,
    recover, revoke,
};
use futures_util::future::BoxFuture;
use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::{
    Error as BackendError, ScheduleStore,
    evaluations::{EvaluationKind, Subject},
    schedules::{Advance, NewRun, SLOTS, StoredSchedule},
    store::Applied,
};
use punctual_domain::{
    name::Name,
    place::Partition,
    schedule::{Budget, Facts, Fills, LastRun, Outcome, PlannedRun, RunKind, Timing, step},
    time::Millis,
};
use punctual_engine::{Engine, EvaluationVerdict, NotEvaluated, SET_ASIDE_LOOK_MS};
use punctual_expressions::REQUEST_STEPS;
use std::{
    cell::Cell,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Batches of one run: the next one continues.
const BATCHES_MAX: usize = 1_000;
/// The pause before the next planning of a schedule with an unreadable document (a newer program wrote it), or in a
/// namespace that is being deleted.
const AGAIN_AFTER_MS: i64 = 60_000;

/// The pause before the next planning if the last run cannot be read, or runs cannot be revoked.
const AFTER_FAILURE_MS: i64 = 1_000;

/// The pause between two reads of the schedules that are set aside.
const SET_ASIDE_INTERVAL_MS: i64 = 10_000;

/// The pause between two removals of marks of ended subjects.
const FORGET_MARKS_INTERVAL_MS: i64 = 600_000;

/// The number of calendar steps for one planning of one schedule.
const LOOK_STEPS: u32 = 250_000;

/// The maximum cost of the payloads of one planning of one schedule, in expression steps: one run's payload may cost
/// as much. The planning ends after the run that exceeds it, and other schedules have their turn.
const LOOK_COST: u64 = REQUEST_STEPS;

/// However far its next run is: by then an engine may know other rules of its zone.
const LOOKED_AT_WITHIN_MS: i64 = 24 * 3_600_000;

/// Cheap to clone; all clones are the same planner.
#[derive(Clone, Debug)]
pub struct Planner {
    pub(crate) inner: Arc<PlannerState>,
    pub(crate) eyes: Eyes,
}

/// The schedules that a caller may see: the others do not exist for the caller.
#[derive(Clone)]
pub(crate) struct Eyes(Arc<dyn Fn(&StoredSchedule) -> bool + Send + Sync>);

impl Eyes {
    pub(crate) fn new(sees: impl Fn(&StoredSchedule) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(sees))
    }

    pub(crate) fn see(&self, stored: &StoredSchedule) -> bool {
        (self.0)(stored)
    }
}

impl Default for Eyes {
    fn default() -> Self {
        Self(Arc::new(|_| true))
    }
}

impl fmt::Debug for Eyes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Eyes")
    }
}

#[derive(Debug)]
pub(crate) struct PlannerState {
    pub(crate) engine: Engine,
    pub(crate) store: Arc<dyn ScheduleStore>,
    pub(crate) options: Options,
    /// The instant of the last recovery.
    pub(crate) recovered_at: Mutex<Option<Millis>>,
    /// The time of the last read of the schedules that are set aside.
    set_aside_at: Mutex<Option<Millis>>,
    /// The instant of the last removal of marks of ended subjects.
    marks_forgotten_at: Mutex<Option<Millis>>,
    allowances: Allowances,
    /// Lines of history that this planner has committed, by outcome.
    lines: [AtomicU64; Outcome::ALL.len()],
}

/// A schedule, and whether its last run is over.
type ToDecide = (Arc<StoredSchedule>, bool);

/// A schedule with its next step.
struct Decided {
    schedule: Arc<StoredSchedule>,
    runs: Vec<NewRun>,
    cancels: Option<LastRun>,
    advance: Advance,
}

/// The results of one run, and its first failure.
#[derive(Default)]
struct Pass {
    made: usize,
    failed: Option<BackendError>,
}

impl Pass {
    fn note(&mut self, made: Result<usize, BackendError>) {
        match made {
            Ok(made) => self.made += made,
            Err(error) => self.failed = self.failed.take().or(Some(error)),
        }
    }
}

impl Planner {
    #[must_use]
    pub fn new(engine: Engine, store: Arc<dyn ScheduleStore>, options: Options) -> Self {
        Self {
            inner: Arc::new(PlannerState {
                engine,
                store,
                options,
                recovered_at: Mutex::new(None),
                set_aside_at: Mutex::new(None),
                marks_forgotten_at: Mutex::new(None),
                allowances: Allowances::default(),
                lines: Default::default(),
            }),
            eyes: Eyes::default(),
        }
    }

    /// Makes the runs that are due. Returns their number.
    ///
    /// # Errors
    /// A failing store; completed work remains. A schedule that failed by itself (its tasks are in an
    /// unavailable database) has not delayed others.
    pub fn run_once(&self, now: Millis) -> BoxFuture<'_, Result<usize, BackendError>> {
        Box::pin(async move {
            let inner = &self.inner;
            let mut pass = Pass::default();
            pass.note(recover::run_once(inner, now).await);
            if let Err(error) = inner.look_at_set_aside(now).await {
                pass.note(Err(error));
            }
            let slots = inner.slots();
            for _ in 0..BATCHES_MAX {
                let due = match slots {
                    0 => Vec::new(),
                    _ => inner.store.due_schedules(slots, now, inner.options.batch).await?,
                };
                if due.is_empty() {
                    break;
                }
                inner.plan(due, now, &mut pass).await?;
            }
            pass.failed.map_or(Ok(pass.made), Err)
        })
    }

    /// Lines of history that this planner has committed, since the process began.
    pub fn lines(&self) -> impl Iterator<Item = (Outcome, u64)> {
        let lines = &self.inner.lines;
        Outcome::ALL.into_iter().zip(lines).map(|(outcome, count)| (outcome, count.load(Relaxed)))
    }

    /// The instant at which work is or was due: a past instant waits for an engine.
    ///
    /// # Errors
    /// A failing store.
    pub async fn next_run_at(&self) -> Result<Option<Millis>, BackendError> {
        self.inner.store.next_wake().await
    }
}

impl PlannerState {
    /// The slots of the partitions that this engine works on: bit n for slot n.
    fn slots(&self) -> u32 {
        let partitions = self.engine.store().partitions().max(1);
        let is_own = |slot: &u8| self.engine.owns(Partition(u16::from(*slot) % partitions));
        (0..SLOTS).filter(is_own).fold(0, |all, slot| all | (1 << slot))
    }

    pub(crate) fn count(&self, outcome: Outcome, lines: usize) {
        let place = Outcome::ALL.iter().position(|candidate| *candidate == outcome);
        if let Some(count) = place.and_then(|place| self.lines.get(place)) {
            count.fetch_add(u64::try_from(lines).unwrap_or(u64::MAX), Relaxed);
        }
    }

    /// Reads the schedules, workflows and bulk operations that are set aside, for the alert.
    async fn look_at_set_aside(&self, now: Millis) -> Result<(), BackendError> {
        if has_passed(&self.marks_forgotten_at, FORGET_MARKS_INTERVAL_MS, now) {
            self.engine.forget_ended_evaluations(&*self.store).await?;
        }
        if !has_passed(&self.set_aside_at, SET_ASIDE_INTERVAL_MS, now) {
            return Ok(());
        }
        self.engine.look_at_set_aside(&*self.store).await.map(drop)
    }

    async fn plan(&self, due: Vec<StoredSchedule>, now: Millis, pass: &mut Pass) -> Result<(), BackendError> {
        let (changed, due): (Vec<_>, Vec<_>) =
            due.into_iter().partition(|schedule| schedule.progress.takes_back);
        let mut decided = Vec::with_capacity(due.len());
        for schedule in changed {
            if let Err(error) = revoke::finish(self, &schedule, now).await {
                pass.note(Err(error));
                decided.push(later(Arc::new(schedule), now, AFTER_FAILURE_MS));
            }
        }
        let last_are_over = look::last_are_over(self, &due, now).await;
        let mut to_decide = Vec::with_capacity(due.len());
        for (schedule, last_is_over) in due.into_iter().zip(last_are_over) {
            let schedule = Arc::new(schedule);
            match last_is_over {
                _ if self.engine.closed(&schedule.key.namespace).is_some() => {
                    decided.push(later(schedule, now, AGAIN_AFTER_MS));
                }
                Ok(_) if let Some(wait_ms) = self.allowances.wait_ms(&schedule.key.namespace, now) => {
                    decided.push(later(schedule, now, wait_ms));
                }
                Ok(last_is_over) => to_decide.push((schedule, last_is_over)),
                Err(error) => {
                    pass.note(Err(error));
                    decided.push(later(schedule, now, AFTER_FAILURE_MS));
                }
            }
        }
        self.evaluate(to_decide, decided, now, pass).await
    }

    /// Marks them, decides and carries out: together, but for those that an engine has died of.
    async fn evaluate(
        &self,
        to_decide: Vec<ToDecide>,
        mut decided: Vec<Decided>,
        now: Millis,
        pass: &mut Pass,
    ) -> Result<(), BackendError> {
        let subjects: Vec<Subject> = to_decide.iter().map(|pair| marked::subject(&pair.0)).collect();
        let begun = self.engine.begin_evaluations(&*self.store, EvaluationKind::Schedule, &subjects);
        let (evaluating, verdicts) = begun.await?;
        let (mut together, mut alone) = (Vec::new(), Vec::new());
        for (one, verdict) in to_decide.into_iter().zip(verdicts) {
            match verdict {
                EvaluationVerdict::Go => together.push(one),
                EvaluationVerdict::Alone => alone.push(one),
                EvaluationVerdict::Not(not) => decided.push(later(one.0, now, after(&not))),
            }
        }
        let (panicked, done) = self.decide_and_carry_out(together, decided, now).await;
        evaluating.cleared(&*self.store).await;
        self.mark_panicked(&panicked).await?;
        pass.made += done?;
        for one in alone {
            let put_off = match self.evaluate_alone(one.clone(), now).await {
                Ok(Ok(made)) => {
                    pass.made += made;
                    continue;
                }
                Ok(Err(not)) => later(one.0, now, after(&not)),
                Err(error) => {
                    pass.note(Err(error));
                    later(one.0, now, AFTER_FAILURE_MS)
                }
            };
            self.carry_out(vec![put_off], now).await?;
        }
        Ok(())
    }

    async fn evaluate_alone(
        &self,
        one: ToDecide,
        now: Millis,
    ) -> Result<Result<usize, NotEvaluated>, BackendError> {
        let subject = marked::subject(&one.0);
        let begun = self.engine.begin_alone(&*self.store, EvaluationKind::Schedule, &subject).await?;
        let evaluating = match begun {
            Ok(evaluating) => evaluating,
            Err(not) => return Ok(Err(not)),
        };
        let (panicked, done) = self.decide_and_carry_out(vec![one], Vec::new(), now).await;
        if panicked.is_empty() {
            evaluating.cleared(&*self.store).await;
        } else {
            evaluating.ended(&*self.store).await;
            self.mark_panicked(&panicked).await?;
        }
        done.map(Ok)
    }

    /// Marks subjects as if an engine had died of them, so that they are not evaluated a third time.
    async fn mark_panicked(&self, panicked: &[Subject]) -> Result<(), BackendError> {
        for subject in panicked {
            self.engine.evaluation_panicked(&*self.store, EvaluationKind::Schedule, subject).await?;
        }
        Ok(())
    }

    /// The schedules that panicked, and how many runs of the others were made.
    async fn decide_and_carry_out(
        &self,
        to_decide: Vec<ToDecide>,
        mut decided: Vec<Decided>,
        now: Millis,
    ) -> (Vec<Subject>, Result<usize, BackendError>) {
        let mut panicked = Vec::new();
        if !to_decide.is_empty() {
            match self.decide_each(to_decide, now).await {
                Ok(steps) => {
                    for step in steps {
                        decided.push(step.unwrap_or_else(|schedule| {
                            panicked.push(marked::subject(&schedule));
                            later(schedule, now, AFTER_FAILURE_MS)
                        }));
                    }
                }
                Err(error) => return (panicked, Err(error)),
            }
        }
        (panicked, self.carry_out(decided, now).await)
    }

    /// Each separately: one that panics is returned, and does not prevent planning the others.
    async fn decide_each(
        &self,
        to_decide: Vec<ToDecide>,
        now: Millis,
    ) -> Result<Vec<Result<Decided, Arc<StoredSchedule>>>, BackendError> {
        for (schedule, _) in &to_decide {
            self.engine.evaluates(EvaluationKind::Schedule, schedule.key.name.as_str()).await;
        }
        let (engine, lead_ms) = (self.engine.clone(), self.options.lead_ms);
        let mut costs: HashMap<Name, u64> = HashMap::new();
        let one = move |(schedule, last_is_over): ToDecide| {
            let (name, namespace) = (schedule.key.name.as_str(), &schedule.key.namespace);
            let before = costs.get(namespace).copied().unwrap_or(0);
            if before >= LOOK_COST {
                // The others of its namespace have used the time of this look.
                return (Ok(later(Arc::clone(&schedule), now, AFTER_FAILURE_MS)), 0);
            }
            let decided = evaluate::one_of_many(|| {
                engine.evaluates_on_thread(EvaluationKind::Schedule, name);
                decide(Arc::clone(&schedule), now, last_is_over, lead_ms)
            });
            let Some((decided, cost)) = decided else {
                tracing::error!(
                    schedule = name,
                    "a schedule could not be planned, because that panicked; the others are"
                );
                return (Err(Arc::clone(&schedule)), 0);
            };
            costs.insert(namespace.clone(), before.saturating_add(cost));
            (Ok(decided), cost)
        };
        let all = move || to_decide.into_iter().map(one).collect::<Vec<_>>();
        let decided = evaluate::for_planner(self.options.pool, all).await?;
        let counted = decided.into_iter().map(|(decided, cost)| {
            let (Ok(Decided { schedule, .. }) | Err(schedule)) = &decided;
            self.allowances.take(&schedule.key.namespace, cost, now);
            decided
        });
        Ok(counted.collect())
    }

    /// Commits steps, and makes the tasks of those that were applied: of one that was not, another engine does.
    async fn carry_out(&self, decided: Vec<Decided>, now: Millis) -> Result<usize, BackendError> {
        if decided.is_empty() {
            return Ok(0);
        }
        let advances = decided.iter().map(|decided| decided.advance.clone()).collect();
        let applied = self.store.advance_schedules(advances, now).await?;
        let moved =
            decided.into_iter().zip(applied).filter(|pair| pair.1 == Applied::Moved).map(|pair| pair.0);
        let moved: Vec<Decided> = moved.collect();
        for run in moved.iter().flat_map(|decided| &decided.runs) {
            self.count(run.outcome, 1);
        }
        let mut making: Vec<OwnedRun> = Vec::new();
        for Decided { schedule, runs, cancels, .. } in moved {
            if let Some(last) = cancels {
                look::stop(self, &schedule, last).await;
            }
            let created = runs.into_iter().filter(|run| run.outcome == Outcome::Created);
            making.extend(created.map(|run| (Arc::clone(&schedule), run)));
        }
        make::make(self, making).await
    }
}

/// True if the interval since the last time has passed. If so, this counts as the new last time.
pub(crate) fn has_passed(last_at: &Mutex<Option<Millis>>, interval_ms: i64, now: Millis) -> bool {
    let mut last_at = last_at.lock();
    let has_passed = last_at.is_none_or(|at| !(0..interval_ms).contains(&now.since(at)));
    if has_passed {
        *last_at = Some(now);
    }
    has_passed
}

/// The pause before the next evaluation.
fn after(not: &NotEvaluated) -> i64 {
    match not {
        NotEvaluated::SetAside => SET_ASIDE_LOOK_MS,
        NotEvaluated::AtWork => AFTER_FAILURE_MS,
    }
}

/// The next step of a schedule, and its cost including the payloads of its runs.
fn decide(stored: Arc<StoredSchedule>, now: Millis, last_is_over: bool, lead_ms: i64) -> (Decided, u64) {
    let (id, step_now) = (stored.id, stored.step);
    let timing = match Timing::of(&stored.schedule) {
        Ok(timing) => timing,
        Err(error) => {
            let schedule = stored.key.name.as_str();
            tracing::error!(schedule, %error, "a schedule cannot be read; it is tried again in a minute");
            return (later(stored, now, AGAIN_AFTER_MS), 0);
        }
    };
    let (namespace, name, revision) = (&stored.key.namespace, &stored.key.name, stored.revision);
    let facts = Facts { namespace, name, revision, now, lead_ms, last_is_over };
    let spent = Cell::new(0_u64);
    let value = |at: Millis, number: u64| {
        let mut budget = expressions::budget();
        let filled = make::payload(&stored, at, number, &mut budget);
        spent.set(spent.get().saturating_add(expressions::cost(&budget)));
        filled.map(drop)
    };
    let fills = Fills { value: &value, are_dear: &|| spent.get() >= LOOK_COST };
    let mut budget = Budget::of_steps(LOOK_STEPS);
    let step = step(&stored.schedule, &timing, &stored.progress, &facts, fills, &mut budget);
    let runs: Vec<NewRun> = step.runs.into_iter().map(|run| new_run(stored.revision, run)).collect();
    let looked_at_by = now.plus(LOOKED_AT_WITHIN_MS);
    let (progress, wake_at) = (step.progress, step.wake_at.map(|wake_at| wake_at.min(looked_at_by)));
    let advance = Advance { id, step: step_now, progress, wake_at, runs: runs.clone(), takes_back: None };
    // Payloads are filled in a second time when their tasks are made.
    let cost = allowance::cost(spent.get().saturating_mul(2), LOOK_STEPS - budget.left());
    (Decided { schedule: stored, runs, cancels: step.cancels, advance }, cost)
}

/// A step that only postpones the schedule.
fn later(stored: Arc<StoredSchedule>, now: Millis, after_ms: i64) -> Decided {
    let (wake_at, progress) = (Some(now.plus(after_ms)), stored.progress.clone());
    let (id, step) = (stored.id, stored.step);
    let advance = Advance { id, step, progress, wake_at, runs: Vec::new(), takes_back: None };
    Decided { schedule: stored, runs: Vec::new(), cancels: None, advance }
}

/// The run as stored. A manual run belongs to the document for which it was requested: if it is requested again after
/// a change, it is created again.
pub(crate) fn new_run(revision: i64, run: PlannedRun) -> NewRun {
    NewRun {
        kind: run.kind,
        at: run.at,
        execute_at: run.execute_at,
        revision,
        version: Some(if run.kind == RunKind::Planned { run.version } else { revision }),
        number: run.number,
        outcome: run.outcome,
        reason: run.reason,
    }
}
