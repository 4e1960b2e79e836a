//! Queues with tasks that wait for a shared limit, as far as this engine knows. Wakes no waiter.

use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::limiter::Verdict;
use punctual_domain::{limits::Scope, name::QueueKey};
use std::sync::Arc;

/// Queues with tasks that wait for a limit which others share, as far as this engine knows.
#[derive(Debug, Default)]
pub(crate) struct DeferredQueues(Mutex<HashMap<Arc<QueueKey>, QueueState>>);

#[derive(Debug, Default)]
struct QueueState {
    /// Running checks: a slot that is freed during one may be missing from its answer.
    looks: usize,
    is_deferred: bool,
    /// The number of times that the queue was deferred: a check that began before the last time is outdated.
    times: u64,
}

/// One check of a queue's tasks, from before the limiter is asked until the check ends.
#[derive(Debug)]
pub(crate) struct QueueAttempt<'a> {
    all: &'a DeferredQueues,
    pub(super) queue: &'a Arc<QueueKey>,
    times: u64,
}

impl DeferredQueues {
    pub(crate) fn look<'a>(&'a self, queue: &'a Arc<QueueKey>) -> QueueAttempt<'a> {
        let mut states = self.0.lock();
        let state = states.entry(Arc::clone(queue)).or_default();
        state.looks += 1;
        QueueAttempt { all: self, queue, times: state.times }
    }

    /// The queues that may wait for a slot that was just freed.
    pub(super) fn queues(&self) -> Vec<Arc<QueueKey>> {
        self.0.lock().keys().map(Arc::clone).collect()
    }
}

impl QueueAttempt<'_> {
    /// The limiter has answered so about one of its tasks.
    pub(crate) fn answered(&self, answer: &Verdict) {
        if let Verdict::Blocked(Scope::Everything | Scope::Namespace(_)) = answer
            && let Some(state) = self.all.0.lock().get_mut(self.queue)
        {
            state.is_deferred = true;
            state.times += 1;
        }
    }

    /// The queue has no ready task left.
    pub(crate) fn found_the_end(&self) {
        if let Some(state) = self.all.0.lock().get_mut(self.queue)
            && state.times == self.times
        {
            state.is_deferred = false;
        }
    }
}

impl Drop for QueueAttempt<'_> {
    fn drop(&mut self) {
        let mut states = self.all.0.lock();
        let Some(state) = states.get_mut(self.queue) else { return };
        state.looks = state.looks.saturating_sub(1);
        if state.looks == 0 && !state.is_deferred {
            states.remove(self.queue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_domain::name::Name;

    fn queue(name: &str) -> Arc<QueueKey> {
        Arc::new(QueueKey { namespace: Name::new("eu").unwrap(), queue: Name::new(name).unwrap() })
    }

    #[test]
    fn a_queue_hears_of_freed_places_while_it_is_kept_back_or_being_looked_at() {
        let (all, mail) = (DeferredQueues::default(), queue("mail"));
        let look = all.look(&mail);
        assert_eq!(all.queues().len(), 1, "what is freed now, the look may have missed");
        drop(look);
        assert!(all.queues().is_empty(), "nothing kept it back");
        let look = all.look(&mail);
        look.answered(&Verdict::Blocked(Scope::Queue((*mail).clone())));
        drop(look);
        assert!(all.queues().is_empty(), "its own limit frees nothing of others");
        let look = all.look(&mail);
        look.answered(&Verdict::Blocked(Scope::Everything));
        drop(look);
        assert_eq!(all.queues().len(), 1);
        drop(all.look(&mail));
        assert_eq!(all.queues().len(), 1, "one that got a place leaves others behind");
        let look = all.look(&mail);
        look.found_the_end();
        drop(look);
        assert!(all.queues().is_empty());
    }

    #[test]
    fn a_look_that_began_before_it_was_kept_back_does_not_know_better() {
        let (all, mail) = (DeferredQueues::default(), queue("mail"));
        let (old, new) = (all.look(&mail), all.look(&mail));
        new.answered(&Verdict::Blocked(Scope::Namespace(mail.namespace.clone())));
        drop(new);
        old.found_the_end();
        drop(old);
        assert_eq!(all.queues().len(), 1);
    }
}
