//! The databases of the store ("parts"), which fail independently. They are asked concurrently, and no caller
//! waits for one that does not answer. Tasks of a failing database that were about to be handed over are
//! deferred until it answers, so that they do not block others. Deferred tasks need not survive: if this
//! engine dies, the next owner of the partition reads them from the store and offers them again. Must not
//! decide anything about a task.
//!
//! A store of one database is a special case. Loops are not blocked by it, and what they began continues by
//! itself. But no other database could answer meanwhile. So it is never doubted (`is_doubtful`), none of its
//! tasks are deferred here, and a caller waits as long as the store does.

mod pace;
pub(crate) mod state;

use crate::{core::Core, pipeline::line, sharing::database_reachability};
use futures_util::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};
use hashbrown::HashMap;
use punctual_contract::{Error, hot::HotEntry, store::Scan};
use punctual_domain::{
    name::QueueKey,
    place::Partition,
    time::{Millis, Span},
};
use state::{Asked, LEASES_WITHIN, Trouble};
use std::{
    future::Future,
    panic::{AssertUnwindSafe, resume_unwind},
    pin::pin,
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout, timeout_at},
};

/// The pause between two checks of deferred tasks.
pub(crate) const PERIOD: Duration = Duration::from_millis(200);
/// Work of a database that takes longer continues by itself, and the caller continues with the others.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// The time limit after which a caller that wants all answers gets errors for the missing ones.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);
/// A database that is at the same work for this long counts as failing.
const STUCK_AFTER: Duration = Duration::from_secs(10);
/// Most tasks that are deferred here, about 30 MiB; the rest is left to the refill.
const ASIDE_MAX: usize = 100_000;

/// A loop's work at one part: no second one is begun before it has ended.
struct DatabaseRun {
    core: Arc<Core>,
    key: (&'static str, usize),
}

impl DatabaseRun {
    /// The error: it is at it, since when.
    fn begin(core: &Arc<Core>, key: (&'static str, usize)) -> Result<Self, Instant> {
        let mut inner = core.parts.0.lock();
        match inner.busy.get(&key) {
            Some(since) => Err(*since),
            None => {
                inner.busy.insert(key, Instant::now());
                Ok(Self { core: Arc::clone(core), key })
            }
        }
    }
}

impl Drop for DatabaseRun {
    fn drop(&mut self) {
        self.core.parts.0.lock().busy.remove(&self.key);
    }
}

/// Runs a loop's work for each database, concurrently. Work that has not ended after `patience` continues by
/// itself, and until it ends, later runs leave that database out. Returns the sum, or the error of a failing
/// database after the others were served. A panic in one database's work is the service's panic.
pub(crate) async fn each<W>(
    core: &Arc<Core>,
    name: &'static str,
    patience: Duration,
    work: impl Fn(Arc<Core>, usize) -> W,
) -> Result<usize, Error>
where
    W: Future<Output = Result<usize, Error>> + Send + 'static,
{
    let (mut running, mut done, mut failed, mut panicked) = (FuturesUnordered::new(), 0, None, None);
    for part in 0..core.store.parts() {
        match DatabaseRun::begin(core, (name, part)) {
            Ok(turn) => {
                let (ended, end) = oneshot::channel();
                let work = work(Arc::clone(core), part);
                core.work.detach(async move {
                    let result = AssertUnwindSafe(work).catch_unwind().await;
                    drop(turn);
                    // The service no longer waits: the error is logged here or nowhere. A panic is logged by itself.
                    if let Err(Ok(Err(error))) = ended.send(result) {
                        tracing::warn!(service = name, part, %error, "a database failed after a while; it is tried again");
                    }
                });
                running.push(end);
            }
            Err(since) if since.elapsed() > STUCK_AFTER => {
                let why = format!("database {part} has not answered for {}", Span::of(since.elapsed()));
                failed = Some(Error::may_have_happened(name, why));
            }
            Err(_) => {}
        }
    }
    let end = Instant::now() + patience;
    while let Ok(Some(ended)) = timeout_at(end, running.next()).await {
        match ended {
            Ok(Ok(Ok(count))) => done += count,
            Ok(Ok(Err(error))) => failed = Some(error),
            Ok(Err(panic)) => panicked = Some(panic),
            Err(_) => failed = Some(Error::may_have_happened(name, "the work was dropped")),
        }
    }
    if let Some(panic) = panicked {
        resume_unwind(panic);
    }
    failed.map_or(Ok(done), Err)
}

/// This engine's partitions in one database.
pub(crate) fn owned(core: &Core, part: usize) -> Vec<Partition> {
    core.owned().filter(|partition| is_in(core, part, *partition)).collect()
}

pub(crate) fn is_in(core: &Core, part: usize, partition: Partition) -> bool {
    core.store.part_of(partition) == part
}

/// Items by the part that has their partition.
pub(crate) fn split<T>(
    core: &Core,
    items: Vec<T>,
    partition: impl Fn(&T) -> Partition,
) -> Vec<(usize, Vec<T>)> {
    let mut parts: Vec<(usize, Vec<T>)> = Vec::new();
    for item in items {
        let part = core.store.part_of(partition(&item));
        match parts.iter_mut().find(|pair| pair.0 == part) {
            Some((_, some)) => some.push(item),
            None => parts.push((part, vec![item])),
        }
    }
    parts
}

/// Runs work for which only `claims_drained` waits: concurrently, each database separately.
pub(crate) async fn apart<T, W>(
    core: &Arc<Core>,
    items: Vec<T>,
    partition: impl Fn(&T) -> Partition,
    work: impl Fn(Arc<Core>, Vec<T>) -> W,
) where
    W: Future<Output = ()> + Send + 'static,
{
    for (_, some) in split(core, items, partition) {
        core.work.detach_claim(work(Arc::clone(core), some));
    }
}

/// Asks each database for its items, concurrently. Answers are in the order of the items; those of a database
/// that fails or is late are errors. A database that is asked alone delays no other answer: unless it is
/// known to fail while others do not, the caller waits for it as long as the store itself does.
pub(crate) async fn ask_each<T, A, W>(
    core: &Arc<Core>,
    doing: &'static str,
    items: Vec<T>,
    partition: impl Fn(&T) -> Partition,
    work: impl Fn(Arc<Core>, Vec<T>) -> W,
) -> Vec<Result<A, Error>>
where
    A: Send + 'static,
    W: Future<Output = Result<Vec<A>, Error>> + Send + 'static,
{
    let mut answers: Vec<Option<Result<A, Error>>> = items.iter().map(|_| None).collect();
    let parts = split(core, items.into_iter().enumerate().collect(), |numbered| partition(&numbered.1));
    let is_alone = parts.len() == 1;
    let (mut asked, mut patience) = (FuturesUnordered::new(), Duration::ZERO);
    for (part, some) in parts {
        let (numbers, some): (Vec<usize>, Vec<T>) = some.into_iter().unzip();
        let work = work(Arc::clone(core), some);
        let is_failing = core.parts.trouble(part) == Trouble::Fails && is_doubtful(core, part);
        if is_alone && !is_failing {
            fill(&mut answers, numbers, work.await);
            break;
        }
        // A failing database is still asked, and may do the work; but the others' answers are not delayed.
        patience = patience.max(if is_failing { LEASES_WITHIN } else { ANSWERS_WITHIN });
        let (answer, answered) = oneshot::channel();
        core.work.detach(async move { drop(answer.send(work.await)) });
        asked.push(async move { (numbers, answered.await) });
    }
    let end = Instant::now() + patience;
    while let Ok(Some((numbers, answer))) = timeout_at(end, asked.next()).await {
        if let Ok(answer) = answer {
            fill(&mut answers, numbers, answer);
        }
    }
    let silent = || Err(Error::may_have_happened(doing, "a database has not answered in time"));
    answers.into_iter().map(|answer| answer.unwrap_or_else(silent)).collect()
}

/// Stores a database's answer for the items with these numbers.
fn fill<A>(answers: &mut [Option<Result<A, Error>>], numbers: Vec<usize>, answer: Result<Vec<A>, Error>) {
    let each: Vec<Result<A, Error>> = match answer {
        Ok(all) => all.into_iter().map(Ok).collect(),
        Err(error) => numbers.iter().map(|_| Err(error.clone())).collect(),
    };
    for (nth, one) in numbers.into_iter().zip(each) {
        if let Some(place) = answers.get_mut(nth) {
            *place = Some(one);
        }
    }
}

/// This database is in more trouble than the best one: a caller that could get tasks of that one does not
/// wait for it. If all are in the same trouble there is no alternative, and it is asked as if all were well.
pub(crate) fn is_doubtful(core: &Core, part: usize) -> bool {
    core.parts.doubtful(core.store.parts()).contains(&part)
}

/// Keeps tasks of databases that answer, and defers the others.
pub(crate) fn keep_answering(core: &Core, entries: Vec<HotEntry>) -> Vec<HotEntry> {
    let doubtful = core.parts.doubtful(core.store.parts());
    if doubtful.is_empty() {
        return entries;
    }
    // Tasks that may be handed over without their database are kept.
    let is_doubtful = |entry: &HotEntry| {
        doubtful.contains(&core.store.part_of(entry.place.partition))
            && !core.settings.queue(&entry.queue).hands_over_while_away()
    };
    let (doubtful, good): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_doubtful);
    set_aside(core, &doubtful);
    good
}

/// Defers fired tasks until the part of the store answers. They are in no line.
pub(crate) fn set_aside(core: &Core, entries: &[HotEntry]) {
    core.live.lock().set_aside(entries, ASIDE_MAX);
}

fn take_aside(core: &Core, part: usize) -> Vec<HotEntry> {
    core.live.lock().take_aside(|entry| core.store.part_of(entry.place.partition) == part)
}

/// Asks a database for leases, and measures how long it takes. Its answer also releases tasks that were
/// deferred while it was doubted.
pub(crate) async fn leasing<T>(
    core: &Arc<Core>,
    part: usize,
    patience: Duration,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let asked = Asked::new(&core.parts, part);
    let answer = watched(core, part, patience, work).await;
    if answer.is_ok() {
        asked.pace(|pace| pace.leased(asked.asked, Instant::now()));
        if !is_doubtful(core, part) {
            let back = take_aside(core, part);
            if !back.is_empty() {
                offer(core, &back, |queue, count| core.arrived(queue, count));
            }
        }
    }
    answer
}

/// The work for a database, which counts as failing when it takes too long.
async fn watched<T>(core: &Core, part: usize, patience: Duration, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    match timeout(patience, work.as_mut()).await {
        Ok(done) => done,
        Err(_) => {
            core.parts.failed(part);
            work.await
        }
    }
}

/// Checks whether failed databases answer again, and offers the deferred tasks. Returns the number offered.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, Error> {
    let mut offered = 0;
    for part in (0..core.store.parts()).filter(|nth| database_reachability::is_only_elsewhere(core, *nth)) {
        // Another engine can hand it over, so its executors learn of it before this one's.
        let back = take_aside(core, part);
        offered += back.len();
        offer(core, &back, |queue, _| core.announce_ready(queue));
    }
    let aside: Vec<Partition> = core.live.lock().aside().collect();
    let aside = aside.into_iter().map(|partition| (core.store.part_of(partition), partition));
    for (part, known) in core.parts.to_look_at(Instant::now(), aside) {
        let there = |partition: &Partition| core.store.part_of(*partition) == part;
        let Some(partition) = known.or_else(|| core.partitions().find(there)) else {
            core.parts.answers(part);
            continue;
        };
        let scan = Scan { partition, until: Millis::ZERO, after: None, limit: 1 };
        match timeout(PATIENCE, core.store.scan(scan)).await {
            Ok(Ok(_)) => {
                core.parts.answers(part);
                let back = take_aside(core, part);
                offered += back.len();
                offer(core, &back, |queue, count| core.arrived(queue, count));
            }
            Ok(Err(_)) | Err(_) => core.parts.failed(part),
        }
    }
    Ok(offered)
}

/// `arrived` is called with the number of tasks added to a queue's line.
fn offer(core: &Core, entries: &[HotEntry], arrived: impl Fn(&Arc<QueueKey>, usize)) {
    let mut queues: HashMap<&Arc<QueueKey>, usize> = HashMap::new();
    for entry in entries {
        *queues.entry(&entry.queue).or_default() += 1;
    }
    line::serve(core, entries);
    queues.iter().for_each(|(queue, count)| arrived(queue, *count));
}
