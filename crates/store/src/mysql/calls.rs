//! Sends a call to the writers of its partitions, and returns its answers in the order of its items. Items for a
//! place that their partition has left are sent again to its new place. Must not decide anything about a task.

use super::{
    insert::ask::Ask,
    job::{Caller, Job, JobKind, RefusedJob},
    line::{JobQueue, WriterKind},
    routing::state::Patience,
    state::MySqlState,
};
use crate::Error;
use futures_util::future::join_all;
use punctual_contract::{
    Error as CallError,
    store::{Inserted, all_of},
};
use punctual_domain::{place::Partition, task::NewTask, time::Millis};
use std::{
    collections::BTreeSet,
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
};
use tokio::{
    sync::oneshot,
    time::{Duration, Instant, timeout_at},
};

/// Rows of a large insert that one job takes, so that urgent work gets between them.
pub(super) const CHUNK_ROWS: usize = 500;
/// The time without an answer after which a call with several answers no longer waits for the rest.
const SILENT_PART: Duration = Duration::from_secs(5);

pub(super) fn push(line: Option<&Arc<JobQueue<Job>>>, job: Job) {
    let refused = match line {
        Some(line) => line.push((job.tenant(), job.rows()), job).err(),
        None => Some(job),
    };
    if let Some(job) = refused {
        job.refused();
    }
}

/// A job that was taken and never answered went down with its writer, before its commit or after it.
pub(super) async fn answered<A, I>(
    doing: &'static str,
    answer: oneshot::Receiver<Result<A, RefusedJob<I>>>,
) -> Result<A, RefusedJob<I>> {
    let lost = |_| Err(RefusedJob::Failed(CallError::may_have_happened(doing, Error::WriterPanicked)));
    answer.await.unwrap_or_else(lost)
}

/// One commit of each writer of each database.
pub(super) async fn check_writers(inner: &MySqlState, part: usize) -> Result<(), CallError> {
    const DOING: &str = "check the writers";
    let lines = inner.members().get(part).into_iter().flat_map(|member| member.lines.iter().flatten());
    let checks = lines.map(|line| {
        let (caller, answer) = oneshot::channel();
        push(Some(line), Job::new(DOING, JobKind::Check(caller)));
        answered::<(), ()>(DOING, answer)
    });
    for checked in join_all(checks).await {
        if let Err(RefusedJob::Failed(error)) = checked {
            return Err(error);
        }
    }
    Ok(())
}

/// Asks for ids, and then is in line before the caller that asked later: a caller that hung up and asks again must find what
/// it asked first, not be superseded by itself.
pub(super) async fn insert(
    inner: Arc<MySqlState>,
    tasks: Vec<NewTask>,
    by: Arc<str>,
    now: Millis,
) -> Result<Vec<Result<Inserted, CallError>>, CallError> {
    const DOING: &str = "insert tasks";
    let taken = inner.context.ids.take_in_turn(tasks.len()).await;
    let (ids, turn) = taken.map_err(|error| CallError::did_not_happen(DOING, error))?;
    let partitions = inner.cluster.partitions;
    let asks = ids.into_iter().zip(tasks);
    let asks = asks.map(|(id, task)| Ask::new(id, task, Arc::clone(&by), now, partitions)).collect();
    let mut inserted = pin!(spread(
        &inner,
        (DOING, WriterKind::Bulk, CHUNK_ROWS),
        asks,
        |ask: &Ask| ask.partition,
        JobKind::Insert
    ));
    let stands_in_line = polled_once(inserted.as_mut()).await;
    drop(turn);
    let gathered = match stands_in_line {
        Poll::Ready(stands_in_line) => stands_in_line,
        Poll::Pending => inserted.await,
    };
    Ok(gathered.each())
}

pub(super) async fn polled_once<F: Future>(mut work: Pin<&mut F>) -> Poll<F::Output> {
    std::future::poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await
}

/// Sends items to the writers of their partitions, a bounded number in one job, and returns the answers in the order
/// of the items. Items whose partition moves meanwhile follow it. A part that fails, or is silent, does not affect
/// the others.
pub(super) async fn spread<T, A>(
    inner: &Arc<MySqlState>,
    (doing, lane, chunk_rows): (&'static str, WriterKind, usize),
    items: Vec<T>,
    partition: impl Fn(&T) -> Partition,
    work: impl Fn(Vec<T>, Caller<Vec<A>, Vec<T>>) -> JobKind,
) -> Gathered<A> {
    let mut gathered = Gathered::new(doing, items.len());
    let mut left: Vec<(usize, T)> = items.into_iter().enumerate().collect();
    let mut patience = Patience::new();
    while !left.is_empty() {
        let mut waiting = Vec::new();
        for (line, mut numbers, mut part) in inner.apart(lane, std::mem::take(&mut left), &partition) {
            while !part.is_empty() {
                let later = part.split_off(part.len().min(chunk_rows));
                let later_numbers = numbers.split_off(part.len());
                let (caller, answer) = oneshot::channel();
                push(line, Job::new(doing, work(part, caller)));
                waiting.push((numbers, answer));
                (part, numbers) = (later, later_numbers);
            }
        }
        let mut closed = BTreeSet::new();
        // One alone is waited for as long as its writer takes.
        let mut end = (waiting.len() > 1).then(|| Instant::now() + SILENT_PART);
        for (numbers, answer) in waiting {
            let answer = answered_by(doing, answer, end).await;
            let now = Instant::now();
            end = end.map(|end| if now < end { now + SILENT_PART } else { end });
            match answer {
                Ok(part) => gathered.add(numbers, part),
                Err(RefusedJob::Failed(error)) => gathered.fail(numbers, &error),
                Err(RefusedJob::Elsewhere(items, of)) => {
                    left.extend(numbers.into_iter().zip(items));
                    closed.extend(of);
                }
            }
        }
        if !left.is_empty()
            && let Err(error) = inner.follow(&mut patience, &closed).await
        {
            let numbers = left.drain(..).map(|pair| pair.0).collect();
            gathered.fail(numbers, &CallError::did_not_happen(doing, error));
        }
    }
    gathered
}

/// Waits like `answered`, until an instant: later answers are ignored.
async fn answered_by<A, I>(
    doing: &'static str,
    answer: oneshot::Receiver<Result<A, RefusedJob<I>>>,
    end: Option<Instant>,
) -> Result<A, RefusedJob<I>> {
    let answer = answered(doing, answer);
    let Some(end) = end else { return answer.await };
    let silent = |_| Err(RefusedJob::Failed(CallError::may_have_happened(doing, Error::Late)));
    timeout_at(end, answer).await.unwrap_or_else(silent)
}

/// The answers in the order of what was asked. Parts are committed one by one, and each has its own.
#[derive(Debug)]
pub(super) struct Gathered<A> {
    doing: &'static str,
    answers: Vec<Option<Result<A, CallError>>>,
}

impl<A> Gathered<A> {
    fn new(doing: &'static str, count: usize) -> Self {
        Self { doing, answers: (0..count).map(|_| None).collect() }
    }

    fn add(&mut self, numbers: Vec<usize>, part: Vec<A>) {
        for (nth, answer) in numbers.into_iter().zip(part) {
            self.put(nth, Ok(answer));
        }
    }

    fn fail(&mut self, numbers: Vec<usize>, error: &CallError) {
        for nth in numbers {
            self.put(nth, Err(error.clone()));
        }
    }

    fn put(&mut self, nth: usize, answer: Result<A, CallError>) {
        if let Some(place) = self.answers.get_mut(nth) {
            *place = Some(answer);
        }
    }

    /// The result of each item.
    pub(super) fn each(self) -> Vec<Result<A, CallError>> {
        let doing = self.doing;
        let none = || Err(CallError::may_have_happened(doing, Error::Closed));
        self.answers.into_iter().map(|result| result.unwrap_or_else(none)).collect()
    }

    /// The combined result: it is `Happened::No` only if no item took effect.
    pub(super) fn all(self) -> Result<Vec<A>, CallError> {
        all_of(self.each())
    }
}
