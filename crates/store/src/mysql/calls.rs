//! How a call reaches the writers of its partitions, and its answers come back in the order of what was asked. What was
//! sent to a place that its partition has left goes after it. Must not decide anything about a task.

use super::{
    CHUNK_ROWS, Inner,
    insert::Ask,
    job::{Caller, Job, Refused, Work},
    line::{Lane, Line},
    routing::Patience,
};
use crate::Error;
use futures_util::future::join_all;
use punctual_contract::{Error as CallError, Happened, store::Inserted};
use punctual_domain::{place::Partition, task::NewTask, time::Millis};
use std::{
    collections::BTreeSet,
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
};
use tokio::sync::oneshot;

pub(super) fn push(line: Option<&Arc<Line<Job>>>, job: Job) {
    let refused = match line {
        Some(line) => line.push(job).err(),
        None => Some(job),
    };
    if let Some(job) = refused {
        job.refused();
    }
}

/// A job that was taken and never answered went down with its writer, before its commit or after it.
pub(super) async fn answered<A, I>(
    doing: &'static str,
    answer: oneshot::Receiver<Result<A, Refused<I>>>,
) -> Result<A, Refused<I>> {
    let lost = |_| Err(Refused::Failed(CallError::may_have_happened(doing, Error::WriterPanicked)));
    answer.await.unwrap_or_else(lost)
}

/// One commit of each writer of each database.
pub(super) async fn check_writers(inner: &Inner) -> Result<(), CallError> {
    const DOING: &str = "check the writers";
    let lines = inner.members().iter().flat_map(|it| it.lines.iter().flatten());
    let checks = lines.map(|line| {
        let (caller, answer) = oneshot::channel();
        push(Some(line), Job { doing: DOING, work: Work::Check(caller) });
        answered::<(), ()>(DOING, answer)
    });
    for checked in join_all(checks).await {
        if let Err(Refused::Failed(error)) = checked {
            return Err(error);
        }
    }
    Ok(())
}

/// Asks for ids, and then stands in line before whoever asked later: a caller that hung up and asks again must find what
/// it asked first, not be overtaken by itself.
pub(super) async fn insert(
    inner: Arc<Inner>,
    tasks: Vec<NewTask>,
    by: Arc<str>,
    now: Millis,
) -> Result<Vec<Inserted>, CallError> {
    const DOING: &str = "insert tasks";
    let taken = inner.context.ids.take_in_turn(tasks.len()).await;
    let (ids, turn) = taken.map_err(|it| CallError::did_not_happen(DOING, it))?;
    let partitions = inner.cluster.partitions;
    let asks = ids.into_iter().zip(tasks);
    let asks = asks.map(|(id, task)| Ask::new(id, task, Arc::clone(&by), now, partitions)).collect();
    let mut inserted =
        pin!(spread(&inner, (DOING, Lane::Bulk, CHUNK_ROWS), asks, |it: &Ask| it.partition, Work::Insert));
    let stands_in_line = polled_once(inserted.as_mut()).await;
    drop(turn);
    match stands_in_line {
        Poll::Ready(it) => it,
        Poll::Pending => inserted.await,
    }
}

pub(super) async fn polled_once<F: Future>(mut work: Pin<&mut F>) -> Poll<F::Output> {
    std::future::poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await
}

/// Items that go to the writers of their partitions, at most so many in one job; answers in the order of the items.
/// Those whose partition moves meanwhile follow it.
pub(super) async fn spread<T, A>(
    inner: &Arc<Inner>,
    (doing, lane, chunk_rows): (&'static str, Lane, usize),
    items: Vec<T>,
    partition: impl Fn(&T) -> Partition,
    work: impl Fn(Vec<T>, Caller<Vec<A>, Vec<T>>) -> Work,
) -> Result<Vec<A>, CallError> {
    let mut gathered = Gathered::new(items.len());
    let mut left: Vec<(usize, T)> = items.into_iter().enumerate().collect();
    let mut patience = Patience::new();
    while !left.is_empty() {
        let mut waiting = Vec::new();
        for (line, mut numbers, mut part) in inner.apart(lane, std::mem::take(&mut left), &partition) {
            while !part.is_empty() {
                let later = part.split_off(part.len().min(chunk_rows));
                let later_numbers = numbers.split_off(part.len());
                let (caller, answer) = oneshot::channel();
                push(line, Job { doing, work: work(part, caller) });
                waiting.push((numbers, answer));
                (part, numbers) = (later, later_numbers);
            }
        }
        let mut closed = BTreeSet::new();
        for (numbers, answer) in waiting {
            match answered(doing, answer).await {
                Ok(part) => gathered.add(numbers, part),
                Err(Refused::Failed(error)) => gathered.fail(error),
                Err(Refused::Elsewhere(items, of)) => {
                    left.extend(numbers.into_iter().zip(items));
                    closed.extend(of);
                }
            }
        }
        if !left.is_empty() && gathered.failed.is_none() {
            let followed = inner.follow(&mut patience, &closed).await;
            followed.unwrap_or_else(|it| gathered.fail(CallError::did_not_happen(doing, it)));
        }
        if gathered.failed.is_some() {
            break;
        }
    }
    gathered.answers()
}

/// The answers in the order of what was asked. Parts are committed one by one: the whole did not happen only if no
/// part did.
struct Gathered<A> {
    answers: Vec<(usize, A)>,
    some_happened: bool,
    failed: Option<CallError>,
}

impl<A> Gathered<A> {
    fn new(count: usize) -> Self {
        Self { answers: Vec::with_capacity(count), some_happened: false, failed: None }
    }

    fn add(&mut self, numbers: Vec<usize>, part: Vec<A>) {
        self.some_happened = true;
        self.answers.extend(numbers.into_iter().zip(part));
    }

    fn fail(&mut self, error: CallError) {
        self.some_happened |= error.happened == Happened::Maybe;
        self.failed = Some(error);
    }

    fn answers(mut self) -> Result<Vec<A>, CallError> {
        match self.failed {
            Some(error) if self.some_happened => Err(CallError { happened: Happened::Maybe, ..error }),
            Some(error) => Err(error),
            None => {
                self.answers.sort_unstable_by_key(|it| it.0);
                Ok(self.answers.into_iter().map(|it| it.1).collect())
            }
        }
    }
}
