//! States if the hot set is considered available, and limits the wait of a call for a change of that. When it is
//! considered unavailable, all running calls end as calls whose answer was lost, and are repaired as such. Their late
//! effects in the hot set decide nothing: each task is leased by the store's conditional update. Must not check the
//! hot set: `hot_set_monitor` does, as soon as it is doubted here.

use parking_lot::Mutex;
use punctual_contract::Error;
use std::{
    pin::pin,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    time::Duration,
};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, sleep_until},
};

/// An answer takes a millisecond. A call that waits for longer than this requests a check of the hot set.
const DOUBTED_AFTER: Duration = Duration::from_millis(100);
/// The minimum pause between two checks that calls request: otherwise each failing call would request one.
const MIN_CHECK_INTERVAL: Duration = Duration::from_millis(100);
const SILENT: &str = "the hot set does not answer";

#[derive(Debug)]
pub(crate) struct HotSetAvailability {
    is_away: watch::Sender<bool>,
    /// Calls so far that failed, or waited for long.
    doubts: AtomicU64,
    doubted: Notify,
    looked_at: Mutex<Option<Instant>>,
}

impl HotSetAvailability {
    pub(super) fn new(is_away: bool) -> Self {
        let (is_away, _) = watch::channel(is_away);
        Self { is_away, doubts: AtomicU64::new(0), doubted: Notify::new(), looked_at: Mutex::new(None) }
    }

    pub(super) fn is_believed_away(&self) -> bool {
        *self.is_away.borrow()
    }

    /// Sets whether the hot set is unavailable, and returns what was set before.
    pub(in crate::pipeline) fn set_unavailable(&self, is_away: bool) -> bool {
        self.is_away.send_replace(is_away)
    }

    /// The number of reasons to doubt the hot set.
    pub(in crate::pipeline) fn doubts(&self) -> u64 {
        self.doubts.load(SeqCst)
    }

    /// A call has failed, or waits for long.
    pub(super) fn doubt(&self) {
        self.doubts.fetch_add(1, SeqCst);
        self.doubted.notify_one();
    }

    /// A check of the hot set begins.
    pub(in crate::pipeline) fn check_started(&self) {
        *self.looked_at.lock() = Some(Instant::now());
    }

    /// Ends when the hot set must be checked because a call doubts it.
    pub(in crate::pipeline) async fn wait_for_doubt(&self) {
        self.doubted.notified().await;
        let looked_at = *self.looked_at.lock();
        if let Some(looked_at) = looked_at {
            sleep_until(looked_at + MIN_CHECK_INTERVAL).await;
        }
    }

    /// The answer of a call, or an error as soon as the hot set is believed to be unavailable. No call is begun while it is.
    pub(super) async fn call_while_available<T>(
        &self,
        doing: &'static str,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let mut believed = self.is_away.subscribe();
        if *believed.borrow_and_update() {
            return Err(Error::did_not_happen(doing, SILENT));
        }
        let (mut call, mut doubt) = (pin!(call), pin!(sleep(DOUBTED_AFTER)));
        let mut waits_for_long = false;
        loop {
            tokio::select! {
                biased;
                answer = &mut call => {
                    if answer.is_err() {
                        self.doubt();
                    }
                    return answer;
                }
                _ = believed.wait_for(|is_away| *is_away) => {
                    return Err(Error::may_have_happened(doing, SILENT));
                }
                () = &mut doubt, if !waits_for_long => {
                    waits_for_long = true;
                    self.doubt();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use punctual_contract::Happened;
    use std::future::{pending, ready};

    const DOING: &str = "ask";

    #[tokio::test(start_paused = true)]
    async fn a_call_that_waits_has_the_hot_set_looked_at_and_ends_when_it_is_believed_to_be_away() {
        let availability = HotSetAvailability::new(false);
        let mut call = pin!(availability.call_while_available::<()>(DOING, pending()));
        tokio::select! {
            _ = &mut call => panic!("nothing has answered"),
            () = availability.wait_for_doubt() => {}
        }
        assert_eq!(availability.doubts(), 1, "once, however long it waits");
        assert!((&mut call).now_or_never().is_none());
        assert!(!availability.set_unavailable(true));
        assert_eq!(call.await.unwrap_err().happened, Happened::Maybe);
        let begun = availability.call_while_available(DOING, ready(Ok(()))).await;
        assert_eq!(begun.unwrap_err().happened, Happened::No, "no call is begun while it is away");
        assert!(availability.set_unavailable(false));
        assert!(
            availability.call_while_available(DOING, ready(Ok(()))).await.is_ok()
                && availability.doubts() == 1
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_fails_has_it_looked_at_and_many_do_not_have_it_looked_at_all_the_time() {
        let availability = HotSetAvailability::new(false);
        let began = Instant::now();
        for _ in 0..10 {
            let failed = ready(Err::<(), _>(Error::did_not_happen(DOING, "refused")));
            assert!(availability.call_while_available(DOING, failed).await.is_err());
        }
        availability.wait_for_doubt().await;
        availability.check_started();
        assert_eq!(
            (availability.doubts(), began.elapsed()),
            (10, Duration::ZERO),
            "the first look is at once"
        );
        availability.doubt();
        availability.wait_for_doubt().await;
        assert_eq!(began.elapsed(), MIN_CHECK_INTERVAL);
    }
}
