//! A page-by-page pass over due tasks in the store, and what it has found. An entry of the live table within
//! the passed range that was not found is no longer ready: another engine has handed it over, or it was
//! cancelled or changed. Changes no row.

use crate::{core::Core, options::STEP_LIMIT, pipeline::scan::state::Positions};
use hashbrown::{HashMap, HashSet};
use punctual_contract::{Error, hot::HotEntry, store::Scan};
use punctual_domain::{place::Partition, time::Millis};

/// Pages of overdue tasks that one run reads in one partition; the next run continues there.
pub(in crate::pipeline) const PAGES: usize = 10;
/// Tasks that became due this recently are read beside a pass that takes several runs. Later commits wait for
/// the pass.
const LATELY_MS: i64 = 3_000;

type Key = (Millis, i64);

/// The key before every key.
const BEGINNING: Key = (Millis(i64::MIN), i64::MIN);

#[derive(Debug)]
pub(crate) struct Scanned {
    /// The beginning of the pass. Tasks that fired since then may have been committed after the read.
    began_at: Millis,
    /// The range of keys that the pass has read, by partition.
    spans: HashMap<Partition, (Key, Key)>,
    /// The found tasks, by id and fence.
    found: HashSet<(i64, i64)>,
}

impl Scanned {
    /// Begins a pass, before the first page is read.
    pub(in crate::pipeline) fn begun(began_at: Millis) -> Self {
        Self { began_at, spans: HashMap::new(), found: HashSet::new() }
    }

    /// A page, which continues where the one before it ended.
    pub(in crate::pipeline) fn add(
        &mut self,
        partition: Partition,
        after: Option<Key>,
        page: &[HotEntry],
        until: Key,
    ) {
        let first = (after.unwrap_or(BEGINNING), until);
        self.spans.entry(partition).or_insert(first).1 = until;
        self.found.extend(page.iter().map(|entry| (entry.place.id, entry.fence)));
    }

    fn is_gone(&self, entry: &HotEntry) -> bool {
        let is_within = |span: &(Key, Key)| span.0 < entry.key() && entry.key() <= span.1;
        entry.fired_at < self.began_at
            && self.spans.get(&entry.place.partition).is_some_and(is_within)
            && !self.found.contains(&(entry.place.id, entry.fence))
    }

    /// Removes entries that are no longer ready. No task depends on them: the next pass finds ready tasks
    /// again. Without other writers, only this engine's own moves remove entries.
    pub(in crate::pipeline) fn forget_what_is_gone(&self, core: &Core) {
        if core.store_fallback.others_write {
            drop(core.live.lock().serve_no_more(|_| true, |entry| self.is_gone(entry)));
        }
    }
}

/// The due tasks of a partition after the last page, and whether the pass has ended there.
pub(in crate::pipeline) async fn next_page(
    core: &Core,
    positions: &Positions,
    partition: Partition,
    scanned: &mut Scanned,
) -> Result<(Vec<HotEntry>, bool), Error> {
    let after = positions.lock().remove(&partition);
    let (page, next) = page_after(core, partition, after, scanned).await?;
    if let Some(next) = next {
        positions.lock().insert(partition, next);
    }
    Ok((page, next.is_none()))
}

/// The due tasks of a partition after a key; and the key after which there may be more. `None` at the end.
pub(in crate::pipeline) async fn page_after(
    core: &Core,
    partition: Partition,
    after: Option<Key>,
    scanned: &mut Scanned,
) -> Result<(Vec<HotEntry>, Option<Key>), Error> {
    let until = core.now();
    let page = core.store.scan(Scan { partition, until, after, limit: STEP_LIMIT }).await?;
    let next = (page.len() == STEP_LIMIT).then(|| page.last().map(HotEntry::key)).flatten();
    scanned.add(partition, after, &page, next.unwrap_or((until, i64::MAX)));
    Ok((page, next))
}

/// Recently due tasks. A pass over a long backlog reaches them only at its end, while executors of another
/// queue wait for them.
pub(super) async fn became_due_lately(core: &Core, partition: Partition) -> Result<Vec<HotEntry>, Error> {
    let until = core.now();
    let (mut after, mut found) = ((until.plus(-LATELY_MS), i64::MAX), Vec::new());
    for _ in 0..PAGES {
        let page = core.store.scan(Scan { partition, until, after: Some(after), limit: STEP_LIMIT }).await?;
        let next = (page.len() == STEP_LIMIT).then(|| page.last().map(HotEntry::key)).flatten();
        found.extend(page);
        let Some(next) = next else { break };
        after = next;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::drain::tests::entry;

    #[test]
    fn only_what_stands_where_the_pass_has_looked_and_was_not_found_is_gone() {
        let mut scanned = Scanned::begun(Millis(100));
        let (found, partition) = (entry(1, 20), entry(1, 20).place.partition);
        scanned.add(partition, Some((Millis(10), 5)), std::slice::from_ref(&found), (Millis(20), 1));
        scanned.add(partition, Some((Millis(20), 1)), &[], (Millis(40), i64::MAX));
        assert!(!scanned.is_gone(&found));
        assert!(scanned.is_gone(&HotEntry { fence: found.fence + 1, ..found.clone() }), "it was replaced");
        assert!(scanned.is_gone(&entry(2, 30)) && scanned.is_gone(&entry(6, 10)));
        assert!(!scanned.is_gone(&entry(5, 10)) && !scanned.is_gone(&entry(2, 41)), "not looked at");
        let elsewhere = Partition(partition.0 + 1);
        let other = HotEntry {
            place: punctual_domain::place::TaskRef { partition: elsewhere, ..found.place },
            ..found
        };
        assert!(!Scanned::begun(Millis(100)).is_gone(&other) && !scanned.is_gone(&other));
        assert!(!scanned.is_gone(&HotEntry { fired_at: Millis(100), ..entry(2, 30) }), "it fired meanwhile");
    }
}
