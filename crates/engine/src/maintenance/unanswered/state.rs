//! Takes and admissions whose answers were lost. Looks for none of them itself.

use crate::live::Live;
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use punctual_contract::{Error, Happened};
use punctual_domain::{name::QueueKey, place::Partition, time::Millis};
use std::{collections::BTreeSet, sync::Arc};
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct Unanswered {
    pub(super) lost: Mutex<Lost>,
    asked: Notify,
}

#[derive(Debug, Default)]
pub(super) struct Lost {
    /// When they were: what they popped says so.
    pub(super) takes: HashMap<Partition, BTreeSet<Millis>>,
    pub(super) admissions: HashSet<Arc<QueueKey>>,
}

impl Unanswered {
    /// `leased`: what was leased ahead, by id and fence, and would have left the hot set with it.
    pub(crate) fn take(
        &self,
        live: &Live,
        error: &Error,
        partition: Partition,
        at: Millis,
        leased: &HashSet<(i64, i64)>,
    ) {
        if error.happened == Happened::Maybe {
            live.lock().take_lost(leased);
            self.lost.lock().takes.entry(partition).or_default().insert(at);
            self.asked.notify_one();
        }
    }

    pub(crate) fn admission(&self, error: &Error, queue: &Arc<QueueKey>) {
        if error.happened == Happened::Maybe {
            self.lost.lock().admissions.insert(Arc::clone(queue));
            self.asked.notify_one();
        }
    }

    /// What could not be offered is held back by this engine.
    pub(crate) fn offer(&self, error: &Error) {
        if error.happened == Happened::Maybe {
            self.asked.notify_one();
        }
    }

    pub(crate) async fn asked(&self) {
        self.asked.notified().await;
    }

    /// It could not be looked for: the next run does it.
    pub(super) fn keep(&self, partition: Partition, takes: BTreeSet<Millis>) {
        self.lost.lock().takes.entry(partition).or_default().extend(takes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_have_happened_is_looked_for() {
        let (unanswered, live, none) = (Unanswered::default(), Live::new(1, true), HashSet::new());
        let refused = Error::did_not_happen("take", "refused");
        unanswered.take(&live, &refused, Partition(0), Millis(5), &none);
        assert!(unanswered.lost.lock().takes.is_empty());
        let lost = Error::may_have_happened("take", "no answer");
        unanswered.take(&live, &lost, Partition(0), Millis(5), &none);
        unanswered.take(&live, &lost, Partition(0), Millis(9), &none);
        let takes = unanswered.lost.lock().takes.remove(&Partition(0)).unwrap();
        assert_eq!(takes, BTreeSet::from([Millis(5), Millis(9)]));
    }
}
