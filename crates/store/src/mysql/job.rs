//! The units of work of a writer: what was asked, who waits for the answer, and how those that came together are run
//! in one transaction. Jobs of one kind are run as one, so that many small calls cost few statements.

use super::{
    insert::{self, Ask, Context, InsertedRow},
    lease,
    ledger::Ledger,
    moves, namespaces,
    pauses::Pauses,
    reply::{self, Keeping},
    retention,
    statements::sql,
    trips::{FirstLook, Trips},
    writer::Unfinished,
};
use crate::{Error, known, turns::Tenant};
use punctual_contract::{
    Error as CallError,
    namespaces::{DeleteTasks, DeletedTasks, FinishedTask},
    store::{
        Applied, Beat, Dispatched, Extended, Grant, Inserted, ReplyKey, Reserved, Retired, Step, Stepped,
    },
};
use punctual_domain::{
    place::{Partition, TaskRef},
    time::Millis,
};
use sqlx::MySqlConnection;
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashSet},
    time::Duration,
};
use tokio::{sync::oneshot, time::Instant};

/// Jobs whose callers' times are this near each other, in milliseconds, are done at the latest of them: a batch is
/// gathered in less. Else each would be a statement of its own.
const NEAR_MS: i64 = 64;
/// So late no lease is too late, however short it is.
const IN_TIME: Duration = Duration::from_millis(500);

/// Who waits for the answer; gone, if nobody. `I`: what it asked for, and gets back if this was the wrong place.
pub(crate) type Caller<T, I> = oneshot::Sender<Result<T, RefusedJob<I>>>;

/// Why a job was not done.
#[derive(Debug)]
pub(crate) enum RefusedJob<I> {
    Failed(CallError),
    /// Nothing of it happened: this database does not have these partitions, or lets nobody write in them now.
    Elsewhere(I, BTreeSet<Partition>),
}

#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) doing: &'static str,
    pub(crate) work: JobKind,
    since: Instant,
}

#[derive(Debug)]
pub(crate) enum JobKind {
    Insert(Vec<Ask>, Caller<Vec<Inserted>, Vec<Ask>>),
    Apply(Vec<Step>, Millis, Caller<Vec<Stepped>, Vec<Step>>),
    Dispatch(Vec<Grant>, Millis, Caller<Vec<Dispatched>, Vec<Grant>>),
    Extend(Vec<Beat>, Millis, Caller<Vec<Extended>, Vec<Beat>>),
    Stop(TaskRef, Millis, Caller<Applied, ()>),
    Retire(Retire, Caller<Retired, ()>),
    Forget(DeleteTasks, Caller<DeletedTasks, ()>),
    Delete(Vec<FinishedTask>, Caller<Vec<Applied>, Vec<FinishedTask>>),
    Keep(Box<(Partition, ReplyKey, Keeping)>, Caller<Reserved, ()>),
    Check(Caller<(), ()>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Retire {
    pub(crate) now: Millis,
    pub(crate) stopped_until: Millis,
    pub(crate) limit: usize,
}

/// What came of a job, in its transaction.
#[derive(Debug)]
pub(crate) enum Done {
    Inserted(Vec<InsertedRow>),
    Applied(Vec<Stepped>),
    Dispatched(Vec<Dispatched>),
    Extended(Vec<Extended>),
    Stopped(Applied),
    Retired(Retired),
    Forgotten(DeletedTasks),
    Deleted(Vec<Applied>),
    Kept(Reserved),
    Checked,
}

impl Job {
    pub(crate) fn new(doing: &'static str, work: JobKind) -> Self {
        Self { doing, work, since: Instant::now() }
    }

    /// Leases that no caller waits for any more, or of which a third was over before they were made: an executor that learns of
    /// them, or whoever would give them back, may come too late, and an attempt would be spent that nobody had. What is left is enough
    /// to give them back twice as slowly as they were made.
    pub(crate) fn is_void(&self) -> bool {
        let JobKind::Dispatch(grants, asked_at, caller) = &self.work else { return false };
        let shortest_ms = grants.iter().map(|grant| grant.lease_until.since(*asked_at)).min().unwrap_or(0);
        let third = Duration::from_millis(u64::try_from(shortest_ms / 3).unwrap_or(0));
        caller.is_closed() || self.since.elapsed() > third.max(IN_TIME)
    }

    pub(crate) fn rows(&self) -> usize {
        match &self.work {
            JobKind::Insert(asks, _) => asks.len(),
            JobKind::Apply(steps, ..) => steps.len(),
            JobKind::Dispatch(grants, ..) => grants.len(),
            JobKind::Extend(beats, ..) => beats.len(),
            JobKind::Retire(retire, _) => retire.limit,
            JobKind::Forget(delete_tasks, _) => delete_tasks.limit,
            JobKind::Delete(all, _) => all.len(),
            JobKind::Stop(..) | JobKind::Keep(..) | JobKind::Check(_) => 1,
        }
    }

    /// Whose turn it counts for.
    pub(crate) fn tenant(&self) -> Tenant {
        match &self.work {
            JobKind::Insert(asks, _) => asks.first().map_or(Tenant::NONE, |ask| Tenant::of(ask.namespace())),
            JobKind::Dispatch(grants, ..) => Tenant::of_grants(grants),
            _ => Tenant::NONE,
        }
    }

    /// After the commit. A caller that has gone does not want it.
    pub(crate) fn done(self, done: Done) {
        match (self.work, done) {
            (JobKind::Insert(asks, caller), Done::Inserted(insert_results)) => {
                let reported = insert_results
                    .into_iter()
                    .zip(asks)
                    .map(|(insert_result, ask)| insert_result.reported(ask));
                drop(caller.send(Ok(reported.collect())));
            }
            (JobKind::Apply(.., caller), Done::Applied(list)) => drop(caller.send(Ok(list))),
            (JobKind::Dispatch(.., caller), Done::Dispatched(list)) => drop(caller.send(Ok(list))),
            (JobKind::Extend(.., caller), Done::Extended(list)) => drop(caller.send(Ok(list))),
            (JobKind::Stop(.., caller), Done::Stopped(applied)) => drop(caller.send(Ok(applied))),
            (JobKind::Retire(_, caller), Done::Retired(retired)) => drop(caller.send(Ok(retired))),
            (JobKind::Forget(_, caller), Done::Forgotten(deleted_tasks)) => {
                drop(caller.send(Ok(deleted_tasks)))
            }
            (JobKind::Delete(_, caller), Done::Deleted(list)) => drop(caller.send(Ok(list))),
            (JobKind::Keep(_, caller), Done::Kept(reserved)) => drop(caller.send(Ok(reserved))),
            (JobKind::Check(caller), Done::Checked) => drop(caller.send(Ok(()))),
            // Its caller is notified that the answer was lost, because the sender is dropped.
            _ => tracing::error!(call = self.doing, "an answer of another kind"),
        }
    }

    pub(crate) fn failed(self, why: &Unfinished) {
        let error = CallError { doing: self.doing, happened: why.happened, source: why.source.clone() };
        self.reported(error);
    }

    /// The store was closed before it was taken.
    pub(crate) fn refused(self) {
        self.not_done(Error::Closed);
    }

    pub(crate) fn not_done(self, why: Error) {
        let error = CallError::did_not_happen(self.doing, why);
        self.reported(error);
    }

    fn reported(self, error: CallError) {
        match self.work {
            JobKind::Insert(_, caller) => drop(caller.send(Err(RefusedJob::Failed(error)))),
            JobKind::Apply(.., caller) => drop(caller.send(Err(RefusedJob::Failed(error)))),
            JobKind::Dispatch(.., caller) => drop(caller.send(Err(RefusedJob::Failed(error)))),
            JobKind::Extend(.., caller) => drop(caller.send(Err(RefusedJob::Failed(error)))),
            JobKind::Stop(.., caller) => drop(caller.send(Err(RefusedJob::Failed(error)))),
            JobKind::Retire(_, caller) => drop(caller.send(Err(RefusedJob::Failed(error)))),
            JobKind::Forget(_, caller) => drop(caller.send(Err(RefusedJob::Failed(error)))),
            JobKind::Delete(_, caller) => drop(caller.send(Err(RefusedJob::Failed(error)))),
            JobKind::Keep(_, caller) => drop(caller.send(Err(RefusedJob::Failed(error)))),
            JobKind::Check(caller) => drop(caller.send(Err(RefusedJob::Failed(error)))),
        }
    }

    /// Back to its caller, the caller again where its partitions are.
    pub(crate) fn elsewhere(self, closed: &BTreeSet<Partition>) {
        let closed = closed.clone();
        match self.work {
            JobKind::Insert(asks, caller) => drop(caller.send(Err(RefusedJob::Elsewhere(asks, closed)))),
            JobKind::Apply(steps, _, caller) => drop(caller.send(Err(RefusedJob::Elsewhere(steps, closed)))),
            JobKind::Dispatch(grants, _, caller) => {
                drop(caller.send(Err(RefusedJob::Elsewhere(grants, closed))))
            }
            JobKind::Extend(beats, _, caller) => drop(caller.send(Err(RefusedJob::Elsewhere(beats, closed)))),
            JobKind::Stop(.., caller) => drop(caller.send(Err(RefusedJob::Elsewhere((), closed)))),
            JobKind::Keep(_, caller) => drop(caller.send(Err(RefusedJob::Elsewhere((), closed)))),
            JobKind::Retire(_, caller) => drop(caller.send(Ok(Retired::default()))),
            JobKind::Forget(_, caller) => drop(caller.send(Ok(DeletedTasks::default()))),
            JobKind::Delete(all, caller) => drop(caller.send(Err(RefusedJob::Elsewhere(all, closed)))),
            JobKind::Check(caller) => drop(caller.send(Ok(()))),
        }
    }

    /// The partitions that it writes in. None: it looks for itself.
    pub(crate) fn partitions(&self) -> Option<BTreeSet<Partition>> {
        Some(match &self.work {
            JobKind::Insert(asks, _) => asks.iter().map(|ask| ask.partition).collect(),
            JobKind::Apply(steps, ..) => steps.iter().map(|step| step.place.partition).collect(),
            JobKind::Dispatch(grants, ..) => grants.iter().map(|grant| grant.place.partition).collect(),
            JobKind::Extend(beats, ..) => beats.iter().map(|beat| beat.place.partition).collect(),
            JobKind::Stop(place, ..) => [place.partition].into(),
            JobKind::Keep(kept, _) => [kept.0].into(),
            JobKind::Delete(all, _) => {
                all.iter().map(|finished_task| finished_task.place.partition).collect()
            }
            JobKind::Retire(..) | JobKind::Forget(..) | JobKind::Check(_) => return None,
        })
    }

    /// Of moves.
    fn steps(&self) -> &[Step] {
        if let JobKind::Apply(steps, ..) = &self.work { steps } else { &[] }
    }

    /// Of tasks that stand there already.
    fn places(&self) -> impl Iterator<Item = TaskRef> {
        let beats: &[Beat] = if let JobKind::Extend(beats, ..) = &self.work { beats } else { &[] };
        let moved = self.steps().iter().map(|step| step.place);
        moved.chain(self.grants().iter().map(|grant| grant.place)).chain(beats.iter().map(|beat| beat.place))
    }

    /// Tasks whose rows need not be looked at.
    fn known(&self) -> impl Iterator<Item = i64> {
        let steps =
            self.steps().iter().filter(|step| known::of_step(step).is_some()).map(|step| step.place.id);
        let grants = self.grants().iter().filter(|grant| known::of_grant(grant).is_some());
        steps.chain(grants.map(|grant| grant.place.id))
    }

    /// Of hand-overs.
    fn grants(&self) -> &[Grant] {
        if let JobKind::Dispatch(grants, ..) = &self.work { grants } else { &[] }
    }

    pub(crate) fn hands_over(&self) -> bool {
        matches!(self.work, JobKind::Dispatch(..))
    }

    /// It stores tasks with labels, or puts some that may have them into another queue.
    pub(crate) fn has_labels(&self) -> bool {
        match &self.work {
            JobKind::Insert(asks, _) => asks.iter().any(|ask| !ask.task().labels.is_empty()),
            JobKind::Apply(steps, ..) => steps.iter().any(|step| step.change.queue().is_some()),
            _ => false,
        }
    }

    /// Jobs with the same are run as one.
    fn kind(&self, nth: usize) -> (u8, i64, usize) {
        let near = |now: &Millis| now.0.div_euclid(NEAR_MS);
        match &self.work {
            JobKind::Apply(_, now, _) => (0, near(now), 0),
            JobKind::Dispatch(_, now, _) => (1, near(now), 0),
            JobKind::Extend(_, now, _) => (2, near(now), 0),
            JobKind::Stop(..) => (3, 0, nth),
            JobKind::Keep(..) => (4, 0, nth),
            // Each ask carries its own time.
            JobKind::Insert(..) => (5, 0, 0),
            JobKind::Retire(..) => (6, 0, nth),
            JobKind::Check(_) => (7, 0, nth),
            JobKind::Forget(..) => (8, 0, nth),
            JobKind::Delete(..) => (9, 0, nth),
        }
    }
}

/// What jobs share in one transaction.
pub(crate) struct JobContext<'a> {
    pub(crate) trips: &'a mut Trips,
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) context: &'a Context,
    /// Where it may write.
    pub(crate) open: &'a BTreeSet<Partition>,
    /// What it may not hand over, and what labels it enters.
    pub(crate) pauses: &'a Pauses,
    /// Facts that callers said are rested on. Otherwise every row is looked at.
    pub(crate) rests_on_facts: bool,
}

/// How a transaction begins.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    /// At rows of which nothing is known.
    pub(crate) look: Option<FirstLook>,
    pub(crate) rests_on_facts: bool,
}

impl Opening {
    /// Every row is looked at, with a lock.
    pub(crate) fn with_a_look(jobs: &[Job]) -> Self {
        let look = looked_at(jobs).and_then(|(text, places)| FirstLook::new(text, places));
        Self { look, rests_on_facts: false }
    }

    /// Rests on what the callers know, and reads the rest without locks where that is cheap. If one row is otherwise, the
    /// transaction is undone, and begins again with a look.
    pub(crate) fn with_facts(jobs: &[Job]) -> Self {
        let ids = |job: &Job| job.places().map(|place| place.id).collect::<Vec<_>>();
        if has_twins(jobs.iter().flat_map(ids).collect()) {
            return Self::with_a_look(jobs);
        }
        let known: HashSet<i64> = jobs.iter().flat_map(Job::known).collect();
        let Some((text, mut places)) = looked_at(jobs) else {
            return Self { look: None, rests_on_facts: !known.is_empty() };
        };
        places.retain(|place| !known.contains(&place.id));
        let unlocked = || FirstLook::unlocked(places.clone());
        let look = if text == sql!(moves, lock_places) { None } else { unlocked() };
        let look = look.or_else(|| FirstLook::new(text, places));
        Self { look, rests_on_facts: !known.is_empty() }
    }
}

fn has_twins(mut ids: Vec<i64>) -> bool {
    ids.sort_unstable();
    ids.windows(2).any(|pair| pair.first() == pair.last())
}

/// What a transaction of these jobs looks at first, if it is one statement: this, and the places of different tasks.
fn looked_at(jobs: &[Job]) -> Option<(&'static str, Vec<TaskRef>)> {
    let kind = jobs.first()?.kind(0);
    if jobs.iter().enumerate().any(|(nth, job)| job.kind(nth) != kind) {
        return None;
    }
    let mut text = None;
    let mut places: Vec<TaskRef> = Vec::new();
    for job in jobs {
        match &job.work {
            JobKind::Apply(steps, ..) => {
                text = Some(sql!(moves, lock_places));
                places.extend(steps.iter().map(|step| step.place));
            }
            JobKind::Dispatch(grants, ..) => {
                text = Some(sql!(lease, lock_for_grant));
                places.extend(grants.iter().map(|grant| grant.place));
            }
            _ => return None,
        }
    }
    // A task that is named twice is looked at twice.
    let is_one_round = !has_twins(places.iter().map(|place| place.id).collect());
    text.filter(|_| is_one_round).map(|text| (text, places))
}

/// Runs jobs inside a transaction, answers in their order.
pub(crate) async fn run(
    conn: &mut MySqlConnection,
    shared: &mut JobContext<'_>,
    jobs: &[Job],
) -> sqlx::Result<Vec<Done>> {
    let mut kinds: BTreeMap<_, Vec<(usize, &JobKind)>> = BTreeMap::new();
    for (nth, job) in jobs.iter().enumerate() {
        kinds.entry(job.kind(nth)).or_default().push((nth, &job.work));
    }
    let mut all: Vec<(usize, Done)> = Vec::with_capacity(jobs.len());
    for alike in kinds.into_values() {
        let works: Vec<&JobKind> = alike.iter().map(|pair| pair.1).collect();
        let done = together(conn, shared, &works).await?;
        all.extend(alike.iter().map(|pair| pair.0).zip(done));
    }
    all.sort_unstable_by_key(|pair| pair.0);
    Ok(all.into_iter().map(|pair| pair.1).collect())
}

/// Runs jobs of one kind as one.
async fn together(
    conn: &mut MySqlConnection,
    shared: &mut JobContext<'_>,
    works: &[&JobKind],
) -> sqlx::Result<Vec<Done>> {
    let JobContext { trips, ledger, context, open, pauses, rests_on_facts } = shared;
    let Some(first) = works.first() else { return Ok(Vec::new()) };
    Ok(match first {
        JobKind::Insert(..) => {
            let asks = each(works, |work| if let JobKind::Insert(asks, _) = work { asks } else { &[] });
            let all: Vec<&Ask> = asks.iter().copied().flatten().collect();
            apart(&asks, insert::insert(conn, ledger, (context, pauses), &all).await?, Done::Inserted)
        }
        JobKind::Apply(..) => {
            let steps = each(works, |work| if let JobKind::Apply(steps, ..) = work { steps } else { &[] });
            let (all, now) = (all(&steps), latest(works));
            let applied = moves::apply(conn, trips, ledger, pauses, (&all, *rests_on_facts), now).await?;
            apart(&steps, applied, Done::Applied)
        }
        JobKind::Dispatch(..) => {
            let grants =
                each(works, |work| if let JobKind::Dispatch(grants, ..) = work { grants } else { &[] });
            let (all, now) = (all(&grants), latest(works));
            let dispatched =
                lease::dispatch(conn, trips, ledger, pauses, (&all, *rests_on_facts), now).await?;
            apart(&grants, dispatched, Done::Dispatched)
        }
        JobKind::Extend(..) => {
            let beats = each(works, |work| if let JobKind::Extend(beats, ..) = work { beats } else { &[] });
            apart(
                &beats,
                lease::extend(conn, trips, ledger, &all(&beats), latest(works)).await?,
                Done::Extended,
            )
        }
        JobKind::Stop(place, now, _) => vec![Done::Stopped(lease::request_stop(conn, *place, *now).await?)],
        JobKind::Retire(retire, _) => {
            let retired = retention::retire(conn, ledger, open, *retire).await?;
            vec![Done::Retired(retired)]
        }
        JobKind::Forget(asked, _) => {
            vec![Done::Forgotten(namespaces::forget(conn, ledger, open, asked).await?)]
        }
        JobKind::Delete(all, _) => {
            vec![Done::Deleted(namespaces::delete_finished(conn, ledger, all).await?)]
        }
        JobKind::Keep(kept, _) => {
            vec![Done::Kept(reply::keep(conn, &kept.1, &kept.2).await?)]
        }
        JobKind::Check(_) => {
            ledger.check();
            vec![Done::Checked]
        }
    })
}

/// The latest of the callers' times: all of them have passed when this runs.
fn latest(works: &[&JobKind]) -> Millis {
    let now = |work: &&JobKind| match work {
        JobKind::Apply(_, now, _) | JobKind::Dispatch(_, now, _) | JobKind::Extend(_, now, _) => Some(*now),
        _ => None,
    };
    works.iter().filter_map(now).max().unwrap_or(Millis::ZERO)
}

fn each<'w, T>(works: &[&'w JobKind], items: impl Fn(&'w JobKind) -> &'w [T]) -> Vec<&'w [T]> {
    works.iter().map(|work| items(work)).collect()
}

/// The items of all jobs; of a single job without a copy.
fn all<'w, T: Clone>(items: &[&'w [T]]) -> Cow<'w, [T]> {
    match items {
        [one] => Cow::Borrowed(one),
        many => Cow::Owned(many.concat()),
    }
}

/// The answers to all items, given back to the jobs that asked.
fn apart<T, A>(asked: &[&[T]], answers: Vec<A>, done: impl Fn(Vec<A>) -> Done) -> Vec<Done> {
    let mut answers = answers.into_iter();
    asked.iter().map(|list| done(answers.by_ref().take(list.len()).collect())).collect()
}
