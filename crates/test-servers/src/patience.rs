//! Waits for events, in tests that use the real clock. No wait is endless: a missing event fails the test and
//! names the place, instead of blocking all other tests. A wait leaves the processor to the code that it
//! waits for.

use std::{panic::Location, time::Duration};
use tokio::time::{sleep, timeout};

/// Longer than anything takes on a slow machine that runs other tests too.
pub const HANG_LIMIT: Duration = Duration::from_secs(60);
/// The pause before the first repetition of a question, doubled up to the longest one: slow events are polled
/// less often, because a question is often sent to a server.
const ASK_AGAIN: Duration = Duration::from_millis(1);
const ASK_AGAIN_MOST: Duration = Duration::from_millis(16);

/// One pause, for a caller's own loop that waits for an event: leaves the processor to the code that causes
/// it.
pub async fn a_moment() {
    sleep(Duration::from_millis(5)).await;
}

/// Asks again and again until the answer is yes.
///
/// # Panics
/// When the answer is still no after [`HANG_LIMIT`].
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
