//! What is being handed over at this instant: the store is being asked, and its answer decides what becomes of it. Until
//! then nobody else offers it. Holds nothing that matters: what is not in it is offered again, and the store decides.

use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::hot::HotEntry;

/// By id, the fence.
#[derive(Debug, Default)]
pub(crate) struct InHand(Mutex<HashMap<i64, i64>>);

impl InHand {
    /// Until the answer is dropped, however the work ends.
    pub(crate) fn hold<'a>(&'a self, entries: &[HotEntry]) -> Held<'a> {
        let held: Vec<(i64, i64)> = entries.iter().map(|it| (it.place.id, it.fence)).collect();
        self.0.lock().extend(held.iter().copied());
        Held { all: self, held }
    }

    pub(crate) fn has(&self, entry: &HotEntry) -> bool {
        self.0.lock().get(&entry.place.id).is_some_and(|it| *it >= entry.fence)
    }
}

#[derive(Debug)]
pub(crate) struct Held<'a> {
    all: &'a InHand,
    held: Vec<(i64, i64)>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut all = self.all.0.lock();
        for (id, fence) in &self.held {
            // Or it is in other hands meanwhile.
            if all.get(id) == Some(fence) {
                all.remove(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::claim::tests::entry;

    #[test]
    fn it_is_held_until_its_answer_and_not_for_what_is_newer() {
        let all = InHand::default();
        let newer = HotEntry { fence: entry(1, 5).fence + 1, ..entry(1, 5) };
        let held = all.hold(&[entry(1, 5), entry(2, 5)]);
        assert!(all.has(&entry(1, 5)) && all.has(&entry(2, 5)) && !all.has(&entry(3, 5)) && !all.has(&newer));
        let other = all.hold(std::slice::from_ref(&newer));
        drop(held);
        assert!(all.has(&newer) && !all.has(&entry(2, 5)));
        drop(other);
        assert!(all.0.lock().is_empty());
    }
}
