//! Work in tasks of its own, which ends by itself whatever becomes of its caller. Must not know what the work is.

use futures_util::future::BoxFuture;
use std::{future::Future, sync::Arc};
use tokio::task::{JoinError, JoinHandle};

#[expect(
    clippy::disallowed_methods,
    reason = "units of work that end by themselves, and writers that `close` awaits"
)]
pub(super) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    // In a box: or all that the runtime makes of a task is compiled for each kind of work.
    tokio::spawn(Box::pin(work) as BoxFuture<'static, ()>)
}

/// Runs work in a task of its own, to its end, whatever becomes of the caller. An error: it panicked.
pub(super) fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> impl Future<Output = Result<T, JoinError>> {
    // The task has no answer of its own, so that the runtime's part is compiled once for all kinds of work.
    let answer = Arc::new(parking_lot::Mutex::new(None));
    let kept = Arc::clone(&answer);
    let task = spawn(async move {
        let done = work.await;
        *kept.lock() = Some(done);
    });
    async move {
        task.await?;
        let done = answer.lock().take();
        Ok(done.expect("a task that has ended without a panic has left its answer"))
    }
}
