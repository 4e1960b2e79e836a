//! Waits for the end of tasks (`wait_ms` of a read and of an insert). One checker reads the tasks of all waiting requests
//! together, ten times a second: its reads are bounded, whichever engine ends the tasks and however many requests wait.
//! Must never change a task.

use crate::{access::Who, app::Shared, refusal::Refusal};
use parking_lot::Mutex;
use punctual_domain::place::TaskRef;
use punctual_protocol::{WaitForEnd, limits::WAIT_MS_MAX};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::sync::oneshot;

const CHECK_EVERY: Duration = Duration::from_millis(100);
/// The maximum number of tasks that one check reads. With more waiting requests, each task is checked less often.
const CHECK_MAX: usize = 500;

/// The requests that wait.
#[derive(Debug, Default)]
pub(crate) struct WaitingRequests(Mutex<WaitingList>);

#[derive(Debug, Default)]
struct WaitingList {
    /// The task that was checked longest ago is first.
    requests: VecDeque<WaitingRequest>,
    has_checker: bool,
}

#[derive(Debug)]
struct WaitingRequest {
    place: TaskRef,
    ended: oneshot::Sender<()>,
}

/// How long the request may wait.
pub(crate) fn limit_of(parameters: WaitForEnd) -> Result<Duration, Refusal> {
    let WaitForEnd { wait_ms } = parameters;
    if wait_ms > WAIT_MS_MAX {
        return Err(Refusal::field("/wait_ms", format!("is {wait_ms}: must be at most {WAIT_MS_MAX}")));
    }
    Ok(Duration::from_millis(wait_ms))
}

/// Returns when the task has ended or was deleted, after `limit`, or when the server stops.
pub(crate) async fn until_ended(
    app: &Shared,
    who: &Who,
    place: TaskRef,
    limit: Duration,
) -> Result<(), Refusal> {
    let (ended, has_ended) = oneshot::channel();
    if app.waiting.add(WaitingRequest { place, ended }) {
        app.detached.spawn(check_all(Arc::clone(app)));
    }
    tokio::select! {
        biased;
        refusal = who.until_refused(app) => return Err(refusal),
        // An error: the checker panicked. The task is answered as it is.
        _ = has_ended => {}
        () = app.shutdown.cancelled() => {}
        () = tokio::time::sleep(limit) => {}
    }
    Ok(())
}

impl WaitingRequests {
    /// Returns true if the caller must start the checker.
    fn add(&self, request: WaitingRequest) -> bool {
        let mut list = self.0.lock();
        list.requests.push_back(request);
        !std::mem::replace(&mut list.has_checker, true)
    }

    /// The requests of the next check. Empty: nothing waits, and the checker has ended.
    fn next(&self) -> Vec<WaitingRequest> {
        let mut list = self.0.lock();
        list.requests.retain(|request| !request.ended.is_closed());
        let count = list.requests.len().min(CHECK_MAX);
        let next: Vec<_> = list.requests.drain(..count).collect();
        list.has_checker = !next.is_empty();
        next
    }

    fn put_back(&self, requests: Vec<WaitingRequest>) {
        self.0.lock().requests.extend(requests);
    }

    fn clear(&self) {
        *self.0.lock() = WaitingList::default();
    }
}

async fn check_all(app: Shared) {
    loop {
        tokio::select! {
            () = app.shutdown.cancelled() => return app.waiting.clear(),
            () = tokio::time::sleep(CHECK_EVERY) => {}
        }
        let requests = app.waiting.next();
        if requests.is_empty() {
            return;
        }
        if let Err(error) = app.detached.spawn(check(Arc::clone(&app), requests)).await {
            // All waiting requests are answered with their task as it is, and the next one starts a checker.
            tracing::error!(%error, "the check of waiting requests panicked");
            return app.waiting.clear();
        }
    }
}

async fn check(app: Shared, requests: Vec<WaitingRequest>) {
    let places: Vec<TaskRef> = requests.iter().map(|request| request.place).collect();
    let read = app.engine.read_each(places).await.unwrap_or_default();
    let mut read = read.into_iter();
    let mut still = Vec::new();
    for request in requests {
        // A database that does not answer says nothing about its tasks.
        let has_ended = match read.next() {
            Some(Ok(task)) => task.is_none_or(|task| task.state.is_finished()),
            Some(Err(_)) | None => false,
        };
        if has_ended {
            // A closed channel: the request is gone.
            let _ = request.ended.send(());
        } else {
            still.push(request);
        }
    }
    app.waiting.put_back(still);
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_domain::{place::Partition, time::Millis};

    fn request(id: i64) -> (WaitingRequest, oneshot::Receiver<()>) {
        let (ended, has_ended) = oneshot::channel();
        (
            WaitingRequest { place: TaskRef { partition: Partition(0), due_at: Millis(0), id }, ended },
            has_ended,
        )
    }

    #[test]
    fn one_checker_serves_all_requests_in_turn_and_ends_with_the_last() {
        let waiting = WaitingRequests::default();
        let (requests, receivers): (Vec<_>, Vec<_>) = (0..).map(request).take(CHECK_MAX + 2).unzip();
        let started: Vec<bool> = requests.into_iter().map(|request| waiting.add(request)).collect();
        assert_eq!(started.iter().filter(|is_first| **is_first).count(), 1);
        let first = waiting.next();
        assert_eq!((first.len(), first.first().map(|request| request.place.id)), (CHECK_MAX, Some(0)));
        waiting.put_back(first);
        let second = waiting.next();
        assert_eq!(second.first().map(|request| request.place.id), Some(CHECK_MAX as i64));
        waiting.put_back(second);
        drop(receivers);
        assert!(waiting.next().is_empty(), "requests whose caller is gone are not checked");
        let (request, _has_ended) = request(1);
        assert!(waiting.add(request), "the next request starts another checker");
    }
}
