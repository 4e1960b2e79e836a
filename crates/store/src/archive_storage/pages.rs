//! A cache of index pages in memory, up to a budget: the pages that were used last. Must never keep a page that
//! differs from what was written.

use super::{
    Error,
    format::{self, PAGE},
    objects::Objects,
};
use bytes::Bytes;
use hashbrown::HashMap;
use object_store::path::Path;
use parking_lot::Mutex;

/// The number of an archive in this process, and of a page in its index.
type Place = (u32, u64);

#[derive(Debug)]
pub(super) struct Pages {
    kept: Mutex<PageCache>,
    pages_max: usize,
}

#[derive(Debug, Default)]
struct PageCache {
    pages: HashMap<Place, (Bytes, u64)>,
    /// Grows with every use.
    uses: u64,
    read: u64,
}

/// An index object to read from.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexObject<'a> {
    pub(super) number: u32,
    pub(super) name: &'a Path,
    /// The number of pages in total; more are never requested.
    pub(super) pages: u64,
}

impl Pages {
    pub(super) fn new(budget_bytes: usize) -> Self {
        Self { kept: Mutex::default(), pages_max: (budget_bytes / PAGE).max(64) }
    }

    /// The room of a page. `None` if there is no such object any more.
    pub(super) async fn page(
        &self,
        objects: &Objects,
        index: IndexObject<'_>,
        page: u64,
    ) -> Result<Option<Bytes>, Error> {
        if let Some(kept) = self.kept.lock().used((index.number, page)) {
            return Ok(Some(kept));
        }
        let damaged = || Error::damaged(index.name.as_ref(), format!("page {page}"));
        if page >= index.pages {
            return Err(damaged());
        }
        let Some(read) = read(objects, index.name, page).await? else { return Ok(None) };
        self.kept.lock().keep((index.number, page), read.clone(), self.pages_max);
        Ok(Some(read))
    }

    /// The number of pages that were read from storage since the beginning.
    pub(super) fn read(&self) -> u64 {
        self.kept.lock().read
    }
}

/// The room of a page, past the cache.
pub(super) async fn read(objects: &Objects, object: &Path, page: u64) -> Result<Option<Bytes>, Error> {
    let from = page.saturating_mul(PAGE_BYTES);
    let Some(sealed) = objects.read(object, from..from.saturating_add(PAGE_BYTES)).await? else {
        return Ok(None);
    };
    let room = format::unseal(&sealed).map(|unseal| sealed.slice_ref(unseal));
    room.map(Some)
        .ok_or_else(|| Error::damaged(object.as_ref(), format!("the checksum of page {page} is another one")))
}

const PAGE_BYTES: u64 = 16_384;
const _: () = assert!(PAGE == 16_384);

impl PageCache {
    fn used(&mut self, place: Place) -> Option<Bytes> {
        self.uses += 1;
        let (page, used) = self.pages.get_mut(&place)?;
        *used = self.uses;
        Some(page.clone())
    }

    /// Stores a page. A full cache removes the least recently used eighth, so that it rarely scans itself.
    fn keep(&mut self, place: Place, page: Bytes, pages_max: usize) {
        self.read += 1;
        if self.pages.len() >= pages_max {
            let mut uses: Vec<u64> = self.pages.values().map(|pair| pair.1).collect();
            let (_, until, _) = uses.select_nth_unstable(pages_max / 8);
            let until = *until;
            self.pages.retain(|_, pair| pair.1 > until);
        }
        self.pages.insert(place, (page, self.uses));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_cache_keeps_what_was_used_last_and_stays_within_its_budget() {
        let mut kept = PageCache::default();
        for page in 0..1_000 {
            kept.used((1, 0));
            kept.keep((1, page), Bytes::new(), 64);
            assert!(kept.pages.len() <= 64);
        }
        assert!(kept.used((1, 0)).is_some());
        assert!(kept.used((1, 999)).is_some());
        assert!(kept.used((1, 500)).is_none());
    }
}
