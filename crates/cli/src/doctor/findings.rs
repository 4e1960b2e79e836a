//! The results of a check, and the time limit of its question. Must never know which servers there are.

use super::list::{Check, Finding, Judged};
use std::{fmt::Display, future::Future, time::Duration};
use tokio::time::timeout;

/// The time limit for one question. All checks take a few times as long, since servers are checked concurrently. Long
/// enough for a server on a busy machine: a slow server is another finding than an unavailable one.
pub(super) const LIMIT: Duration = Duration::from_secs(10);

/// The findings at one place.
pub(super) type Findings = Vec<Finding>;

/// The answer to one question, or why there is none.
pub(super) async fn limited<T, E: Display>(asking: impl Future<Output = Result<T, E>>) -> Result<T, String> {
    match timeout(LIMIT, Box::pin(asking)).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} s", LIMIT.as_secs())),
    }
}

/// The finding of a question without an answer, at a server that answers others.
pub(super) fn unanswered(why: &str) -> Judged {
    Judged::doubtful(format!("not known: {why}"), "ask again; if it stays so, see the log of that server")
}

pub(super) fn finding(check: &Check, place: &str, judged: Judged) -> Finding {
    let Judged { verdict, finding, way_out } = judged;
    Finding { check: check.name, place: place.to_owned(), verdict, finding, way_out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_question_that_hangs_is_given_up_and_a_refusal_is_told() {
        let hangs = limited(std::future::pending::<Result<(), String>>()).await;
        assert!(hangs.unwrap_err().contains("within 10 s"));
        assert_eq!(limited(async { Err::<(), _>("no") }).await.unwrap_err(), "no");
        assert_eq!(limited(async { Ok::<_, String>(7) }).await.unwrap(), 7);
    }
}
