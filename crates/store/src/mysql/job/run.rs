//! Runs jobs that arrived together in one transaction: jobs of one kind as one, so that many small calls cost few
//! statements. Must not begin or end the transaction.

use super::{Done, Job, JobKind};
use crate::mysql::{
    insert::{
        self,
        ask::{Ask, Context},
    },
    lease,
    ledger::Ledger,
    moves, namespaces,
    pauses::Pauses,
    reply, retention,
    statements::sql,
    trips::{FirstLook, Trips},
};
use punctual_domain::{
    place::{Partition, TaskRef},
    time::Millis,
};
use sqlx::MySqlConnection;
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashSet},
};

/// Jobs whose callers' times are this near each other, in milliseconds, are done at the latest of them: a batch is
/// gathered in less. Else each would be a statement of its own.
const NEAR_MS: i64 = 64;

/// The state that jobs share in one transaction.
pub(crate) struct JobContext<'a> {
    pub(crate) trips: &'a mut Trips,
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) context: &'a Context,
    /// The partitions in which the transaction may write.
    pub(crate) open: &'a BTreeSet<Partition>,
    /// The pauses, which forbid hand-overs, and the labels that the transaction enters.
    pub(crate) pauses: &'a Pauses,
    /// True if the transaction relies on the facts of the callers. Otherwise it reads every row.
    pub(crate) rests_on_facts: bool,
}

/// The beginning of a transaction.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    /// The first read, of rows of which nothing is known.
    pub(crate) look: Option<FirstLook>,
    pub(crate) rests_on_facts: bool,
}

impl Opening {
    /// Reads every row, with a lock.
    pub(crate) fn with_a_look(jobs: &[Job]) -> Self {
        let look = looked_at(jobs).and_then(|(text, places)| FirstLook::new(text, places));
        Self { look, rests_on_facts: false }
    }

    /// Relies on the facts of the callers, and reads the rest without locks where that is cheap. If one row differs,
    /// the transaction is undone, and begins again with a read.
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

/// The first read of a transaction of these jobs, if it is one statement: its text, and the places of different
/// tasks.
fn looked_at(jobs: &[Job]) -> Option<(&'static str, Vec<TaskRef>)> {
    let kind = kind(jobs.first()?, 0);
    if jobs.iter().enumerate().any(|(nth, job)| self::kind(job, nth) != kind) {
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

/// Jobs with the same are run as one.
fn kind(job: &Job, nth: usize) -> (u8, i64, usize) {
    let near = |now: &Millis| now.0.div_euclid(NEAR_MS);
    match &job.work {
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

/// Runs jobs inside a transaction, answers in their order.
pub(crate) async fn run(
    conn: &mut MySqlConnection,
    shared: &mut JobContext<'_>,
    jobs: &[Job],
) -> sqlx::Result<Vec<Done>> {
    let mut kinds: BTreeMap<_, Vec<(usize, &JobKind)>> = BTreeMap::new();
    for (nth, job) in jobs.iter().enumerate() {
        kinds.entry(kind(job, nth)).or_default().push((nth, &job.work));
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
