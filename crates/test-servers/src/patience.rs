//! Waiting for what must come, in tests that run by the real clock. Never waits for ever: what does not come fails the
//! test and says where, instead of holding up all others. Leaves the processor to those who are waited for.

use std::{panic::Location, time::Duration};
use tokio::time::{sleep, timeout};

/// Longer than anything takes on a slow machine that has other tests to run.
pub const HANG_LIMIT: Duration = Duration::from_secs(60);
/// How soon it is asked again: what is likely to be so in a moment soon, what takes longer less and less often, since what
/// is asked is often a server.
const ASK_AGAIN: Duration = Duration::from_millis(1);
const ASK_AGAIN_MOST: Duration = Duration::from_millis(16);

/// For a moment, in a loop of the caller's own that waits for something: leaves the processor to it.
pub async fn a_moment() {
    sleep(Duration::from_millis(5)).await;
}

/// Asks again until it is so.
///
/// # Panics
/// When it is not so in time.
#[track_caller]
pub fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) -> impl Future<Output = ()> {
    let caller = Location::caller();
    async move {
        let asked = async {
            let mut pause = ASK_AGAIN;
            while !is_so().await {
                sleep(pause).await;
                pause = (2 * pause).min(ASK_AGAIN_MOST);
            }
        };
        assert!(timeout(HANG_LIMIT, asked).await.is_ok(), "{caller}: not after {HANG_LIMIT:?}: {what}");
    }
}
