//! Asks the server about tasks whose outcome may have counted although its answer was lost. Must only ever turn doubt
//! into success: what the server does not call succeeded stays open.

use crate::{http::Connection, job::Job, wire::FoundTasks};
use std::time::Duration;

const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// More open tasks than these are not lost answers.
const ASKED_MAX: usize = 10_000;

/// Ends early when the server does not answer.
pub(crate) async fn ask_about_open(job: &Job) {
    let open = job.checker.lock().open_tasks(ASKED_MAX);
    let mut connection = Connection::new(job.target.clone());
    for n in open {
        match has_succeeded(job, &mut connection, n).await {
            Some(true) => job.checker.lock().settled(n),
            Some(false) => {}
            None => return,
        }
    }
}

async fn has_succeeded(job: &Job, connection: &mut Connection, n: usize) -> Option<bool> {
    let task_id = job.shape.task_id(n);
    let answer = connection.get(&format!("/v1/tasks?task_id={task_id}"), ANSWER_LIMIT).await.ok()?;
    if !answer.is_success() {
        return None;
    }
    let found: FoundTasks = serde_json::from_slice(answer.body).ok()?;
    Some(found.items.iter().any(|it| it.task_id == task_id && it.phase == "success"))
}
