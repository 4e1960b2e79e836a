//! Waiting for what must come, in tests that run by the real clock. Never waits for ever: what does not come fails the
//! test and says where, instead of holding up all others. Leaves the processor to those who are waited for.

use std::{panic::Location, time::Duration};
use tokio::time::{sleep, timeout};

/// Longer than anything takes on a slow machine that has other tests to run.
pub const PATIENCE: Duration = Duration::from_secs(60);
const ASK_EVERY: Duration = Duration::from_millis(1);

/// Asks again until it is so.
///
/// # Panics
/// When it is not so in time.
#[track_caller]
pub fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) -> impl Future<Output = ()> {
    let caller = Location::caller();
    async move {
        let asked = async {
            while !is_so().await {
                sleep(ASK_EVERY).await;
            }
        };
        assert!(timeout(PATIENCE, asked).await.is_ok(), "{caller}: not after {PATIENCE:?}: {what}");
    }
}
