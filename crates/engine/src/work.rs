//! Work that an engine has begun and sees to its end, and the sign that it is to stop. Knows nothing of what the work is.

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
    /// Runs `work` to its end, whatever becomes of the caller: a client that hangs up drops the future that waits
    /// here, not the work. None: the work panicked, which is logged where it happened.
    pub(crate) async fn to_its_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (done, answer) = oneshot::channel();
        self.detach(async move { drop(done.send(work.await)) });
        answer.await.ok()
    }

    /// Starts `work`, which no caller waits for but `settle_down`. In a box: what the runtime makes of each kind of work it is
    /// given was a third of what this crate compiled to.
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
    pub(crate) async fn settle_down(&self) {
        self.claims_drained().await;
        self.tasks.close();
        self.tasks.wait().await;
    }
}
