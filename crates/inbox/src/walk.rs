//! Which rows are offered next: by number, past the rows of queues and keys that were put off. Pure.

use punctual_contract::inbox::RowHead;
use std::collections::{HashMap, HashSet};

/// Payloads of one offer; one row may be longer.
const BYTES: u64 = 8 << 20;
/// Queues and keys that are passed over; with more, the walk begins anew.
const PUT_OFF_MAX: usize = 10_000;
/// Rows by which a queue is tried that was put off in the walk before: each one that is refused costs the engine a look.
const TRIED_ROWS: usize = 10;

/// From the lowest number to the highest that is visible, then anew.
#[derive(Debug, Default)]
pub(crate) struct InboxWalk {
    above: i64,
    /// By namespace. Their rows stay until the next walk.
    queues: HashSet<(String, String)>,
    /// By namespace. A later row of a key must not overtake one that stays.
    keys: HashSet<(String, String)>,
    /// Put off in the walk before, and not taken since.
    tried: HashSet<(String, String)>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// No two of one key.
    pub(crate) ids: Vec<i64>,
    /// The walk ends with these.
    pub(crate) is_end: bool,
}

impl InboxWalk {
    /// Rows up to this number stay. Where none stay, a row that becomes visible late is the next.
    pub(crate) fn above(&self) -> i64 {
        if self.has_put_off() { self.above } else { 0 }
    }

    /// The next walk.
    pub(crate) fn anew(&mut self) {
        *self = Self { tried: std::mem::take(&mut self.queues), ..Self::default() };
    }

    /// Rows of this queue were taken.
    pub(crate) fn taken(&mut self, namespace: &str, queue: &str) {
        if !self.tried.is_empty() {
            self.tried.remove(&(namespace.to_owned(), queue.to_owned()));
        }
    }

    pub(crate) fn has_put_off(&self) -> bool {
        !self.queues.is_empty() || !self.keys.is_empty()
    }

    /// What was offered stays.
    pub(crate) fn put_off(&mut self, namespace: String, queue: String, key: String) {
        self.queues.insert((namespace.clone(), queue));
        self.keys.insert((namespace, key));
    }

    /// `is_last`: none is behind these.
    pub(crate) fn choose(&mut self, heads: &[RowHead], is_last: bool) -> Chosen {
        let (mut chosen, mut bytes, mut keys) = (Chosen::default(), 0, HashSet::new());
        let mut tried: HashMap<&str, usize> = HashMap::new();
        for head in heads {
            let key = head.key.clone().map(|key| (head.namespace.clone(), key));
            let stays = self.queues.contains(&(head.namespace.clone(), head.queue.clone()))
                || key.as_ref().is_some_and(|key| self.keys.contains(key));
            if stays {
                self.keys.extend(key);
                self.above = head.id;
                continue;
            }
            let is_repeated = key.as_ref().is_some_and(|key| keys.contains(key));
            if is_repeated || (!chosen.ids.is_empty() && bytes + head.bytes > BYTES) {
                return chosen;
            }
            if self.tried.contains(&(head.namespace.clone(), head.queue.clone())) {
                let rows = tried.entry(&head.queue).or_default();
                if *rows == TRIED_ROWS {
                    return chosen;
                }
                *rows += 1;
            }
            keys.extend(key);
            bytes += head.bytes;
            chosen.ids.push(head.id);
            self.above = head.id;
        }
        chosen.is_end = is_last || self.queues.len() + self.keys.len() > PUT_OFF_MAX;
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(id: i64, queue: &str, key: &str) -> RowHead {
        let key = Some(key.to_owned()).filter(|key| !key.is_empty());
        RowHead { id, namespace: "n".into(), queue: queue.into(), key, bytes: 1 }
    }

    #[test]
    fn rows_of_one_key_are_offered_one_after_the_other() {
        let mut walk = InboxWalk::default();
        let heads = [head(1, "a", "x"), head(2, "a", ""), head(3, "a", "x"), head(4, "a", "y")];
        assert_eq!(walk.choose(&heads, true), Chosen { ids: vec![1, 2], is_end: false });
        assert_eq!(walk.above(), 0, "those are gone, and another may come before the third");
        assert_eq!(walk.choose(&heads[2..], true), Chosen { ids: vec![3, 4], is_end: true });
    }

    #[test]
    fn a_queue_that_is_put_off_holds_back_rows_and_keys_of_it_alone() {
        let mut walk = InboxWalk::default();
        walk.put_off("n".into(), "full".into(), "x".into());
        let heads = [head(1, "full", "y"), head(2, "b", "x"), head(3, "b", "y"), head(4, "b", "z")];
        assert_eq!(walk.choose(&heads, true), Chosen { ids: vec![4], is_end: true });
        assert!(walk.has_put_off() && walk.above() == 4);
    }

    #[test]
    fn a_queue_that_was_put_off_is_tried_by_few_rows_until_some_are_taken() {
        let mut walk = InboxWalk::default();
        walk.put_off("n".into(), "full".into(), "x".into());
        walk.anew();
        let heads: Vec<RowHead> = (1..=100).map(|id| head(id, "full", "")).collect();
        assert_eq!(walk.choose(&heads, true).ids.len(), TRIED_ROWS);
        walk.taken("n", "full");
        assert_eq!(walk.choose(&heads, true).ids.len(), 100);
    }

    #[test]
    fn an_offer_has_a_bound_in_bytes_and_one_row_at_least() {
        let mut walk = InboxWalk::default();
        let long = |id| RowHead { bytes: BYTES, ..head(id, "a", "") };
        assert_eq!(walk.choose(&[long(1), long(2)], true).ids, [1]);
        assert_eq!(walk.choose(&[long(2)], true).ids, [2]);
    }
}
