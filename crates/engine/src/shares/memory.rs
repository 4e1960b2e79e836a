//! The shares service's memory between runs: recent maxima, which stay reserved, and totals, so that an indivisible
//! rest is passed round. Losing it costs some seconds of fairness.

use super::pool::{Pool, ShareDemand};
use hashbrown::{HashMap, HashSet};
use punctual_domain::{
    name::{Name, QueueKey},
    shares::Turns,
    time::Millis,
};
use std::collections::BTreeSet;

/// A recent maximum stays reserved for this long, and up to twice as long.
const LATELY_MS: i64 = 5_000;
/// The time within which executors that were refused ask again (`Core::look_again`), as long as they want something.
const SHORT_MS: i64 = 2_000;
/// The maximum of the time between two runs that counts. After a longer time, the engine was stopped.
const LOOK_MAX_MS: i64 = 5_000;

#[derive(Debug, Default)]
pub(super) struct Memory {
    looked_at: Option<Millis>,
    namespaces: HashMap<Name, RecentUse>,
    queues: HashMap<QueueKey, RecentUse>,
    turns: Turns<Name>,
    turns_in: HashMap<Name, Turns<Name>>,
    /// The instant of the last search of all members for queues that no engine reports.
    pub(super) searched_at: Option<Millis>,
}

#[derive(Debug, Default)]
struct RecentUse {
    slots: Most,
    starts: Most,
    short_of_slots_at: Option<Millis>,
    short_of_starts_at: Option<Millis>,
}

/// The maxima of the present stretch of time and of the one before.
#[derive(Debug, Default)]
struct Most {
    stretch: i64,
    now: u64,
    before: u64,
}

impl Most {
    fn note(&mut self, value: u64, now: Millis) -> u64 {
        let stretch = now.0.div_euclid(LATELY_MS);
        if stretch != self.stretch {
            self.before = if stretch == self.stretch + 1 { self.now } else { 0 };
            (self.stretch, self.now) = (stretch, 0);
        }
        self.now = self.now.max(value);
        self.now.max(self.before)
    }
}

/// Adds half as much: occasional samples miss the true maximum.
fn and_a_little(most: u64, least: u64) -> u64 {
    if most == 0 { 0 } else { most.saturating_add((most / 2).max(least)) }
}

impl RecentUse {
    fn note(&mut self, wanted: &mut ShareDemand, starts_per_ks: u64, now: Millis) {
        wanted.slots_lately = and_a_little(self.slots.note(wanted.held, now), 1);
        wanted.starts_lately = and_a_little(self.starts.note(starts_per_ks, now), 0);
    }
}

impl ShareDemand {
    fn is_something(&self) -> bool {
        self.slots > 0
            || self.slots_lately > 0
            || self.starts_lately > 0
            || self.starts_per_ks.is_none_or(|starts_per_ks| starts_per_ks > 0)
    }
}

impl Memory {
    /// Queues that recently held or wanted something.
    pub(super) fn queues(&self) -> impl Iterator<Item = &QueueKey> {
        self.queues.keys()
    }

    /// Begins a run. Returns the time since the last run, ms.
    pub(super) fn begin(&mut self, now: Millis) -> u64 {
        let before = self.looked_at.replace(now);
        let since_ms = before.map_or(0, |at| now.since(at)).clamp(0, LOOK_MAX_MS);
        u64::try_from(since_ms).unwrap_or(0)
    }

    /// Queues without recent demand.
    pub(super) fn is_new(&self, queue: &QueueKey) -> bool {
        !self.queues.contains_key(queue)
    }

    /// Returns if executors of a queue are, or recently were, refused for lack of slots, and of starts.
    pub(super) fn short(&mut self, queue: &QueueKey, seen: (bool, bool), now: Millis) -> (bool, bool) {
        let lately = self.queues.entry(queue.clone()).or_default();
        let stays = |at: &mut Option<Millis>, is_now: bool| {
            if is_now {
                *at = Some(now);
            }
            at.is_some_and(|at| (0..=SHORT_MS).contains(&now.since(at)))
        };
        (stays(&mut lately.short_of_slots_at, seen.0), stays(&mut lately.short_of_starts_at, seen.1))
    }

    pub(super) fn note_queue(
        &mut self,
        queue: &QueueKey,
        wanted: &mut ShareDemand,
        starts_per_ks: u64,
        now: Millis,
    ) {
        self.queues.entry(queue.clone()).or_default().note(wanted, starts_per_ks, now);
    }

    pub(super) fn note_namespace(
        &mut self,
        name: &Name,
        wanted: &mut ShareDemand,
        starts_per_ks: u64,
        now: Millis,
    ) {
        self.namespaces.entry(name.clone()).or_default().note(wanted, starts_per_ks, now);
    }

    /// Drops those without present or recent demand. Returns the others.
    pub(super) fn keep<T: Clone>(wanted: Vec<(T, ShareDemand)>) -> Vec<(T, ShareDemand)> {
        wanted.into_iter().filter(|pair| pair.1.is_something()).collect()
    }

    pub(super) fn forget_others(&mut self, namespaces: &BTreeSet<&Name>, queues: &HashSet<&QueueKey>) {
        self.namespaces.retain(|name, _| namespaces.contains(name));
        self.turns_in.retain(|name, _| namespaces.contains(name));
        self.queues.retain(|queue, _| queues.contains(queue));
    }

    /// The amounts that the namespaces, or the queues of one, have had so far, of those that want slots now.
    pub(super) fn served(
        &mut self,
        of: Option<&Name>,
        before: Option<&Pool>,
        wanted: &[(Name, ShareDemand)],
        since_ms: u64,
    ) -> HashMap<Name, u64> {
        let turns = match of {
            None => &mut self.turns,
            Some(name) => self.turns_in.entry(name.clone()).or_default(),
        };
        for (name, slots, weight) in before.into_iter().flat_map(|pool| pool.had(wanted)) {
            turns.had(name, slots, since_ms, weight);
        }
        let wanting: Vec<&Name> = wanted.iter().filter(|pair| pair.1.slots > 0).map(|pair| &pair.0).collect();
        let served = turns.served(wanting.iter().copied());
        wanting.into_iter().cloned().zip(served).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_had_at_the_most_is_known_for_a_while_and_then_forgotten() {
        let mut most = Most::default();
        let mut at = |ms, value| most.note(value, Millis(ms));
        assert_eq!((at(100, 3), at(4_000, 9), at(4_900, 1)), (3, 9, 9));
        assert_eq!((at(5_100, 2), at(9_900, 1)), (9, 9));
        assert_eq!(at(10_000, 0), 2);
        assert_eq!(at(60_000, 0), 0);
        assert_eq!((and_a_little(0, 1), and_a_little(1, 1), and_a_little(40, 1)), (0, 2, 60));
    }
}
