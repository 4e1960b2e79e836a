//! How often each overdue task was found and had not fired. Takes nothing out of the hot set itself.

use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::hot::HotEntry;
use punctual_domain::time::Millis;

/// Looks of the sweep, a second apart, after which what stands in the way is taken out, and after which it fires from the
/// store.
const CLEARED_AFTER: u32 = 3;
const FIRED_AFTER: u32 = 6;
/// Tasks counted at one time; more wait until these have fired.
const COUNTED_MAX: usize = 50_000;
/// What has not been found overdue for so long is forgotten.
const FORGOTTEN_MS: i64 = 60_000;

#[derive(Debug, Default)]
pub(crate) struct Stuck {
    looks: Mutex<HashMap<i64, Look>>,
}

#[derive(Clone, Copy, Debug)]
struct Look {
    fence: i64,
    count: u32,
    at: Millis,
}

/// What is to be done with an overdue task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Load,
    ClearAndLoad,
    FireFromStore,
}

impl Stuck {
    pub(super) fn look(&self, entry: &HotEntry, now: Millis) -> Next {
        let mut looks = self.looks.lock();
        if looks.len() >= COUNTED_MAX {
            looks.retain(|_, it| now.since(it.at) < FORGOTTEN_MS);
        }
        let (id, fence) = (entry.place.id, entry.fence);
        if looks.len() >= COUNTED_MAX && !looks.contains_key(&id) {
            return Next::Load;
        }
        let look = looks.entry(id).or_insert(Look { fence, count: 0, at: now });
        if look.fence != fence || now.since(look.at) >= FORGOTTEN_MS {
            *look = Look { fence, count: 0, at: now };
        }
        (look.count, look.at) = (look.count + 1, now);
        match look.count {
            FIRED_AFTER.. => {
                looks.remove(&id);
                Next::FireFromStore
            }
            CLEARED_AFTER => Next::ClearAndLoad,
            _ => Next::Load,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::claim::tests::entry;

    #[test]
    fn what_stands_in_the_way_is_cleared_at_the_third_look_and_it_fires_from_the_store_at_the_sixth() {
        let it = Stuck::default();
        let looks: Vec<Next> = (0..7).map(|nth| it.look(&entry(1, 1), Millis(nth * 1_000))).collect();
        let (load, clear, fire) = (Next::Load, Next::ClearAndLoad, Next::FireFromStore);
        assert_eq!(looks, [load, load, clear, load, load, fire, load]);
    }

    #[test]
    fn a_change_of_plan_or_a_long_pause_begins_anew() {
        let it = Stuck::default();
        assert_eq!([0, 1].map(|at| it.look(&entry(1, 1), Millis(at))), [Next::Load; 2]);
        let changed = HotEntry { fence: 2, ..entry(1, 1) };
        assert_eq!([2, 3].map(|at| it.look(&changed, Millis(at))), [Next::Load; 2]);
        assert_eq!(it.look(&changed, Millis(4 + FORGOTTEN_MS)), Next::Load);
    }
}
