//! The units of work of a writer: what was asked, the caller that waits for the answer, and how the answer reaches it. Must not
//! run any of the work: that is done in `run`.

pub(super) mod run;

use super::insert::ask::{Ask, InsertedRow};
use crate::{Error, known, turns::Tenant};
use punctual_contract::{
    Error as CallError, Happened,
    namespaces::{DeleteTasks, DeletedTasks, FinishedTask},
    store::{
        Applied, Beat, Dispatched, Extended, Grant, Inserted, Reply, ReplyKey, Reservation, Reserved,
        Retired, Step, Stepped,
    },
};
use punctual_domain::{
    place::{Partition, TaskRef},
    time::Millis,
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::{sync::oneshot, time::Instant};

/// So late no lease is too late, however short it is.
const IN_TIME: Duration = Duration::from_millis(500);

/// The caller that waits for the answer, unless it is gone. `I`: what it asked for, and gets back if this was the wrong place.
pub(crate) type Caller<T, I> = oneshot::Sender<Result<T, RefusedJob<I>>>;

/// Why a job was not done.
#[derive(Debug)]
pub(crate) enum RefusedJob<I> {
    Failed(CallError),
    /// Nothing of the job happened: this database does not have these partitions, or refuses writes in them now.
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

/// The operation under a key.
#[derive(Debug)]
pub(crate) enum Keeping {
    Reserve(Reservation, Millis),
    Release(String),
    Save(Reply),
}

/// The result of a job, in its transaction.
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

/// A transaction that was not confirmed.
#[derive(Clone, Debug)]
pub(crate) struct Unfinished {
    pub(crate) happened: Happened,
    pub(crate) source: Arc<Error>,
    /// True if the content of one job may be the cause: the others are run without it.
    pub(crate) blames_a_job: bool,
    /// It may be done yet.
    pub(crate) is_race: bool,
}

impl Job {
    pub(crate) fn new(doing: &'static str, work: JobKind) -> Self {
        Self { doing, work, since: Instant::now() }
    }

    /// Leases that no caller waits for any more, or of which a third was over before they were made: an executor that learns of
    /// them, or the engine that would give them back, may come too late, and an attempt would be spent that no executor had. What is left is enough
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

    /// The tenant whose turn the job counts for.
    pub(crate) fn tenant(&self) -> Tenant {
        match &self.work {
            JobKind::Insert(asks, _) => asks.first().map_or(Tenant::NONE, |ask| Tenant::of(ask.namespace())),
            JobKind::Dispatch(grants, ..) => Tenant::of_grants(grants),
            _ => Tenant::NONE,
        }
    }

    /// Delivers the results after the commit. A caller that has disconnected ignores them.
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

    /// The partitions in which the job writes. `None` if it finds them itself.
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

    /// The steps of a job that moves tasks.
    fn steps(&self) -> &[Step] {
        if let JobKind::Apply(steps, ..) = &self.work { steps } else { &[] }
    }

    /// The places of existing tasks.
    pub(super) fn places(&self) -> impl Iterator<Item = TaskRef> {
        let beats: &[Beat] = if let JobKind::Extend(beats, ..) = &self.work { beats } else { &[] };
        let moved = self.steps().iter().map(|step| step.place);
        moved.chain(self.grants().iter().map(|grant| grant.place)).chain(beats.iter().map(|beat| beat.place))
    }

    /// The ids of tasks whose rows need not be read.
    pub(super) fn known(&self) -> impl Iterator<Item = i64> {
        let steps =
            self.steps().iter().filter(|step| known::of_step(step).is_some()).map(|step| step.place.id);
        let grants = self.grants().iter().filter(|grant| known::of_grant(grant).is_some());
        steps.chain(grants.map(|grant| grant.place.id))
    }

    /// The grants of a job that hands tasks over.
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
}
