//! Work that an engine has begun and runs to its end, and the signal to stop. Does not know what the work is.

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

#[derive(Debug, Default)]
pub(crate) struct BackgroundTasks {
    pub(crate) stopping: CancellationToken,
    tasks: TaskTracker,
    claims: TaskTracker,
}

impl BackgroundTasks {
    /// Runs `work` to its end, whatever happens to the caller: a client that hangs up drops the future that waits
    /// here, not the work. `None` if the work panicked, which was logged where it happened.
    pub(crate) async fn to_its_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (done, answer) = oneshot::channel();
        self.detach(async move { drop(done.send(work.await)) });
        answer.await.ok()
    }

    /// Starts `work`, for which only `drain` waits. Boxed: the runtime's code for each unboxed kind of
    /// work was a third of this crate's compiled size.
    pub(crate) fn detach(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(Box::pin(work) as BoxFuture<'static, ()>);
    }

    /// Starts a claim that no caller waits for but `claims_drained`.
    pub(crate) fn detach_claim(&self, claim: impl Future<Output = ()> + Send + 'static) {
        self.claims.spawn(Box::pin(claim) as BoxFuture<'static, ()>);
    }

    /// Waits for the claims that are out.
    pub(crate) async fn claims_drained(&self) {
        self.claims.close();
        self.claims.wait().await;
        self.claims.reopen();
    }

    /// Waits for all work that was started.
    pub(crate) async fn drain(&self) {
        self.claims_drained().await;
        self.tasks.close();
        self.tasks.wait().await;
    }
}
