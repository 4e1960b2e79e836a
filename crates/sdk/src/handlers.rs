//! Handlers by kind, and how their results become outcomes. Does not know leases or servers, so that a worker
//! and an engine with a test clock run the same handlers the same way.

use std::any::Any;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use punctual_protocol::limits::STATUS_MSG_MAX_CHARS;
use punctual_protocol::{Json, Outcome, OutcomeKind};
use serde::Serialize;

use crate::task::Task;

/// Why a handler did not succeed, and what should follow.
///
/// Any error becomes `Failed` by `?`; so do `&str` and `String`.
#[derive(Debug)]
pub enum HandlerError {
    /// Tried in vain; again when the task's retry policy says so.
    Failed { message: String },
    /// Tried in vain; again after this long.
    Retry { after: Duration, message: String },
    /// Will never succeed; dead immediately, whatever attempts are left.
    Reject { message: String },
    /// The handler postpones the task: it runs again after this time, and this attempt does not count.
    Snooze { after: Duration },
}

impl HandlerError {
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed { message: message.into() }
    }

    pub fn retry(after: Duration, message: impl Into<String>) -> Self {
        Self::Retry { after, message: message.into() }
    }

    pub fn reject(message: impl Into<String>) -> Self {
        Self::Reject { message: message.into() }
    }

    pub fn snooze(after: Duration) -> Self {
        Self::Snooze { after }
    }
}

// HandlerError is no std Error itself, which leaves room for this: `?` on anything.
impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> From<E> for HandlerError {
    fn from(error: E) -> Self {
        let error = error.into();
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(inner) = source {
            message.push_str(": ");
            message.push_str(&inner.to_string());
            source = inner.source();
        }
        Self::Failed { message }
    }
}

type Handled = Result<Option<Json>, HandlerError>;
type Handler = Arc<dyn Fn(Task) -> BoxFuture<'static, Handled> + Send + Sync>;

type Layer = Arc<dyn Fn(Task, Next) -> BoxFuture<'static, Handled> + Send + Sync>;

/// The handlers of a worker.
#[derive(Clone, Default)]
pub struct Handlers {
    by_kind: HashMap<String, Handler>,
    any: Option<Handler>,
    /// The outermost first.
    layers: Vec<Layer>,
}

/// The rest of a task's path to its handler: the middleware that was added later, and the handler itself.
#[derive(Clone)]
pub struct Next {
    handler: Handler,
    /// The innermost first, so that the next one is popped from the end.
    layers: Vec<Layer>,
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").field("layers", &self.layers.len()).finish_non_exhaustive()
    }
}

impl Next {
    /// Continues, and returns the task's result: none for `()`.
    pub async fn run(mut self, task: Task) -> Result<Option<Json>, HandlerError> {
        match self.layers.pop() {
            Some(layer) => layer(task, self).await,
            None => (self.handler)(task).await,
        }
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers")
            .field("kinds", &self.by_kind.keys())
            .field("any", &self.any.is_some())
            .field("layers", &self.layers.len())
            .finish()
    }
}

impl Handlers {
    /// Runs tasks of this kind. `Ok` is stored as the task's result, `()` as none.
    pub fn handle<F, Fut, T>(&mut self, kind: impl Into<String>, handler: F) -> &mut Self
    where
        F: Fn(Task) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, HandlerError>> + Send + 'static,
        T: Serialize,
    {
        self.by_kind.insert(kind.into(), erase(handler));
        self
    }

    /// Runs tasks of every kind that has no handler of its own.
    pub fn handle_any<F, Fut, T>(&mut self, handler: F) -> &mut Self
    where
        F: Fn(Task) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, HandlerError>> + Send + 'static,
        T: Serialize,
    {
        self.any = Some(erase(handler));
        self
    }

    /// Runs around every handler: the code before and after `next.run(task)` runs for each attempt, and its
    /// return value replaces the handler's. The first one added is the outermost.
    pub fn around<F, Fut>(&mut self, middleware: F) -> &mut Self
    where
        F: Fn(Task, Next) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Handled> + Send + 'static,
    {
        self.layers.push(Arc::new(move |task, next| Box::pin(middleware(task, next))));
        self
    }

    /// The kinds that have a handler of their own; empty if there is one for any.
    pub fn kinds(&self) -> BTreeSet<String> {
        let own = self.by_kind.keys().filter(|_| self.any.is_none());
        own.cloned().collect()
    }

    /// True if there is no handler.
    pub fn is_empty(&self) -> bool {
        self.by_kind.is_empty() && self.any.is_none()
    }

    /// Runs a task to its outcome; a panic is a failed attempt with the panic's message. `token` is the lease's.
    pub async fn run(&self, task: Task, token: &str) -> Outcome {
        let mut outcome = Outcome::new(task.reference(), token, OutcomeKind::Succeeded);
        let Some(handler) = self.by_kind.get(task.kind()).or(self.any.as_ref()) else {
            say(&mut outcome, OutcomeKind::Failed, &format!("no handler for kind {}", task.kind()));
            return outcome;
        };
        let next = Next { handler: handler.clone(), layers: self.layers.iter().rev().cloned().collect() };
        // The call is inside too: a handler may panic before it returns its future.
        let handled = AssertUnwindSafe(next.run(task)).catch_unwind().await;
        match handled {
            Ok(Ok(result)) => outcome.result = result,
            Ok(Err(error)) => set_error(&mut outcome, error),
            Err(panic) => {
                say(&mut outcome, OutcomeKind::Failed, &format!("panicked: {}", panic_message(&*panic)))
            }
        }
        outcome
    }
}

fn erase<F, Fut, T>(handler: F) -> Handler
where
    F: Fn(Task) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, HandlerError>> + Send + 'static,
    T: Serialize,
{
    Arc::new(move |task| {
        let future = handler(task);
        Box::pin(async move {
            let json = Json::of(&future.await?)
                .map_err(|e| HandlerError::reject(format!("the result cannot be written as JSON: {e}")))?;
            Ok((json.get() != "null").then_some(json))
        })
    })
}

fn set_error(outcome: &mut Outcome, error: HandlerError) {
    match error {
        HandlerError::Failed { message } => say(outcome, OutcomeKind::Failed, &message),
        HandlerError::Retry { after, message } => {
            say(outcome, OutcomeKind::Failed, &message);
            outcome.retry_after_ms = Some(whole_ms(after));
        }
        HandlerError::Reject { message } => say(outcome, OutcomeKind::Reject, &message),
        HandlerError::Snooze { after } => {
            outcome.outcome = OutcomeKind::Snooze;
            outcome.retry_after_ms = Some(whole_ms(after));
        }
    }
}

/// A failed outcome, with a message of a length that the server accepts.
pub(crate) fn say(outcome: &mut Outcome, kind: OutcomeKind, message: &str) {
    outcome.outcome = kind;
    outcome.status_code = Some(1);
    outcome.status_msg = Some(message.chars().take(STATUS_MSG_MAX_CHARS).collect());
    outcome.result = None;
}

fn whole_ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX).min(punctual_protocol::limits::DURATION_MAX_MS)
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("(no message)")
}

#[cfg(test)]
mod tests {
    use punctual_protocol::LeasedTask;

    use super::*;
    use crate::task::Control;

    async fn outcome_of<T: Serialize + 'static>(
        handler: impl Fn() -> Result<T, HandlerError> + Send + Sync + 'static,
    ) -> Outcome {
        let mut handlers = Handlers::default();
        handlers.handle("k", move |_| std::future::ready(handler().map(|value| Json::of(&value).unwrap())));
        handlers.run(task("k"), "token").await
    }

    fn task(kind: &str) -> Task {
        let leased = LeasedTask { r#ref: "t".into(), kind: kind.into(), ..LeasedTask::default() };
        Task::new(leased, Control::default())
    }

    #[tokio::test]
    async fn what_a_handler_returns_is_the_result() {
        let outcome = outcome_of(|| Ok(vec![1, 2])).await;
        assert_eq!(
            (outcome.r#ref.as_str(), outcome.token.as_str(), outcome.outcome),
            ("t", "token", OutcomeKind::Succeeded)
        );
        assert_eq!(outcome.result.unwrap().get(), "[1,2]");
        assert_eq!(outcome_of(|| Ok(())).await.result, None);
    }

    #[tokio::test]
    async fn errors_become_the_outcome_they_ask_for() {
        let failed = outcome_of(|| -> Result<(), _> { Ok("x".parse::<u8>().map(drop)?) }).await;
        assert_eq!(
            (failed.outcome, failed.status_msg.as_deref()),
            (OutcomeKind::Failed, Some("invalid digit found in string"))
        );
        assert_eq!(failed.retry_after_ms, None);
        let text = outcome_of(|| -> Result<(), _> { Err("no luck")? }).await;
        assert_eq!(text.status_msg.as_deref(), Some("no luck"));
        let retry = outcome_of(|| -> Result<(), _> {
            Err(HandlerError::retry(Duration::from_millis(1_500), "busy"))
        })
        .await;
        assert_eq!((retry.outcome, retry.retry_after_ms), (OutcomeKind::Failed, Some(1_500)));
        let reject = outcome_of(|| -> Result<(), _> { Err(HandlerError::reject("bad")) }).await;
        assert_eq!((reject.outcome, reject.status_msg.as_deref()), (OutcomeKind::Reject, Some("bad")));
        let snooze = outcome_of(|| -> Result<(), _> { Err(HandlerError::snooze(Duration::MAX)) }).await;
        assert_eq!(snooze.outcome, OutcomeKind::Snooze);
        for outcome in [failed, text, retry, reject, snooze] {
            assert_eq!(outcome.check(), Ok(()), "{outcome:?}");
        }
    }

    #[tokio::test]
    async fn a_panic_is_a_failed_attempt_with_its_message() {
        let before = outcome_of(|| -> Result<(), _> { panic!("at once {}", 1) }).await;
        assert_eq!(
            (before.outcome, before.status_msg.as_deref()),
            (OutcomeKind::Failed, Some("panicked: at once 1"))
        );
        let mut handlers = Handlers::default();
        handlers.handle_any(|task: Task| async move {
            tokio::task::yield_now().await;
            if task.attempt() == 0 { panic!("later") } else { Ok(()) }
        });
        assert_eq!(handlers.run(task("k"), "x").await.status_msg.as_deref(), Some("panicked: later"));
    }

    #[tokio::test]
    async fn a_kind_without_a_handler_fails_unless_there_is_one_for_any() {
        let mut handlers = Handlers::default();
        handlers.handle("a", |_| async { Ok("a") });
        let none = handlers.run(task("b"), "x").await;
        assert_eq!(
            (none.outcome, none.status_msg.as_deref()),
            (OutcomeKind::Failed, Some("no handler for kind b"))
        );
        handlers.handle_any(|task| async move { Ok(task.kind().to_owned()) });
        assert_eq!(handlers.run(task("b"), "x").await.result.unwrap().get(), "\"b\"");
        assert_eq!(handlers.run(task("a"), "x").await.result.unwrap().get(), "\"a\"");
    }

    #[tokio::test]
    async fn a_message_is_cut_to_what_the_server_takes() {
        let long = outcome_of(|| -> Result<(), _> {
            Err(HandlerError::failed("é".repeat(STATUS_MSG_MAX_CHARS + 1)))
        })
        .await;
        assert_eq!(long.check(), Ok(()));
        assert_eq!(long.status_msg.unwrap().chars().count(), STATUS_MSG_MAX_CHARS);
    }

    #[tokio::test]
    async fn middleware_runs_around_every_handler_the_first_outermost() {
        let said = Arc::new(std::sync::Mutex::new(Vec::new()));
        let mut handlers = Handlers::default();
        let noted = said.clone();
        handlers.handle_any(move |_| {
            noted.lock().unwrap().push("handler".to_owned());
            async { Ok(1) }
        });
        for name in ["outer", "inner"] {
            let noted = said.clone();
            handlers.around(move |task, next| {
                let noted = noted.clone();
                async move {
                    noted.lock().unwrap().push(format!("{name} before"));
                    let result = next.run(task).await?;
                    noted.lock().unwrap().push(format!("{name} after"));
                    Ok(result)
                }
            });
        }
        let outcome = handlers.run(task("k"), "").await;
        assert_eq!(outcome.result.unwrap().get(), "1");
        let order = ["outer before", "inner before", "handler", "inner after", "outer after"];
        assert_eq!(*said.lock().unwrap(), order);
    }

    #[tokio::test]
    async fn middleware_may_answer_instead_and_its_panic_is_a_failed_attempt() {
        let mut handlers = Handlers::default();
        handlers.handle("k", |_| async { Ok(()) });
        handlers.around(|task: Task, next: Next| async move {
            match task.attempt() {
                0 => Err(HandlerError::snooze(Duration::from_secs(1))),
                1 => panic!("here"),
                _ => next.run(task).await,
            }
        });
        let of = |attempt| {
            let leased = punctual_protocol::LeasedTask { kind: "k".into(), attempt, ..Default::default() };
            handlers.run(Task::new(leased, crate::Control::default()), "")
        };
        assert_eq!(of(0).await.outcome, OutcomeKind::Snooze);
        assert_eq!(of(1).await.status_msg.unwrap(), "panicked: here");
        assert_eq!(of(2).await.outcome, OutcomeKind::Succeeded);
    }
}
