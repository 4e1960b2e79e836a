//! The last good rendering of each page, by its viewer and by its address, and the renderings that are under way: one
//! for each page at most, which later requests join. Bounded in number and in bytes; the oldest renderings are
//! removed first. Must never give a rendering to another token, and stores nothing of a token that has signed out or
//! is refused.

use axum::http::{HeaderMap, StatusCode};
use blake3::Hash;
use bytes::Bytes;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

const PAGES_MAX: usize = 256;
const BYTES_MAX: usize = 16 << 20;
/// A longer page would push out many others.
const PAGE_BYTES_MAX: usize = 2 << 20;

/// The result of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionState {
    Whole,
    /// A part of the page is missing, because a database did not answer.
    Partial,
    /// There is no page: a database did not answer.
    Unavailable,
    /// There is no page, for a reason of the caller: a redirect, a refusal, an unknown page.
    Refused,
}

#[derive(Clone, Debug)]
pub(crate) struct Rendering {
    pub(crate) state: SessionState,
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The beginning of the rendering.
    pub(crate) as_of_ms: i64,
}

/// A page as one caller sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageKey {
    /// The hash of the token. `None` if the caller has none.
    pub(crate) who: Option<Hash>,
    /// The hash of all that the page depends on: token and grant, zone, theme, address.
    pub(crate) key: Hash,
}

#[derive(Debug, Default)]
pub(crate) struct KeptPages {
    inner: Arc<Mutex<KeptState>>,
    tasks: TaskTracker,
}

#[derive(Debug, Default)]
struct KeptState {
    pages: HashMap<Hash, KeptPage>,
    /// The keys by the order in which their pages were stored.
    order: BTreeMap<u64, Hash>,
    bytes: usize,
    under_way: HashMap<Hash, UnderWay>,
    last_number: u64,
}

#[derive(Debug)]
struct KeptPage {
    number: u64,
    who: Option<Hash>,
    rendering: Arc<Rendering>,
}

#[derive(Debug)]
struct UnderWay {
    number: u64,
    who: Option<Hash>,
    result: watch::Receiver<Option<Arc<Rendering>>>,
}

/// A rendering that is under way.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) is_joined: bool,
    result: watch::Receiver<Option<Arc<Rendering>>>,
}

impl Pending {
    /// Returns `None` if the rendering was given up.
    pub(crate) async fn wait(mut self) -> Option<Arc<Rendering>> {
        let found = self.result.wait_for(Option::is_some).await.ok()?;
        found.clone()
    }
}

impl KeptPages {
    /// The last good rendering.
    pub(crate) fn get(&self, viewport: PageKey) -> Option<Arc<Rendering>> {
        let inner = self.inner.lock();
        inner
            .pages
            .get(&viewport.key)
            .filter(|page| page.who == viewport.who)
            .map(|page| Arc::clone(&page.rendering))
    }

    /// Begins a rendering, which continues when its caller has left, or joins the one that is under way. `may_keep` is asked when it
    /// is done.
    pub(crate) fn begin<R, M>(&self, viewport: PageKey, rendering: R, may_keep: M) -> Pending
    where
        R: Future<Output = Option<Rendering>> + Send + 'static,
        M: FnOnce() -> bool + Send + 'static,
    {
        let mut inner = self.inner.lock();
        if let Some(under_way) = inner.under_way.get(&viewport.key) {
            return Pending { is_joined: true, result: under_way.result.clone() };
        }
        let (sender, result) = watch::channel(None);
        let number = inner.next_number();
        inner.under_way.insert(viewport.key, UnderWay { number, who: viewport.who, result: result.clone() });
        drop(inner);
        // Dropped with the task, also when the rendering panics.
        let end = RenderingEnd { inner: Arc::clone(&self.inner), viewport, number };
        self.tasks.spawn(async move {
            if let Some(rendering) = rendering.await.map(Arc::new) {
                let is_good = rendering.state == SessionState::Whole && may_keep();
                end.finish(is_good.then(|| Arc::clone(&rendering)));
                sender.send_replace(Some(rendering));
            }
        });
        Pending { is_joined: false, result }
    }

    /// Removes what is stored of a token, and stores nothing of what is under way for it.
    pub(crate) fn forget(&self, who: Option<Hash>) {
        self.inner.lock().forget(who);
    }
}

impl KeptState {
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn keep(&mut self, viewport: PageKey, rendering: Arc<Rendering>) {
        self.remove(&viewport.key);
        if rendering.body.len() > PAGE_BYTES_MAX {
            return;
        }
        let number = self.next_number();
        self.bytes += rendering.body.len();
        self.order.insert(number, viewport.key);
        self.pages.insert(viewport.key, KeptPage { number, who: viewport.who, rendering });
        while self.pages.len() > PAGES_MAX || self.bytes > BYTES_MAX {
            let Some((_, oldest)) = self.order.first_key_value() else { return };
            let oldest = *oldest;
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, key: &Hash) {
        if let Some(page) = self.pages.remove(key) {
            self.order.remove(&page.number);
            self.bytes -= page.rendering.body.len();
        }
    }

    fn forget(&mut self, who: Option<Hash>) {
        let keys: Vec<Hash> =
            self.pages.iter().filter(|(_, page)| page.who == who).map(|(key, _)| *key).collect();
        keys.iter().for_each(|key| self.remove(key));
        self.under_way.retain(|_, one| one.who != who);
    }
}

/// Takes a rendering from those that are under way.
struct RenderingEnd {
    inner: Arc<Mutex<KeptState>>,
    viewport: PageKey,
    number: u64,
}

impl RenderingEnd {
    fn finish(&self, good: Option<Arc<Rendering>>) {
        let mut inner = self.inner.lock();
        let is_wanted = inner.under_way.get(&self.viewport.key).is_some_and(|one| one.number == self.number);
        if is_wanted {
            inner.under_way.remove(&self.viewport.key);
            if let Some(rendering) = good {
                inner.keep(self.viewport, rendering);
            }
        }
    }
}

impl Drop for RenderingEnd {
    fn drop(&mut self) {
        self.finish(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    fn viewport(who: &str, page: usize) -> PageKey {
        let key = blake3::hash(format!("{who}\n{page}").as_bytes());
        PageKey { who: Some(blake3::hash(who.as_bytes())), key }
    }

    fn rendering(state: SessionState, length: usize) -> Rendering {
        let body = Bytes::from(vec![b'x'; length]);
        Rendering { state, status: StatusCode::OK, headers: HeaderMap::new(), body, as_of_ms: 1 }
    }

    async fn render(kept: &KeptPages, viewport: PageKey, state: SessionState, length: usize) {
        let pending = kept.begin(viewport, async move { Some(rendering(state, length)) }, || true);
        assert_eq!(pending.wait().await.unwrap().state, state);
    }

    #[tokio::test]
    async fn the_oldest_leave_first_by_number_and_by_bytes() {
        let kept = KeptPages::default();
        for page in 0..=PAGES_MAX {
            render(&kept, viewport("a", page), SessionState::Whole, 10).await;
        }
        assert!(kept.get(viewport("a", 0)).is_none() && kept.get(viewport("a", 1)).is_some());
        for page in 0..9 {
            render(&kept, viewport("b", page), SessionState::Whole, PAGE_BYTES_MAX).await;
        }
        assert!(kept.get(viewport("a", PAGES_MAX)).is_none() && kept.get(viewport("b", 0)).is_none());
        assert!(kept.get(viewport("b", 8)).is_some());
        render(&kept, viewport("b", 8), SessionState::Whole, PAGE_BYTES_MAX + 1).await;
        assert!(kept.get(viewport("b", 8)).is_none(), "a page that is too long is not kept");
        let inner = kept.inner.lock();
        let bytes: usize = inner.pages.values().map(|page| page.rendering.body.len()).sum();
        assert_eq!((inner.bytes, inner.order.len()), (bytes, inner.pages.len()));
        assert!(inner.bytes <= BYTES_MAX && inner.under_way.is_empty());
    }

    #[tokio::test]
    async fn what_is_not_whole_replaces_nothing() {
        let kept = KeptPages::default();
        render(&kept, viewport("a", 1), SessionState::Whole, 10).await;
        for state in [SessionState::Partial, SessionState::Unavailable, SessionState::Refused] {
            render(&kept, viewport("a", 1), state, 20).await;
            assert_eq!(kept.get(viewport("a", 1)).unwrap().body.len(), 10);
        }
    }

    #[tokio::test]
    async fn a_page_is_rendered_once_at_a_time_and_goes_on_without_its_caller() {
        let kept = KeptPages::default();
        let (finish, finished) = oneshot::channel();
        let one = async move {
            finished.await.unwrap();
            Some(rendering(SessionState::Whole, 10))
        };
        let first = kept.begin(viewport("a", 1), one, || true);
        let second = kept.begin(viewport("a", 1), std::future::pending(), || true);
        let other = kept.begin(viewport("b", 1), std::future::pending(), || true);
        assert_eq!((first.is_joined, second.is_joined, other.is_joined), (false, true, false));
        drop(first);
        finish.send(()).unwrap();
        assert!(second.wait().await.is_some());
        assert!(kept.get(viewport("a", 1)).is_some());
    }

    #[tokio::test]
    async fn nothing_is_kept_of_a_token_that_is_forgotten_or_whose_rights_have_changed() {
        let kept = KeptPages::default();
        render(&kept, viewport("a", 1), SessionState::Whole, 10).await;
        render(&kept, viewport("b", 1), SessionState::Whole, 10).await;
        let (finish, finished) = oneshot::channel();
        let one = async move {
            finished.await.unwrap();
            Some(rendering(SessionState::Whole, 10))
        };
        let under_way = kept.begin(viewport("a", 2), one, || true);
        kept.forget(viewport("a", 1).who);
        finish.send(()).unwrap();
        assert!(under_way.wait().await.is_some(), "its caller gets the rendering");
        assert!(kept.get(viewport("a", 1)).is_none() && kept.get(viewport("a", 2)).is_none());
        assert!(kept.get(viewport("b", 1)).is_some(), "another token's stays");
        let pending =
            kept.begin(viewport("b", 2), async { Some(rendering(SessionState::Whole, 10)) }, || false);
        assert!(pending.wait().await.is_some());
        assert!(kept.get(viewport("b", 2)).is_none());
    }

    #[tokio::test]
    async fn a_rendering_that_panics_is_over() {
        let kept = KeptPages::default();
        let pending = kept.begin(viewport("a", 1), async { panic!("a test asked for this panic") }, || true);
        assert!(pending.wait().await.is_none());
        render(&kept, viewport("a", 1), SessionState::Whole, 10).await;
    }
}
