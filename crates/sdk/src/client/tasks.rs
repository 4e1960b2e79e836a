//! The calls about tasks. An insert without a `task_id` and `key` carries an `Idempotency-Key`, so that sending it again cannot
//! double it; one with either is idempotent by itself.

use bytes::Bytes;
use punctual_protocol::limits::BATCH_MAX;
use punctual_protocol::{
    ActionAnswer, BatchAnswer, BatchItem, BuryRequest, CancelRequest, FoundTasks, InsertTask, Int64,
    OnConflict, Page, PatchTask, RedriveAnswer, RedriveDead, SearchDead, SearchTasks, Task, Why, headers,
};
use reqwest::Method;
use serde::Serialize;
use std::time::Duration;
use tokio::time::Instant;

use super::{Client, Repeat};
use crate::error::{BatchError, Error};

/// One call of `wait` lasts at most so long, so that no proxy takes the connection for a dead one.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// Between two calls of `wait`.
const PAUSE: Duration = Duration::from_millis(100);
/// A part of a batch is sent at this size, well below the server's limit.
const PART_BYTES: usize = 8 << 20;

/// Sent again it could double a task, or be refused because of its own first try.
fn needs_key(task: &InsertTask) -> bool {
    (task.task_id.is_none() && task.key.is_none()) || task.on_conflict == Some(OnConflict::Fail)
}

impl Client {
    /// Inserts a task. The answer's `outcome` says whether it is new.
    pub async fn insert(&self, task: &InsertTask) -> Result<Task, Error> {
        task.check()?;
        let mut call = self.new_call(Method::POST, "/v1/tasks".into(), body(task)?);
        if needs_key(task) {
            call.headers.push((headers::IDEMPOTENCY_KEY, new_key()));
        }
        self.call(call, Repeat::Safe).await
    }

    /// Inserts any number of tasks, in parts of up to 10,000. The results are in the order of the tasks; one that is
    /// refused does not spoil the others.
    pub async fn insert_batch(&self, tasks: &[InsertTask]) -> Result<Vec<BatchItem>, BatchError> {
        let mut done = Vec::with_capacity(tasks.len());
        while done.len() < tasks.len() {
            let rest = tasks.get(done.len()..).unwrap_or_default();
            match self.insert_part(rest).await {
                Ok(results) => done.extend(results),
                Err(source) => return Err(BatchError { done, source }),
            }
        }
        Ok(done)
    }

    /// Inserts like `insert_batch`, for tasks that need not be in memory all at once: the iterator's tasks are sent
    /// in parts of up to 10,000, and `each` gets every part's results, in order, before the next part is made. The
    /// `done` of an error covers the last part alone.
    pub async fn insert_all<I>(
        &self,
        tasks: I,
        mut each: impl FnMut(Vec<BatchItem>),
    ) -> Result<(), BatchError>
    where
        I: IntoIterator,
        I::Item: Into<InsertTask>,
    {
        let mut tasks = tasks.into_iter();
        loop {
            let part: Vec<InsertTask> = tasks.by_ref().take(BATCH_MAX).map(Into::into).collect();
            if part.is_empty() {
                return Ok(());
            }
            each(self.insert_batch(&part).await?);
        }
    }

    /// Inserts the first tasks of `rest`, at least one of them.
    async fn insert_part(&self, rest: &[InsertTask]) -> Result<Vec<BatchItem>, Error> {
        let (count, body) = part(rest)?;
        let mut call = self.new_call(Method::POST, "/v1/tasks/batch".into(), body);
        if rest.iter().take(count).any(needs_key) {
            call.headers.push((headers::IDEMPOTENCY_KEY, new_key()));
        }
        let answer: BatchAnswer = self.call(call, Repeat::Safe).await?;
        if answer.results.len() == count {
            return Ok(answer.results);
        }
        let source = format!("{} results for {count} tasks", answer.results.len()).into();
        Err(Error::Indeterminate { source })
    }

    /// One task, with its history. By its `ref`, or by `key:` and its key.
    pub async fn get(&self, reference: &str) -> Result<Task, Error> {
        self.fetch(path(reference, "")).await
    }

    /// Waits until a task has succeeded, is dead or is cancelled, and returns it. After `limit` it returns the task as
    /// it is then: its `ended_as` is `None`.
    pub async fn wait(&self, reference: &str, limit: Duration) -> Result<Task, Error> {
        let until = Instant::now() + limit;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let wait = left.min(WAIT_MAX);
            let path = format!("{}?wait_ms={}", path(reference, ""), wait.as_millis());
            let mut call = self.new_call(Method::GET, path, Bytes::new());
            call.timeout += wait;
            let task: Task = self.call(call, Repeat::Safe).await?;
            if task.ended_as.is_some() || left <= wait {
                return Ok(task);
            }
            // A server that stops answers at once.
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The tasks of a caller's id: all versions, or the one that is named.
    pub async fn find(&self, task_id: i64, task_version: Option<i64>) -> Result<Vec<Task>, Error> {
        let search = SearchTasks {
            task_id: Some(Int64(task_id)),
            task_version: task_version.map(Int64),
            ..SearchTasks::default()
        };
        self.list(&search).await.map(|page| page.items)
    }

    /// The tasks of a key: all versions, or the one that is named.
    pub async fn find_key(&self, key: &str, task_version: Option<i64>) -> Result<Vec<Task>, Error> {
        let search = SearchTasks {
            key: Some(key.to_owned()),
            task_version: task_version.map(Int64),
            ..SearchTasks::default()
        };
        self.list(&search).await.map(|page| page.items)
    }

    /// A page of the tasks that match; for the next one set `cursor` to its `next_cursor`.
    pub async fn list(&self, search: &SearchTasks) -> Result<Page<Task>, Error> {
        let FoundTasks { items, next_cursor, .. } = self.search(search).await?;
        Ok(Page { items, next_cursor })
    }

    /// The same, with the access path, and whether the search is complete.
    pub async fn search(&self, search: &SearchTasks) -> Result<FoundTasks, Error> {
        search.check()?;
        let query = serde_urlencoded::to_string(search).map_err(|e| Error::configuration(e.to_string()))?;
        self.fetch(format!("/v1/tasks?{query}")).await
    }

    /// Withdraws a task that has not fired; `task.already_fired` otherwise.
    pub async fn cancel(&self, reference: &str) -> Result<ActionAnswer, Error> {
        self.act(reference, "/cancel", Bytes::new()).await
    }

    /// Withdraws a task also when it has fired and waits, and asks a running executor to stop.
    pub async fn cancel_or_stop(&self, reference: &str) -> Result<ActionAnswer, Error> {
        self.act(reference, "/cancel", body(&CancelRequest { stop_if_fired: true })?).await
    }

    /// Changes time, priority or payload of a task that has not fired; `task.already_fired` otherwise.
    pub async fn reschedule(&self, reference: &str, patch: &PatchTask) -> Result<Task, Error> {
        patch.check()?;
        let call = self.new_call(Method::PATCH, path(reference, ""), body(patch)?);
        // A delay counts from the server's now, so that a change which is sent twice is not the same change.
        self.call(call, if patch.delay_ms.is_none() { Repeat::Safe } else { Repeat::IfNotDone }).await
    }

    /// Makes a task due now.
    pub async fn run_now(&self, reference: &str) -> Result<ActionAnswer, Error> {
        self.act(reference, "/run-now", Bytes::new()).await
    }

    /// Gives a dead task its attempts again.
    pub async fn redrive(&self, reference: &str) -> Result<ActionAnswer, Error> {
        self.act(reference, "/redrive", Bytes::new()).await
    }

    /// A page of the tasks that are dead; for the next one set `cursor` to its `next_cursor`.
    pub async fn dead_letters(&self, search: &SearchDead) -> Result<Page<Task>, Error> {
        search.check()?;
        let query = serde_urlencoded::to_string(search).map_err(|e| Error::configuration(e.to_string()))?;
        self.fetch(format!("/v1/dead-letters?{query}")).await
    }

    /// Gives dead tasks new attempts. One call handles at most its `limit`; `next_cursor` continues.
    pub async fn redrive_dead(&self, request: &RedriveDead) -> Result<RedriveAnswer, Error> {
        request.check()?;
        let mut call = self.new_call(Method::POST, "/v1/dead-letters/redrive".into(), body(request)?);
        call.headers.push((headers::IDEMPOTENCY_KEY, new_key()));
        self.call(call, Repeat::Safe).await
    }

    /// Puts a task that no executor has among the dead.
    pub async fn bury(&self, reference: &str, request: &BuryRequest) -> Result<ActionAnswer, Error> {
        self.act(reference, "/bury", body(request)?).await
    }

    /// Deletes a finished task with its history and its payload.
    pub async fn delete(&self, reference: &str) -> Result<ActionAnswer, Error> {
        self.call(self.new_call(Method::DELETE, path(reference, ""), Bytes::new()), Repeat::IfNotDone).await
    }

    /// Why a task has not run.
    pub async fn why(&self, reference: &str) -> Result<Why, Error> {
        self.fetch(path(reference, "/why")).await
    }

    async fn act(&self, reference: &str, action: &str, body: Bytes) -> Result<ActionAnswer, Error> {
        self.post(path(reference, action), body, Repeat::IfNotDone).await
    }
}

pub(super) fn body<T: Serialize + ?Sized>(value: &T) -> Result<Bytes, Error> {
    serde_json::to_vec(value)
        .map(Bytes::from)
        .map_err(|e| Error::configuration(format!("cannot be written as JSON: {e}")))
}

/// The first tasks as the body of a batch, and how many they are.
fn part(tasks: &[InsertTask]) -> Result<(usize, Bytes), Error> {
    let mut text = br#"{"tasks":["#.to_vec();
    let mut count = 0;
    for task in tasks.iter().take(BATCH_MAX) {
        let item = body(task)?;
        if count > 0 && text.len() + item.len() > PART_BYTES {
            break;
        }
        if count > 0 {
            text.push(b',');
        }
        text.extend_from_slice(&item);
        count += 1;
    }
    text.extend_from_slice(b"]}");
    Ok((count, text.into()))
}

fn path(reference: &str, tail: &str) -> String {
    format!("/v1/tasks/{}{tail}", segment(reference))
}

/// One path segment, percent-encoded.
pub(super) fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'~' | b':' => out.push(char::from(byte)),
            // A segment of dots alone would be interpreted as a step in the path.
            b'.' if !text.bytes().all(|b| b == b'.') => out.push('.'),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

pub(super) fn new_key() -> String {
    format!("{:032x}", fastrand::u128(..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_ends_at_10_000_tasks_or_at_its_size() {
        let small = vec![InsertTask::new("q"); BATCH_MAX + 1];
        assert_eq!(part(&small).unwrap().0, BATCH_MAX);
        let payload = Some(crate::json(&"x".repeat(3 << 20)).unwrap());
        let large = vec![InsertTask { payload, ..InsertTask::new("q") }; 5];
        let (count, text) = part(&large).unwrap();
        assert_eq!(count, 2);
        assert_eq!(punctual_protocol::InsertBatch::from_json(&text).unwrap().tasks.len(), 2);
    }

    #[test]
    fn a_task_larger_than_a_part_is_sent_alone() {
        let payload = Some(crate::json(&"x".repeat(PART_BYTES)).unwrap());
        let huge = InsertTask { payload, ..InsertTask::new("q") };
        assert_eq!(part(&[huge, InsertTask::new("q")]).unwrap().0, 1);
    }

    #[test]
    fn a_reference_cannot_leave_its_place_in_the_path() {
        assert_eq!(path("a/../b?c#d e", "/why"), "/v1/tasks/a%2F..%2Fb%3Fc%23d%20e/why");
        assert_eq!(
            (segment(".."), segment("v1.x"), segment("é")),
            ("%2E%2E".into(), "v1.x".into(), "%C3%A9".into())
        );
    }
}
