//! Loads lines into the server: some batches at the same time, answers handled in the order of the file. One bad line
//! costs that line only. Holds a bounded number of lines, whatever the size of the file.

use super::{export::keep, lines::InputLine, lines::Lines, progress::ProgressDisplay};
use crate::say;
use anyhow::{Context, Result};
use futures_util::{
    StreamExt,
    future::{BoxFuture, FutureExt},
    stream::FuturesOrdered,
};
use punctual_protocol::{BatchItem, Code, FieldError, InsertOutcome, InsertTask, Invalid, Problem};
use punctual_sdk::{BatchError, Client, Error};
use serde::Serialize;
use std::{path::PathBuf, time::Duration};
use tokio::{
    fs::File,
    io::{AsyncBufRead, AsyncWriteExt},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

/// A batch is sent once its lines are this long, well below what a server takes.
const BATCH_BYTES: usize = 4 << 20;
/// A batch that does not fill up (a slow pipe) is sent after this long.
const FILL_WITHIN: Duration = Duration::from_millis(200);

#[derive(Clone, Debug)]
pub(super) struct LoadPlan {
    /// Lines to pass over.
    pub(super) skip: u64,
    pub(super) batch_tasks: usize,
    pub(super) in_flight: usize,
    /// The trace context of tasks that name none.
    pub(super) traceparent: Option<String>,
}

/// The results of the lines.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct LoadReport {
    /// Lines with something in them, after those that were skipped.
    pub(super) lines: u64,
    pub(super) inserted: u64,
    pub(super) replaced: u64,
    /// Were there already; nothing changed.
    pub(super) existing: u64,
    pub(super) refused: u64,
    /// Sent or not, without an answer.
    pub(super) unanswered: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stopped: Option<Stopped>,
}

/// Why the file was not loaded to its end.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Stopped {
    pub(super) reason: String,
    /// Every line up to this one has its answer.
    pub(super) answered_lines: u64,
}

impl LoadReport {
    pub(super) const fn is_clean(&self) -> bool {
        self.refused == 0 && self.unanswered == 0 && self.stopped.is_none()
    }

    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    pub(super) fn sentence(&self, took_s: f64) -> String {
        let count = crate::output::count;
        let parts = [
            (self.inserted, "inserted"),
            (self.replaced, "replaced"),
            (self.existing, "there already"),
            (self.refused, "refused"),
            (self.unanswered, "without an answer"),
        ];
        let said = parts.iter().filter(|(number, word)| *number > 0 || *word == "inserted");
        let said =
            said.map(|(number, word)| format!("{} {word}", count(*number))).collect::<Vec<_>>().join(", ");
        let rate = self.lines as f64 / took_s.max(0.001);
        format!("{} lines in {took_s:.1} s ({rate:.0} a second): {said}", count(self.lines))
    }
}

#[derive(Debug, Default)]
struct Batch {
    tasks: Vec<InsertTask>,
    /// The lines of the tasks.
    lines: Vec<InputLine>,
    bytes: usize,
}

type Answered = (Batch, Result<Vec<BatchItem>, BatchError>);

pub(super) struct Loader<R> {
    lines: Lines<R>,
    client: Client,
    plan: LoadPlan,
    progress: ProgressDisplay,
    rejects: Option<File>,
    /// The file with the number of the line up to which all lines have their answers.
    state_file: Option<PathBuf>,
    report: LoadReport,
    batch: Batch,
    flying: FuturesOrdered<BoxFuture<'static, Answered>>,
}

impl<R: AsyncBufRead + Unpin> Loader<R> {
    pub(super) fn new(
        lines: Lines<R>,
        client: Client,
        plan: LoadPlan,
        progress: ProgressDisplay,
        (rejects, state_file): (Option<File>, Option<PathBuf>),
    ) -> Self {
        let (report, batch, flying) = (LoadReport::default(), Batch::default(), FuturesOrdered::new());
        Self { lines, client, plan, progress, rejects, state_file, report, batch, flying }
    }

    /// Runs to the end of the file, to the first failure that is not about a line, or until `stop`.
    pub(super) async fn run(&mut self, stop: CancellationToken) -> Result<LoadReport> {
        let mut fill_until = Instant::now();
        while self.report.stopped.is_none() {
            let has_room = self.flying.len() < self.plan.in_flight;
            tokio::select! {
                biased;
                () = stop.cancelled() => self.stop("interrupted"),
                Some(answered) = self.flying.next(), if !self.flying.is_empty() => self.take_answer(answered).await?,
                () = sleep_until(fill_until), if has_room && !self.batch.tasks.is_empty() => self.send(),
                line = self.lines.next(), if has_room => match line.context("the file cannot be read on")? {
                    Some(line) => {
                        if self.batch.tasks.is_empty() {
                            fill_until = Instant::now() + FILL_WITHIN;
                        }
                        self.take(line).await?;
                    }
                    None => break,
                },
            }
        }
        self.finish().await
    }

    /// Sends the rest (unless stopped), and waits for every answer.
    async fn finish(&mut self) -> Result<LoadReport> {
        if self.report.stopped.is_none() && !self.batch.tasks.is_empty() {
            self.send();
        }
        while let Some(answered) = self.flying.next().await {
            self.take_answer(answered).await?;
        }
        self.report.unanswered += len(&self.batch.lines);
        if let Some(rejects) = &mut self.rejects {
            rejects.flush().await.context("the rejects cannot be written")?;
        }
        self.progress.finish();
        Ok(self.report.clone())
    }

    async fn take(&mut self, line: InputLine) -> Result<()> {
        let checked = if line.number <= self.plan.skip { None } else { checked(&line) };
        let Some(checked) = checked else {
            self.progress.passed(line.bytes);
            return Ok(());
        };
        self.report.lines += 1;
        match checked {
            Ok(task) => self.gather(task, line),
            Err(invalid) => self.refuse(&line, &invalid.into()).await?,
        }
        Ok(())
    }

    fn gather(&mut self, mut task: InsertTask, line: InputLine) {
        task.traceparent = task.traceparent.or_else(|| self.plan.traceparent.clone());
        self.batch.bytes += line.text.len();
        self.batch.tasks.push(task);
        self.batch.lines.push(line);
        if self.batch.tasks.len() >= self.plan.batch_tasks || self.batch.bytes >= BATCH_BYTES {
            self.send();
        }
    }

    fn send(&mut self) {
        let (batch, client) = (std::mem::take(&mut self.batch), self.client.clone());
        let sent = async move {
            let answer = client.insert_batch(&batch.tasks).await;
            (batch, answer)
        };
        self.flying.push_back(sent.boxed());
    }

    async fn take_answer(&mut self, (batch, answer): Answered) -> Result<()> {
        let (items, failure) = match answer {
            Ok(items) => (items, None),
            Err(BatchError { done, source }) => (done, Some(source)),
        };
        let last = batch.lines.last().map(|line| line.number);
        let mut lines = batch.lines.into_iter();
        for (item, line) in items.into_iter().zip(lines.by_ref()) {
            self.take_item(&line, item).await?;
        }
        match failure {
            None => self.keep(last),
            Some(Error::Refused(problem)) if !matches!(problem.status, 401 | 403 | 408 | 429 | 500..) => {
                for line in lines {
                    self.refuse(&line, &problem).await?;
                }
                self.keep(last)
            }
            Some(failure) => {
                let rest: Vec<InputLine> = lines.collect();
                self.report.unanswered += len(&rest);
                self.stop_at(rest.first().map(|rest| rest.number), &chain(&failure));
                Ok(())
            }
        }
    }

    /// Answers come in the order of the file: every line up to this one has its own.
    fn keep(&self, line: Option<u64>) -> Result<()> {
        match (&self.state_file, line) {
            // What came after a failure is not kept: it is sent again.
            (Some(path), Some(line)) if self.report.stopped.is_none() => keep(path, &line.to_string()),
            _ => Ok(()),
        }
    }

    async fn take_item(&mut self, line: &InputLine, item: BatchItem) -> Result<()> {
        if let Some(problem) = item.error {
            return self.refuse(line, &problem).await;
        }
        match item.task.and_then(|task| task.outcome) {
            Some(InsertOutcome::Existing) => self.report.existing += 1,
            Some(InsertOutcome::Replaced) => self.report.replaced += 1,
            Some(InsertOutcome::Created) | None => self.report.inserted += 1,
        }
        self.progress.done(line.bytes, self.report.lines);
        Ok(())
    }

    async fn refuse(&mut self, line: &InputLine, problem: &Problem) -> Result<()> {
        self.report.refused += 1;
        self.progress.refused(line.number, problem, &say::reason(problem))?;
        self.progress.done(line.bytes, self.report.lines);
        if let (Some(rejects), false) = (&mut self.rejects, line.is_too_long) {
            let text = [line.text.as_slice(), b"\n"].concat();
            rejects.write_all(&text).await.context("the rejects cannot be written")?;
        }
        Ok(())
    }

    /// Stops for a reason other than a line. It still waits for running requests.
    fn stop(&mut self, reason: &str) {
        let unsent = self.batch.lines.first().map(|line| line.number);
        self.stop_at(unsent, reason);
    }

    /// The first stop counts: answers come in the order of the file.
    fn stop_at(&mut self, first_unanswered: Option<u64>, reason: &str) {
        let answered_lines = first_unanswered.map_or_else(|| self.lines.number(), |number| number - 1);
        let stopped =
            self.report.stopped.get_or_insert_with(|| Stopped { reason: reason.to_owned(), answered_lines });
        stopped.answered_lines = stopped.answered_lines.min(answered_lines);
    }
}

/// The task of a line. `None` if there is nothing in it.
pub(super) fn checked(line: &InputLine) -> Option<Result<InsertTask, Invalid>> {
    let first = if line.number == 1 { line.text.strip_prefix("\u{feff}".as_bytes()) } else { None };
    let text = first.unwrap_or(&line.text);
    let is_empty = text.trim_ascii().is_empty() && !line.is_too_long;
    (!is_empty).then(|| read(text, line.is_too_long))
}

fn read(text: &[u8], is_too_long: bool) -> Result<InsertTask, Invalid> {
    if is_too_long {
        let detail =
            format!("longer than {} bytes; it is not in the rejects either", super::lines::LINE_BYTES_MAX);
        return Err(Invalid { code: Code::RequestInvalid, errors: vec![FieldError::new("", detail)] });
    }
    InsertTask::from_json(text)
}

fn len<T>(items: &[T]) -> u64 {
    u64::try_from(items.len()).unwrap_or(u64::MAX)
}

fn chain(error: &Error) -> String {
    let mut said = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        said = format!("{said}: {inner}");
        cause = inner.source();
    }
    said
}
