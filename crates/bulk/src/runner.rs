//! The runner: finds operations with work, and runs some batches of each. `run_once` is bounded, repeatable
//! at any time, and may run at several engines at once. One commit per batch: the results of the last batch,
//! and the tasks of the next. After a crash, another engine begins with the stored batch, and recognizes
//! completed tasks by their marks. Tasks in a database that does not answer continue in a separate walk
//! (`apart`), so that the others do not wait for them.

use crate::{
    act::{Acted, act},
    apart::{self, Away},
    batch::{AGAIN_AFTER_MS, Batch, Next, WalkPosition, commit},
    ends::Ends,
    meters::{Meters, Outcome},
    options::Options,
    preview,
    state::RunnerState,
};
use futures_util::{StreamExt as _, future::BoxFuture, stream};
use parking_lot::Mutex;
use punctual_contract::{
    BulkStore, Error as BackendError,
    bulk::{AdvanceBulk, BulkFailure, SLOTS, StoredBulk, TaskFilter},
    evaluations::{EvaluationKind, Subject},
};
use punctual_domain::{
    bulk::{Action, BulkState, Progress, Walk},
    history::clip,
    place::{Partition, TaskRef},
    time::Millis,
};
use punctual_engine::{Engine, EvaluationVerdict, NotEvaluated, SET_ASIDE_LOOK_MS};
use punctual_workflows::Runner as Workflows;
use std::{sync::Arc, time::Duration};
use tokio::{sync::Notify, time::sleep};

/// The pause between two runs for an operation that is not over.
const PAUSE: Duration = Duration::from_millis(100);
/// Operations of one run, and those that are carried on at one time.
const BULKS: usize = 64;
const BULKS_AT_ONCE: usize = 4;
/// Batches of one operation in one run.
const BATCHES: usize = 100;
/// Reads without a result in one run: each examines 20,000 ids.
const LOOKS: usize = 5;
/// Longest text of a failure, in bytes.
const ERROR_LEN_MAX: usize = 512;
/// The number of operations that are deleted at one time.
const FORGOTTEN: usize = 20;

/// Cheap to clone; all clones are the same runner.
#[derive(Clone, Debug)]
pub struct Runner {
    pub(crate) inner: Arc<RunnerState>,
}

impl Runner {
    #[must_use]
    pub fn new(
        engine: Engine,
        store: Arc<dyn BulkStore>,
        options: Options,
        workflows: Option<Workflows>,
    ) -> Self {
        let (forgot_at, meters, has_work) = (Mutex::new(None), Meters::default(), Notify::new());
        let inner = RunnerState { engine, store, options, workflows, forgot_at, meters, has_work };
        Self { inner: Arc::new(inner) }
    }

    /// Waits until this engine has begun or changed an operation, or has carried one on that is perhaps not over. Then `run_once`
    /// need not wait for its period.
    pub fn until_there_is_work(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.inner.has_work.notified().await;
            sleep(PAUSE).await;
        })
    }

    /// Runs the operations that are due. Returns the number of processed tasks.
    ///
    /// # Errors
    /// A failing store; completed work remains.
    pub fn run_once(&self, now: Millis) -> BoxFuture<'_, Result<usize, BackendError>> {
        Box::pin(async move {
            let inner = &self.inner;
            inner.forget(now).await?;
            let slots = inner.slots();
            if slots == 0 {
                return Ok(0);
            }
            let due = inner.store.due_bulks(slots, now, BULKS).await?;
            if !due.is_empty() {
                inner.has_work.notify_one();
            }
            inner.evaluate(due).await
        })
    }
}

impl Runner {
    /// Tasks by action and outcome that this engine has accounted for, since the process began.
    pub fn tasks_by_outcome(&self) -> impl Iterator<Item = (&'static str, Outcome, u64)> {
        self.inner.meters.tasks()
    }

    /// Operations that this engine carried on within the last minute and that are not over.
    #[must_use]
    pub fn at_work(&self) -> usize {
        self.inner.meters.at_work(self.inner.engine.now())
    }

    /// The instant of the next work, for a caller that moves the clock manually.
    ///
    /// # Errors
    /// A failing store.
    pub async fn next_run_at(&self) -> Result<Option<Millis>, BackendError> {
        self.inner.store.next_bulk_wake().await
    }
}

impl RunnerState {
    /// The slots of the partitions that this engine works on: bit n for slot n.
    fn slots(&self) -> u32 {
        let partitions = self.engine.store().partitions().max(1);
        let is_own = |slot: &u8| self.engine.owns(Partition(u16::from(*slot) % partitions));
        (0..SLOTS).filter(is_own).fold(0, |all, slot| all | (1 << slot))
    }

    /// Carries operations on, marked: together, but for those that an engine has died of.
    async fn evaluate(&self, due: Vec<StoredBulk>) -> Result<usize, BackendError> {
        let subjects: Vec<Subject> = due.iter().map(subject).collect();
        let begun = self.engine.begin_evaluations(&*self.store, EvaluationKind::Bulk, &subjects);
        let (evaluating, verdicts) = begun.await?;
        let (mut together, mut alone) = (Vec::new(), Vec::new());
        let mut all: Vec<Result<usize, BackendError>> = Vec::new();
        for (stored, verdict) in due.into_iter().zip(verdicts) {
            match verdict {
                EvaluationVerdict::Go => together.push(go_on(self, stored, BATCHES)),
                EvaluationVerdict::Alone => alone.push(stored),
                EvaluationVerdict::Not(not) => all.push(put_off(self, &stored, &not).await),
            }
        }
        let going = stream::iter(together).buffer_unordered(BULKS_AT_ONCE);
        all.extend(going.collect::<Vec<_>>().await);
        evaluating.cleared(&*self.store).await;
        for stored in alone {
            all.push(self.evaluate_alone(stored).await);
        }
        all.into_iter().try_fold(0, |sum, result| Ok(sum + result?))
    }

    /// One batch, evaluated alone: other subjects that engines have died of wait for it.
    async fn evaluate_alone(&self, stored: StoredBulk) -> Result<usize, BackendError> {
        let begun = self.engine.begin_alone(&*self.store, EvaluationKind::Bulk, &subject(&stored)).await?;
        match begun {
            Ok(evaluating) => {
                let done = go_on(self, stored, 1).await;
                evaluating.cleared(&*self.store).await;
                done
            }
            Err(not) => put_off(self, &stored, &not).await,
        }
    }

    async fn forget(&self, now: Millis) -> Result<(), BackendError> {
        let is_time = |at: &Option<Millis>| {
            at.is_none_or(|at| !(0..self.options.forget_interval_ms).contains(&now.since(at)))
        };
        if !is_time(&self.forgot_at.lock()) {
            return Ok(());
        }
        *self.forgot_at.lock() = Some(now);
        if self.engine.owns(Partition(0)) {
            self.store.forget_bulks(now.plus(-self.options.keep_ms), FORGOTTEN).await?;
        }
        Ok(())
    }
}

pub(crate) fn subject(stored: &StoredBulk) -> Subject {
    Subject { id: stored.id, namespace: stored.namespace.clone(), name: stored.id.to_string() }
}

/// Postpones an operation.
async fn put_off(
    inner: &RunnerState,
    stored: &StoredBulk,
    not: &NotEvaluated,
) -> Result<usize, BackendError> {
    let now = inner.engine.now();
    let after_ms = match not {
        NotEvaluated::SetAside => SET_ASIDE_LOOK_MS,
        NotEvaluated::AtWork => AGAIN_AFTER_MS,
    };
    let advance = AdvanceBulk {
        id: stored.id,
        step: stored.step,
        state: stored.state,
        progress: stored.progress.clone(),
        wake_at: Some(now.plus(after_ms)),
        failed: Vec::new(),
        mended: Vec::new(),
    };
    inner.store.advance_bulk(advance, now).await.map(|_| 0)
}

/// Continues counting for a preview whose caller did not wait. Of two engines that count the same part, only
/// the first result is stored.
async fn count(inner: &RunnerState, stored: &StoredBulk) -> Result<(), BackendError> {
    let Some(below) = stored.progress.counting_below else { return Ok(()) };
    if inner.engine.closed(&stored.namespace).is_some() {
        return stop(inner, stored, inner.engine.now()).await;
    }
    let all = preview::look(&stored.namespace, &stored.bulk, stored.progress.previewed_at);
    let counted = preview::count_on(inner, TaskFilter { before_id: Some(below), ..all }, None).await?;
    let now = inner.engine.now();
    let mut progress = stored.progress.clone();
    progress.count = progress.count.saturating_add(counted.count);
    progress.counting_steps += 1;
    (progress.count_is_exact, progress.counting_below) = (counted.below.is_none(), counted.below);
    let advance = AdvanceBulk {
        id: stored.id,
        step: stored.step,
        state: BulkState::Previewed,
        progress,
        wake_at: counted.below.map(|_| now),
        failed: Vec::new(),
        mended: Vec::new(),
    };
    inner.store.advance_bulk(advance, now).await.map(drop)
}

/// Runs one operation, as far as its rate allows. Returns the number of processed tasks.
async fn go_on(inner: &RunnerState, mut stored: StoredBulk, batches: usize) -> Result<usize, BackendError> {
    if stored.state == BulkState::Previewed {
        return count(inner, &stored).await.map(|()| 0);
    }
    let mut count = 0;
    let mut looks = 0;
    for _ in 0..batches {
        let now = inner.engine.now();
        if stored.state != BulkState::Running || stored.wake_at.is_none_or(|wake_at| wake_at > now) {
            break;
        }
        if inner.engine.closed(&stored.namespace).is_some() {
            stop(inner, &stored, now).await?;
            break;
        }
        let Some((nth, walk)) = stored.progress.turn(now) else { break };
        inner.engine.evaluates(EvaluationKind::Bulk, &stored.id.to_string()).await;
        let places: Vec<TaskRef> = walk.batch.iter().filter_map(|text| text.parse().ok()).collect();
        let acted = batch(inner, &stored, &walk, &places).await?;
        count += places.len();
        let next =
            if acted.left.is_empty() { plan(inner, &stored, &walk).await } else { Ok(Next::default()) };
        let away = match &next {
            Ok(_) if acted.left.is_empty() => Away::default(),
            _ => apart::away(inner, &stored, &walk).await,
        };
        let next = match next {
            Err(error) if away.is_none() => return Err(error),
            next => next.unwrap_or_default(),
        };
        looks = if next.places.is_empty() { looks + 1 } else { 0 };
        match commit(inner, stored, (nth, &walk), &acted, (&next, &away)).await? {
            Some(after) if looks < LOOKS => stored = after,
            _ => break,
        }
    }
    Ok(count)
}

/// Stops an operation whose namespace is being deleted.
async fn stop(inner: &RunnerState, stored: &StoredBulk, now: Millis) -> Result<(), BackendError> {
    let note = Some("its namespace is closed".to_owned());
    let progress = Progress { ended_at: Some(now), note, ..stored.progress.clone() };
    let advance = AdvanceBulk {
        id: stored.id,
        step: stored.step,
        state: BulkState::Stopped,
        progress,
        wake_at: None,
        failed: Vec::new(),
        mended: Vec::new(),
    };
    inner.store.advance_bulk(advance, now).await.map(drop)
}

async fn batch(
    inner: &RunnerState,
    stored: &StoredBulk,
    walk: &Walk,
    places: &[TaskRef],
) -> Result<Batch, BackendError> {
    let read = inner.engine.read_each(places.to_vec()).await.map_err(backend)?;
    let mut ends = Ends::expected(inner, &stored.bulk.action, &read).await;
    let acting: Vec<_> = places
        .iter()
        .zip(read)
        .map(|(place, read)| async move { (*place, act(inner, stored, *place, read).await) })
        .collect();
    let acted: Vec<_> = stream::iter(acting).buffer_unordered(inner.options.at_once.max(1)).collect().await;
    let is_last_try = walk.tries + 1 >= inner.options.tries;
    // Not if its database is unavailable: the walk waits for that without limit.
    let mut answers = None;
    if is_last_try && acted.iter().any(|pair| matches!(pair.1, Acted::NotNow(_))) {
        answers = Some(apart::away(inner, stored, walk).await);
    }
    let is_away = |place: &TaskRef| answers.as_ref().is_some_and(|away| away.has(place.partition));
    let mut batch = Batch::default();
    for (place, acted) in acted {
        let error = match acted {
            Acted::Done => {
                ends.ended(place);
                batch.done += 1;
                batch.decided.push(place.id);
                continue;
            }
            Acted::Skipped => {
                batch.skipped += 1;
                batch.decided.push(place.id);
                continue;
            }
            Acted::NotNow(error) if !is_last_try || is_away(&place) => {
                batch.left.push(place);
                batch.waits_for = Some(clip(&error, ERROR_LEN_MAX).to_owned());
                continue;
            }
            Acted::NotNow(error) | Acted::Failed(error) => clip(&error, ERROR_LEN_MAX).to_owned(),
        };
        batch.failed.push(BulkFailure { place, at: inner.engine.now(), error });
    }
    ends.report();
    Ok(batch)
}

fn backend(error: punctual_engine::Error) -> BackendError {
    match error {
        punctual_engine::Error::Backend(error) => error,
        other => BackendError::did_not_happen("read a batch of tasks", other),
    }
}

async fn plan(inner: &RunnerState, stored: &StoredBulk, walk: &Walk) -> Result<Next, BackendError> {
    let progress = &stored.progress;
    if walk.is_through {
        return Ok(Next::default());
    }
    let limit = inner.options.batch.min(usize::try_from(stored.bulk.rate).unwrap_or(usize::MAX)).max(1);
    if progress.repeats {
        let above = walk.before_id.unwrap_or(i64::MIN);
        let failed = inner.store.bulk_failures(stored.id, above, limit).await?;
        let places: Vec<TaskRef> = failed.iter().map(|failure| failure.place).collect();
        let before_id = places.last().map(|place| place.id).or(walk.before_id);
        let looked = WalkPosition { before_id, is_through: places.len() < limit };
        return Ok(Next { places, counted: 0, looked: Some(looked) });
    }
    let all = apart::look(inner, stored, walk);
    let only_counts = stored.bulk.action == Action::Export;
    let limit = if only_counts { all.limit } else { limit };
    let look = TaskFilter { before_id: walk.before_id, limit, ..all };
    let found = inner.store.matching(&look).await?;
    let looked = WalkPosition {
        before_id: found.next_before_id.or(walk.before_id),
        is_through: found.next_before_id.is_none(),
    };
    if only_counts {
        return Ok(Next { places: Vec::new(), counted: found.places.len(), looked: Some(looked) });
    }
    Ok(Next { places: found.places, counted: 0, looked: Some(looked) })
}
