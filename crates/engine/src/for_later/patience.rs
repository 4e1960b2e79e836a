//! Time limits for a database that the journal can replace. Must not abandon what an engine does with an answer: a
//! late call continues by itself.

use crate::core::Core;
use futures_util::FutureExt as _;
use punctual_contract::Error;
use std::{future::Future, time::Duration};
use tokio::time::timeout;

/// An executor that reports outcomes is answered by then, by the store or for later.
pub(super) const STORE_ANSWERS_WITHIN: Duration = Duration::from_millis(2_500);
/// Distinguishes a record that cannot be applied from a database that does not answer.
pub(super) const LOOK_WITHIN: Duration = Duration::from_secs(1);
pub(super) const DOING: &str = "report outcomes";

/// Returns `None` if the call was late. It continues by itself.
pub(super) async fn in_time<T: Send + 'static>(
    core: &Core,
    asked: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let mut asked = asked.boxed();
    if let Ok(answer) = timeout(STORE_ANSWERS_WITHIN, &mut asked).await {
        return Some(answer);
    }
    core.work.detach(async move { drop(asked.await) });
    None
}

/// Limits calls whose late answers are of no use: they are abandoned.
pub(super) async fn asked<T>(
    within: Duration,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    timeout(within, call).await.unwrap_or_else(|_| Err(silent()))
}

pub(super) fn silent() -> Error {
    Error::may_have_happened(DOING, "the database has not answered in time")
}
