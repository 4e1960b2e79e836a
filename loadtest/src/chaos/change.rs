//! Cancels and moves tasks, many of them as close to their time as one can come. Each is asked once, and what was
//! answered is written down: confirmed, nothing done, or unknown. Must never repeat one: two answers would be none.

use super::{
    book::{CallerAnswer, ChangeCall},
    field::{Field, No, attempt, code, no, text, value},
    recorder::Stamp,
    tasks::TaskChange,
};
use crate::{
    clock::now_us,
    http::{Connection, Error},
};
use std::{sync::Arc, time::Duration};
use tokio::task::JoinSet;

const ANSWER_LIMIT: Duration = Duration::from_secs(8);
const TICK: Duration = Duration::from_millis(5);

/// Never ends by itself.
pub(crate) async fn change_all(field: Arc<Field>) -> anyhow::Result<()> {
    let mut calls = JoinSet::new();
    loop {
        let due = field.book.lock().changes_due(now_us());
        for (n, intent, reference) in due {
            calls.spawn(change(Arc::clone(&field), n, intent, reference));
        }
        while calls.try_join_next().is_some() {}
        tokio::time::sleep(TICK).await;
    }
}

async fn change(field: Arc<Field>, n: usize, intent: TaskChange, reference: String) {
    let mut connection = Connection::new(field.target.beginning_at(fastrand::usize(..field.engines)));
    let sent = Stamp::now();
    let sent_us = sent.clock_us;
    let (to_ms, answer) = match intent {
        TaskChange::Cancel => {
            let path = format!("/v1/tasks/{reference}/cancel");
            (None, connection.post(&path, b"{}", ANSWER_LIMIT).await)
        }
        TaskChange::Move { by_ms } => {
            let to_ms = sent_us / 1_000 + by_ms;
            let body = format!(r#"{{"execute_at_ms":{to_ms}}}"#);
            let path = format!("/v1/tasks/{reference}");
            (Some(to_ms), connection.patch(&path, body.as_bytes(), ANSWER_LIMIT).await)
        }
    };
    let answer = match answer {
        Err(Error::NotSent { .. }) => CallerAnswer::Refused("not sent".to_owned()),
        Err(error) => CallerAnswer::Unknown(error.to_string()),
        Ok(answer) if answer.is_success() => {
            let body = value(&answer);
            match intent {
                TaskChange::Cancel if text(&body, "outcome") != "cancelled" => {
                    CallerAnswer::Unknown(body.to_string())
                }
                TaskChange::Cancel => {
                    CallerAnswer::Confirmed { attempt: body.get("task").map_or(0, attempt) }
                }
                TaskChange::Move { .. } => CallerAnswer::Confirmed { attempt: attempt(&body) },
            }
        }
        Ok(answer) => match no(answer.status, code(&value(&answer))) {
            No::Passing(code) | No::Final(code) => CallerAnswer::Refused(code),
            No::Unknown(code) => CallerAnswer::Unknown(code),
        },
    };
    let answered = Stamp::now();
    field.recorder.lock().changed(n, (intent, to_ms), (sent, answered), &answer);
    field.book.lock().changed(n, ChangeCall { to_ms, sent_us, answered_us: answered.clock_us, answer });
}
