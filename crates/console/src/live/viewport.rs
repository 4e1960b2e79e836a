//! The renderings of open pages, one for all viewers of the same content, and their interval: all renderings together
//! take a twentieth of the time. A fault is given to the viewers that waited for it, and never stored.

use blake3::Hash;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    sync::Mutex as AsyncMutex,
    time::{Instant, timeout},
};

/// The time for which a rendering is good for other viewers.
const SHARED_FOR: Duration = Duration::from_millis(1_500);
/// All renderings together take one part in so many of the time.
const PART: u32 = 20;
/// The maximum counted cost of one rendering: one that waits for a database costs nothing meanwhile, and alone it
/// stretches its period to ten seconds at most.
const COST_MAX: Duration = Duration::from_millis(500);
/// The longest period, however many pages are open.
const PERIOD_MAX: Duration = Duration::from_secs(60);
/// The time limit of a rendering.
const RENDERED_WITHIN: Duration = Duration::from_secs(20);
/// The interval from which a page counts as slow.
const SLOW_FROM: Duration = Duration::from_secs(5);

/// A live part of a page, with its hash.
#[derive(Debug)]
pub(super) struct Fragment {
    pub(super) id: &'static str,
    pub(super) html: String,
    pub(super) hash: Hash,
}

/// The result of a rendering.
#[derive(Clone, Debug)]
pub(super) enum RenderedLook {
    Parts(Arc<Vec<Fragment>>),
    /// The session has ended.
    SignedOut,
    /// A fault, with the API's message.
    Fault(Arc<str>),
}

/// The update for a viewer.
#[derive(Clone, Debug)]
pub(super) struct ShownViewport {
    pub(super) look: RenderedLook,
    /// The beginning of the rendering.
    pub(super) as_of_ms: i64,
    pub(super) is_slow: bool,
    /// Another's rendering.
    pub(super) is_shared: bool,
}

/// One page as one token sees it.
#[derive(Debug, Default)]
pub(super) struct Viewport {
    seen: AsyncMutex<Option<LastShown>>,
    cost_us: AtomicU64,
    /// The time of the last success, for the viewers that wait for the next one.
    as_of_ms: AtomicU64,
}

#[derive(Debug)]
struct LastShown {
    done: Instant,
    /// The instant before which there is no further rendering.
    until: Instant,
    shown: ShownViewport,
}

#[derive(Debug, Default)]
pub(super) struct Viewports(Mutex<HashMap<Hash, Weak<Viewport>>>);

impl Viewports {
    pub(super) fn of(&self, key: Hash) -> Arc<Viewport> {
        let mut viewports = self.0.lock();
        if let Some(viewport) = viewports.get(&key).and_then(Weak::upgrade) {
            return viewport;
        }
        // Of streams that have ended; there are at most as many as streams.
        viewports.retain(|_, one| one.strong_count() > 0);
        let viewport = Arc::<Viewport>::default();
        viewports.insert(key, Arc::downgrade(&viewport));
        viewport
    }

    /// The pause between two renderings of one page, so that the renderings of all open pages stay within their share
    /// of the time.
    fn period(&self) -> Duration {
        let costs: u64 =
            self.0.lock().values().filter_map(Weak::upgrade).map(|one| one.cost_us.load(Relaxed)).sum();
        (Duration::from_micros(costs) * PART).clamp(SHARED_FOR, PERIOD_MAX)
    }
}

impl Viewport {
    /// `None` if nothing was rendered yet.
    pub(super) fn as_of_ms(&self) -> Option<u64> {
        Some(self.as_of_ms.load(Relaxed)).filter(|one| *one > 0)
    }

    /// Renders once: the first viewer renders, the others share the result.
    pub(super) async fn shared(
        &self,
        viewports: &Viewports,
        now_ms: impl Fn() -> i64 + Send,
        rendering: impl Future<Output = RenderedLook> + Send,
    ) -> ShownViewport {
        let asked_at = Instant::now();
        let mut held = self.seen.lock().await;
        if let Some(seen) = held.as_ref().filter(|one| one.is_good(asked_at)) {
            return ShownViewport { is_shared: true, ..seen.shown.clone() };
        }
        let (began, as_of_ms) = (Instant::now(), now_ms());
        let fault = || RenderedLook::Fault("the page was not ready within 20 s".into());
        let look = timeout(RENDERED_WITHIN, rendering).await.unwrap_or_else(|_| fault());
        let done = Instant::now();
        self.note_cost(done - began);
        let period = viewports.period();
        let is_parts = matches!(look, RenderedLook::Parts(_));
        if is_parts {
            self.as_of_ms.store(u64::try_from(as_of_ms).unwrap_or(0), Relaxed);
        }
        let is_slow = period >= SLOW_FROM || done - began >= SLOW_FROM;
        let shown = ShownViewport { look, as_of_ms, is_slow, is_shared: false };
        // What failed is tried again by the next viewer.
        let until = if is_parts { began + period } else { done };
        *held = Some(LastShown { done, until, shown: shown.clone() });
        shown
    }

    fn note_cost(&self, took: Duration) {
        let took = u64::try_from(took.min(COST_MAX).as_micros()).unwrap_or(u64::MAX);
        let before = self.cost_us.load(Relaxed);
        self.cost_us.store(if before == 0 { took } else { before.midpoint(took) }, Relaxed);
    }
}

impl LastShown {
    /// True if other viewers may share the result. The end of a session concerns its own viewer only.
    fn is_good(&self, asked_at: Instant) -> bool {
        !matches!(self.shown.look, RenderedLook::SignedOut)
            && (Instant::now() < self.until || asked_at < self.done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join_all;

    async fn parts(took: Duration) -> RenderedLook {
        tokio::time::sleep(took).await;
        RenderedLook::Parts(Arc::default())
    }

    /// The time until all have been rendered and have their period.
    const FIRST: Duration = Duration::from_secs(120);

    /// Renderings within so long after that, of viewers who come every two seconds.
    async fn renderings(pages: u32, took: Duration, within: Duration) -> (u32, Vec<ShownViewport>) {
        let viewports = Viewports::default();
        let count = AtomicU64::new(0);
        let begin = Instant::now() + FIRST;
        let open: Vec<_> = (0..pages).map(|one| viewports.of(blake3::hash(&one.to_le_bytes()))).collect();
        let viewer = async |viewport: &Viewport| {
            loop {
                let rendering = async {
                    count.fetch_add(u64::from(Instant::now() > begin), Relaxed);
                    parts(took).await
                };
                let shown = viewport.shared(&viewports, || 1, rendering).await;
                if Instant::now() > begin + within {
                    return shown;
                }
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
        };
        let last = join_all(open.iter().map(|one| viewer(one))).await;
        (u32::try_from(count.load(Relaxed)).unwrap(), last)
    }

    #[tokio::test(start_paused = true)]
    async fn all_pages_together_take_a_twentieth_of_the_time() {
        let (took, within) = (Duration::from_millis(20), Duration::from_secs(600));
        let (count, shown) = renderings(50, took, within).await;
        let (spent, round) = (took * count, took * 50);
        assert!(spent <= within / PART + round, "{count} renderings, {spent:?}");
        assert!(count > 1_000, "and they take what they may: {count}");
        assert!(shown.iter().all(|one| one.is_slow), "and it is said");
        let (count, shown) = renderings(1, took, within).await;
        assert!(count >= 290 && !shown[0].is_slow, "one alone is looked at each time: {count}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_that_took_long_is_looked_at_again_within_ten_seconds() {
        let (viewports, viewport) = (Viewports::default(), Viewport::default());
        let shown = viewport.shared(&viewports, || 1, parts(Duration::from_secs(10))).await;
        assert!(shown.is_slow);
        tokio::time::sleep(Duration::from_secs(10)).await;
        let shown = viewport.shared(&viewports, || 2, parts(Duration::ZERO)).await;
        assert_eq!((shown.as_of_ms, shown.is_shared), (2, false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_fault_is_told_to_who_waited_for_it_and_is_not_kept() {
        let (viewports, viewport) = (Viewports::default(), Viewport::default());
        let fault = || async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            RenderedLook::Fault("away".into())
        };
        let (first, second) = tokio::join!(
            viewport.shared(&viewports, || 1, fault()),
            viewport.shared(&viewports, || 2, fault())
        );
        assert!(matches!((&first.look, &second.look), (RenderedLook::Fault(_), RenderedLook::Fault(_))));
        assert_eq!((first.is_shared, second.is_shared), (false, true), "it was asked once");
        let shown = viewport.shared(&viewports, || 3, parts(Duration::ZERO)).await;
        assert!(matches!(shown.look, RenderedLook::Parts(_)), "the next look is at once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_that_never_comes_is_given_up() {
        let (viewports, viewport) = (Viewports::default(), Viewport::default());
        let shown = viewport.shared(&viewports, || 1, std::future::pending()).await;
        assert!(matches!(shown.look, RenderedLook::Fault(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn that_one_is_signed_out_is_told_to_nobody_else() {
        let (viewports, viewport) = (Viewports::default(), Viewport::default());
        let out = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            RenderedLook::SignedOut
        };
        let (_, second) = tokio::join!(
            viewport.shared(&viewports, || 1, out),
            viewport.shared(&viewports, || 1, parts(Duration::ZERO))
        );
        assert!(matches!(second.look, RenderedLook::Parts(_)));
    }
}
