//! The last good rendering of each page, by who sees it and by its address, and the renderings that are under way: one for each
//! page at most, which later requests join. Bounded in number and in bytes; the oldest renderings leave first. Must never give a
//! rendering to another token, and keeps nothing of a token that has signed out or is refused.

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

/// What became of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Whole,
    /// A part of the page is missing, because a database did not answer.
    Partial,
    /// No page: a database did not answer.
    Unavailable,
    /// No page, for a reason that is the caller's: a redirect, a refusal, no such page.
    Refused,
}

#[derive(Clone, Debug)]
pub(crate) struct Rendering {
    pub(crate) standing: Standing,
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// When it was begun.
    pub(crate) as_of_ms: i64,
}

/// A page as one caller sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight {
    /// Of the token. None: the caller has none.
    pub(crate) who: Option<Hash>,
    /// Of all that the page depends on: token and grant, zone, theme, address.
    pub(crate) key: Hash,
}

#[derive(Debug, Default)]
pub(crate) struct Kept {
    inner: Arc<Mutex<Inner>>,
    tasks: TaskTracker,
}

#[derive(Debug, Default)]
struct Inner {
    pages: HashMap<Hash, Page>,
    /// Keys by the order in which their pages were kept.
    order: BTreeMap<u64, Hash>,
    bytes: usize,
    under_way: HashMap<Hash, UnderWay>,
    last_number: u64,
}

#[derive(Debug)]
struct Page {
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
    /// None: the rendering was given up.
    pub(crate) async fn wait(mut self) -> Option<Arc<Rendering>> {
        let found = self.result.wait_for(Option::is_some).await.ok()?;
        found.clone()
    }
}

impl Kept {
    /// The last good rendering.
    pub(crate) fn get(&self, sight: Sight) -> Option<Arc<Rendering>> {
        let inner = self.inner.lock();
        inner
            .pages
            .get(&sight.key)
            .filter(|page| page.who == sight.who)
            .map(|page| Arc::clone(&page.rendering))
    }

    /// Begins a rendering, which goes on when its caller has left, or joins the one that is under way. `may_keep` is asked when it
    /// is done.
    pub(crate) fn begin<R, M>(&self, sight: Sight, rendering: R, may_keep: M) -> Pending
    where
        R: Future<Output = Option<Rendering>> + Send + 'static,
        M: FnOnce() -> bool + Send + 'static,
    {
        let mut inner = self.inner.lock();
        if let Some(under_way) = inner.under_way.get(&sight.key) {
            return Pending { is_joined: true, result: under_way.result.clone() };
        }
        let (sender, result) = watch::channel(None);
        let number = inner.next_number();
        inner.under_way.insert(sight.key, UnderWay { number, who: sight.who, result: result.clone() });
        drop(inner);
        // Dropped with the task, also when the rendering panics.
        let end = End { inner: Arc::clone(&self.inner), sight, number };
        self.tasks.spawn(async move {
            if let Some(rendering) = rendering.await.map(Arc::new) {
                let is_good = rendering.standing == Standing::Whole && may_keep();
                end.finish(is_good.then(|| Arc::clone(&rendering)));
                sender.send_replace(Some(rendering));
            }
        });
        Pending { is_joined: false, result }
    }

    /// Drops what is kept of a token, and keeps nothing of what is under way for it.
    pub(crate) fn forget(&self, who: Option<Hash>) {
        self.inner.lock().forget(who);
    }
}

impl Inner {
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn keep(&mut self, sight: Sight, rendering: Arc<Rendering>) {
        self.remove(&sight.key);
        if rendering.body.len() > PAGE_BYTES_MAX {
            return;
        }
        let number = self.next_number();
        self.bytes += rendering.body.len();
        self.order.insert(number, sight.key);
        self.pages.insert(sight.key, Page { number, who: sight.who, rendering });
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
struct End {
    inner: Arc<Mutex<Inner>>,
    sight: Sight,
    number: u64,
}

impl End {
    fn finish(&self, good: Option<Arc<Rendering>>) {
        let mut inner = self.inner.lock();
        let is_wanted = inner.under_way.get(&self.sight.key).is_some_and(|one| one.number == self.number);
        if is_wanted {
            inner.under_way.remove(&self.sight.key);
            if let Some(rendering) = good {
                inner.keep(self.sight, rendering);
            }
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.finish(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    fn sight(who: &str, page: usize) -> Sight {
        let key = blake3::hash(format!("{who}\n{page}").as_bytes());
        Sight { who: Some(blake3::hash(who.as_bytes())), key }
    }

    fn rendering(standing: Standing, length: usize) -> Rendering {
        let body = Bytes::from(vec![b'x'; length]);
        Rendering { standing, status: StatusCode::OK, headers: HeaderMap::new(), body, as_of_ms: 1 }
    }

    async fn render(kept: &Kept, sight: Sight, standing: Standing, length: usize) {
        let pending = kept.begin(sight, async move { Some(rendering(standing, length)) }, || true);
        assert_eq!(pending.wait().await.unwrap().standing, standing);
    }

    #[tokio::test]
    async fn the_oldest_leave_first_by_number_and_by_bytes() {
        let kept = Kept::default();
        for page in 0..=PAGES_MAX {
            render(&kept, sight("a", page), Standing::Whole, 10).await;
        }
        assert!(kept.get(sight("a", 0)).is_none() && kept.get(sight("a", 1)).is_some());
        for page in 0..9 {
            render(&kept, sight("b", page), Standing::Whole, PAGE_BYTES_MAX).await;
        }
        assert!(kept.get(sight("a", PAGES_MAX)).is_none() && kept.get(sight("b", 0)).is_none());
        assert!(kept.get(sight("b", 8)).is_some());
        render(&kept, sight("b", 8), Standing::Whole, PAGE_BYTES_MAX + 1).await;
        assert!(kept.get(sight("b", 8)).is_none(), "a page that is too long is not kept");
        let inner = kept.inner.lock();
        let bytes: usize = inner.pages.values().map(|page| page.rendering.body.len()).sum();
        assert_eq!((inner.bytes, inner.order.len()), (bytes, inner.pages.len()));
        assert!(inner.bytes <= BYTES_MAX && inner.under_way.is_empty());
    }

    #[tokio::test]
    async fn what_is_not_whole_replaces_nothing() {
        let kept = Kept::default();
        render(&kept, sight("a", 1), Standing::Whole, 10).await;
        for standing in [Standing::Partial, Standing::Unavailable, Standing::Refused] {
            render(&kept, sight("a", 1), standing, 20).await;
            assert_eq!(kept.get(sight("a", 1)).unwrap().body.len(), 10);
        }
    }

    #[tokio::test]
    async fn a_page_is_rendered_once_at_a_time_and_goes_on_without_its_caller() {
        let kept = Kept::default();
        let (finish, finished) = oneshot::channel();
        let one = async move {
            finished.await.unwrap();
            Some(rendering(Standing::Whole, 10))
        };
        let first = kept.begin(sight("a", 1), one, || true);
        let second = kept.begin(sight("a", 1), std::future::pending(), || true);
        let other = kept.begin(sight("b", 1), std::future::pending(), || true);
        assert_eq!((first.is_joined, second.is_joined, other.is_joined), (false, true, false));
        drop(first);
        finish.send(()).unwrap();
        assert!(second.wait().await.is_some());
        assert!(kept.get(sight("a", 1)).is_some());
    }

    #[tokio::test]
    async fn nothing_is_kept_of_a_token_that_is_forgotten_or_whose_rights_have_changed() {
        let kept = Kept::default();
        render(&kept, sight("a", 1), Standing::Whole, 10).await;
        render(&kept, sight("b", 1), Standing::Whole, 10).await;
        let (finish, finished) = oneshot::channel();
        let one = async move {
            finished.await.unwrap();
            Some(rendering(Standing::Whole, 10))
        };
        let under_way = kept.begin(sight("a", 2), one, || true);
        kept.forget(sight("a", 1).who);
        finish.send(()).unwrap();
        assert!(under_way.wait().await.is_some(), "its caller gets the rendering");
        assert!(kept.get(sight("a", 1)).is_none() && kept.get(sight("a", 2)).is_none());
        assert!(kept.get(sight("b", 1)).is_some(), "another token's stays");
        let pending = kept.begin(sight("b", 2), async { Some(rendering(Standing::Whole, 10)) }, || false);
        assert!(pending.wait().await.is_some());
        assert!(kept.get(sight("b", 2)).is_none());
    }

    #[tokio::test]
    async fn a_rendering_that_panics_is_over() {
        let kept = Kept::default();
        let pending = kept.begin(sight("a", 1), async { panic!("a test asked for this panic") }, || true);
        assert!(pending.wait().await.is_none());
        render(&kept, sight("a", 1), Standing::Whole, 10).await;
    }
}
