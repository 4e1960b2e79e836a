//! Asks the server about tasks whose outcome may have counted although its answer was lost. Must only ever turn doubt
//! into success: what the server does not call succeeded stays open. And what it says of tasks that were not done in time.

use crate::{clock::now_us, http::Connection, job::RunJob, wire::FoundTasks};
use std::{io::Write as _, time::Duration};

const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// More open tasks than these are not lost answers.
const ASKED_MAX: usize = 10_000;

/// Ends early when the server does not answer.
pub(crate) async fn ask_about_open(job: &RunJob) {
    let open = job.checker.lock().open_tasks(ASKED_MAX);
    let mut connection = Connection::new(job.target.clone());
    for n in open {
        match has_succeeded(job, &mut connection, n).await {
            Some(true) => job.checker.lock().settled(n, now_us()),
            Some(false) => {}
            None => return,
        }
    }
}

/// Prints the server's answers about the first tasks that were not done in time, to find the reason.
pub(crate) async fn print_open(job: &RunJob) {
    const SHOWN_MAX: usize = 5;
    let open = job.checker.lock().open_tasks(SHOWN_MAX);
    let mut connection = Connection::new(job.target.clone());
    for n in open {
        let path = format!("/v1/tasks?task_id={}", job.shape.task_id(n));
        let said = match connection.get(&path, ANSWER_LIMIT).await {
            Ok(answer) => String::from_utf8_lossy(answer.body).into_owned(),
            Err(error) => error.to_string(),
        };
        // A closed stderr is no reason to end a run.
        let _ = writeln!(std::io::stderr(), "not done in time: {said}");
    }
}

async fn has_succeeded(job: &RunJob, connection: &mut Connection, n: usize) -> Option<bool> {
    let task_id = job.shape.task_id(n);
    let answer = connection.get(&format!("/v1/tasks?task_id={task_id}"), ANSWER_LIMIT).await.ok()?;
    if !answer.is_success() {
        return None;
    }
    let found: FoundTasks = serde_json::from_slice(answer.body).ok()?;
    Some(found.items.iter().any(|found_task| found_task.task_id == task_id && found_task.phase == "success"))
}
