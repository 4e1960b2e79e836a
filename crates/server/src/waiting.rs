//! Waits for the end of tasks (`wait_ms` of a read and of an insert). One checker reads the tasks of all waiting requests
//! together, ten times a second: its reads are bounded, whichever engine ends the tasks and however many requests wait.
//! Must never change a task.

pub(crate) mod list;

use self::list::WaitingRequest;
use crate::{access::Who, app::Shared, refusal::Refusal};
use punctual_domain::place::TaskRef;
use punctual_protocol::{WaitForEnd, limits::WAIT_MS_MAX};
use std::{sync::Arc, time::Duration};
use tokio::sync::oneshot;

const CHECK_EVERY: Duration = Duration::from_millis(100);

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
