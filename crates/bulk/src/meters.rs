//! This engine's work on bulk operations since it began: for metrics only, nothing decides by it.

use parking_lot::Mutex;
use punctual_domain::{bulk::Action, time::Millis};
use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// An operation without work here for this long is run elsewhere, or waits.
const AT_WORK_MS: i64 = 60_000;

/// The results of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// The task no longer matched.
    Skipped,
    Failed,
}

impl Outcome {
    pub const ALL: [Self; 3] = [Self::Done, Self::Skipped, Self::Failed];

    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Meters {
    /// The counts by action, in the order of `Action::WORDS`, and outcome.
    tasks: [[AtomicU64; Outcome::ALL.len()]; Action::WORDS.len()],
    /// Operations that were carried on here, and when.
    at_work: Mutex<HashMap<i64, Millis>>,
}

impl Meters {
    /// Adds the counts of one commit.
    pub(crate) fn add(&self, action: &Action, counts: [u64; Outcome::ALL.len()]) {
        let nth = Action::WORDS.iter().position(|word| *word == action.word());
        let of_action = nth.and_then(|number| self.tasks.get(number)).into_iter().flatten();
        for (all, more) in of_action.zip(counts) {
            all.fetch_add(more, Relaxed);
        }
    }

    pub(crate) fn carried_on(&self, id: i64, is_over: bool, now: Millis) {
        let mut at_work = self.at_work.lock();
        at_work.retain(|_, at| now.since(*at) < AT_WORK_MS);
        if is_over {
            at_work.remove(&id);
        } else {
            at_work.insert(id, now);
        }
    }

    pub(crate) fn at_work(&self, now: Millis) -> usize {
        self.at_work.lock().values().filter(|at| now.since(**at) < AT_WORK_MS).count()
    }

    pub(crate) fn tasks(&self) -> impl Iterator<Item = (&'static str, Outcome, u64)> {
        Action::WORDS.into_iter().zip(&self.tasks).flat_map(|(action, counts)| {
            let of = Outcome::ALL.into_iter().zip(counts);
            of.map(move |(outcome, count)| (action, outcome, count.load(Relaxed)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_action_and_outcome_is_counted_by_itself_and_what_is_over_is_not_at_work() {
        let meters = Meters::default();
        meters.add(&Action::Redrive, [3, 2, 1]);
        meters.add(&Action::Redrive, [1, 0, 0]);
        meters.add(&Action::Export, [5, 0, 0]);
        let counted: Vec<_> =
            meters.tasks().filter(|task| task.2 > 0).map(|task| (task.0, task.1.word(), task.2)).collect();
        let wanted = [
            ("redrive", "done", 4),
            ("redrive", "skipped", 2),
            ("redrive", "failed", 1),
            ("export", "done", 5),
        ];
        assert_eq!(counted, wanted);
        let at = |ms: i64| Millis(1_000_000 + ms);
        meters.carried_on(1, false, at(0));
        meters.carried_on(2, false, at(30_000));
        assert_eq!([meters.at_work(at(30_000)), meters.at_work(at(60_000))], [2, 1]);
        meters.carried_on(2, true, at(61_000));
        assert_eq!(meters.at_work(at(61_000)), 0);
    }
}
