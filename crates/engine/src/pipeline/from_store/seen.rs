//! A pass over what is due in the store, page by page, and what it has seen: what is served from the live table, stands where it
//! has looked, and was not seen is ready no more. Another engine has handed it over, or it was cancelled or changed. Changes no row.

use crate::{core::Core, options::STEP_LIMIT};
use hashbrown::{HashMap, HashSet};
use punctual_contract::{Error, hot::HotEntry, store::Scan};
use punctual_domain::{place::Partition, time::Millis};

/// Pages of overdue tasks looked at in one partition in one run; the next goes on there.
pub(super) const PAGES: usize = 10;

type Key = (Millis, i64);

/// Before every key.
const BEGINNING: Key = (Millis(i64::MIN), i64::MIN);

#[derive(Debug, Default)]
pub(super) struct Seen {
    /// By partition: after which key it has looked, and until which.
    spans: HashMap<Partition, (Key, Key)>,
    /// By id and fence.
    found: HashSet<(i64, i64)>,
}

impl Seen {
    /// A page, which goes on where the one before it ended.
    pub(super) fn add(&mut self, partition: Partition, after: Option<Key>, page: &[HotEntry], until: Key) {
        let first = (after.unwrap_or(BEGINNING), until);
        self.spans.entry(partition).or_insert(first).1 = until;
        self.found.extend(page.iter().map(|entry| (entry.place.id, entry.fence)));
    }

    fn is_gone(&self, entry: &HotEntry) -> bool {
        let is_within = |span: &(Key, Key)| span.0 < entry.key() && entry.key() <= span.1;
        self.spans.get(&entry.place.partition).is_some_and(is_within)
            && !self.found.contains(&(entry.place.id, entry.fence))
    }

    /// Nothing rests on it: what becomes ready meanwhile the next pass finds again.
    pub(super) fn forget_what_is_gone(&self, core: &Core) {
        drop(core.live.lock().serve_no_more(|entry| self.is_gone(entry)));
    }
}

/// What is due in a partition, from where the last page of it ended; and whether that is the end.
pub(super) async fn next_page(
    core: &Core,
    partition: Partition,
    seen: &mut Seen,
) -> Result<(Vec<HotEntry>, bool), Error> {
    let (until, after) = (core.now(), core.from_store.positions.lock().remove(&partition));
    let page = core.store.scan(Scan { partition, until, after, limit: STEP_LIMIT }).await?;
    let next = (page.len() == STEP_LIMIT).then(|| page.last().map(HotEntry::key)).flatten();
    seen.add(partition, after, &page, next.unwrap_or((until, i64::MAX)));
    if let Some(next) = next {
        core.from_store.positions.lock().insert(partition, next);
    }
    Ok((page, next.is_none()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::drain::tests::entry;

    #[test]
    fn only_what_stands_where_it_has_looked_and_was_not_found_is_gone() {
        let mut seen = Seen::default();
        let (found, partition) = (entry(1, 20), entry(1, 20).place.partition);
        seen.add(partition, Some((Millis(10), 5)), std::slice::from_ref(&found), (Millis(20), 1));
        seen.add(partition, Some((Millis(20), 1)), &[], (Millis(40), i64::MAX));
        assert!(!seen.is_gone(&found));
        assert!(seen.is_gone(&HotEntry { fence: found.fence + 1, ..found.clone() }), "it was replaced");
        assert!(seen.is_gone(&entry(2, 30)) && seen.is_gone(&entry(6, 10)));
        assert!(!seen.is_gone(&entry(5, 10)) && !seen.is_gone(&entry(2, 41)), "it has not looked there");
        let elsewhere = Partition(partition.0 + 1);
        let other = HotEntry {
            place: punctual_domain::place::TaskRef { partition: elsewhere, ..found.place },
            ..found
        };
        assert!(!Seen::default().is_gone(&other) && !seen.is_gone(&other));
    }
}
