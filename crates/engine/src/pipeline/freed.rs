//! Places that attempts gave up, and who is woken for them. Of a place in a limit that several queues share, only those hear
//! whose tasks it kept back: a queue with idle executors would else be looked through at every end of an attempt of any
//! other, and pay for another tenant's flood. Decides nothing about who goes: whoever is woken asks the limiter.

use super::admit::unpark;
use crate::core::Core;
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use punctual_contract::{
    hot::Lane,
    limiter::{Answer, Held, Member},
};
use punctual_domain::{limits::Scope, name::QueueKey};
use std::sync::Arc;

/// Queues with tasks that wait for a limit which others share, as far as this engine knows.
#[derive(Debug, Default)]
pub(super) struct KeptBack(Mutex<HashMap<Arc<QueueKey>, State>>);

#[derive(Debug, Default)]
struct State {
    /// Looks that are under way: what is freed meanwhile may be what they are told is not there.
    looks: usize,
    is_kept_back: bool,
    /// How often it was kept back: a look that began before the last time does not know better.
    times: u64,
}

/// One look at a queue's tasks, from before the limiter is asked until it is over.
#[derive(Debug)]
pub(super) struct Look<'a> {
    all: &'a KeptBack,
    queue: &'a Arc<QueueKey>,
    times: u64,
}

impl KeptBack {
    pub(super) fn look<'a>(&'a self, queue: &'a Arc<QueueKey>) -> Look<'a> {
        let mut states = self.0.lock();
        let state = states.entry(Arc::clone(queue)).or_default();
        state.looks += 1;
        Look { all: self, queue, times: state.times }
    }

    /// Who may wait for what has just been freed.
    fn queues(&self) -> Vec<Arc<QueueKey>> {
        self.0.lock().keys().map(Arc::clone).collect()
    }
}

impl Look<'_> {
    /// The limiter has answered so about one of its tasks.
    pub(super) fn answered(&self, answer: &Answer) {
        if let Answer::Blocked(Scope::Everything | Scope::Namespace(_)) = answer
            && let Some(state) = self.all.0.lock().get_mut(self.queue)
        {
            state.is_kept_back = true;
            state.times += 1;
        }
    }

    /// Nothing of the queue is left that is ready.
    pub(super) fn found_the_end(&self) {
        if let Some(state) = self.all.0.lock().get_mut(self.queue)
            && state.times == self.times
        {
            state.is_kept_back = false;
        }
    }
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        let mut states = self.all.0.lock();
        let Some(state) = states.get_mut(self.queue) else { return };
        state.looks = state.looks.saturating_sub(1);
        if state.looks == 0 && !state.is_kept_back {
            states.remove(self.queue);
        }
    }
}

/// Attempts have ended in the store: what they held is free, and who waits for it is woken. What fails here the
/// reconciler does.
pub(crate) async fn free(core: &Arc<Core>, ended: &[Member]) {
    if core.admissions.has_limits(&core.settings.known()) || core.admissions.bounds.are_in_use() {
        release(core, ended).await;
    }
}

/// As `free`, where the lease tells of an executor's bound, and whoever took the outcome frees its place
/// (`Engine::give_up_places`): so that the outcomes of all other executors cost nothing.
pub(crate) async fn free_what_is_set(core: &Arc<Core>, ended: &[Member]) {
    if core.admissions.has_limits(&core.settings.known()) {
        release(core, ended).await;
    }
}

async fn release(core: &Arc<Core>, ended: &[Member]) {
    if ended.is_empty() || core.from_store.is_away() {
        return;
    }
    match core.limiter.release(ended).await {
        Ok(held) => wake(core, &held.into_iter().flatten().collect::<Vec<_>>()).await,
        Err(error) => tracing::warn!(%error, "slots could not be given up; the reconciler frees them"),
    }
}

/// These have given up their places.
pub(crate) async fn wake(core: &Arc<Core>, freed: &[Held]) {
    let (mut queues, mut lanes) =
        (HashMap::<QueueKey, usize>::new(), HashMap::<(QueueKey, Lane), usize>::new());
    let mut is_wide = false;
    for scope in freed.iter().flat_map(|held| &held.scopes) {
        match scope {
            Scope::Everything | Scope::Namespace(_) => is_wide = true,
            Scope::Queue(queue) => *queues.entry(queue.clone()).or_default() += 1,
            Scope::Key(queue, key) => {
                *lanes.entry((queue.clone(), Lane::Key(key.clone()))).or_default() += 1;
            }
            Scope::Retries(queue) => *lanes.entry((queue.clone(), Lane::Retries)).or_default() += 1,
            Scope::Executor(..) => core.admissions.bounds.wake(scope),
        }
    }
    for ((queue, lane), count) in lanes {
        if let Err(error) = unpark(core, &Arc::new(queue), &lane, count).await {
            tracing::warn!(%error, "parked tasks could not be brought back; the next look does it");
        }
    }
    let woken: HashSet<QueueKey> = queues.keys().cloned().collect();
    for (queue, count) in queues {
        core.arrived(&Arc::new(queue), count);
    }
    if is_wide {
        // Other queues may have waited for the same.
        let others = core.admissions.kept_back.queues().into_iter().filter(|queue| !woken.contains(&**queue));
        others.for_each(|queue| core.wake_one(&queue));
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
        let (all, mail) = (KeptBack::default(), queue("mail"));
        let look = all.look(&mail);
        assert_eq!(all.queues().len(), 1, "what is freed now, the look may have missed");
        drop(look);
        assert!(all.queues().is_empty(), "nothing kept it back");
        let look = all.look(&mail);
        look.answered(&Answer::Blocked(Scope::Queue((*mail).clone())));
        drop(look);
        assert!(all.queues().is_empty(), "its own limit frees nothing of others");
        let look = all.look(&mail);
        look.answered(&Answer::Blocked(Scope::Everything));
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
        let (all, mail) = (KeptBack::default(), queue("mail"));
        let (old, new) = (all.look(&mail), all.look(&mail));
        new.answered(&Answer::Blocked(Scope::Namespace(mail.namespace.clone())));
        drop(new);
        old.found_the_end();
        drop(old);
        assert_eq!(all.queues().len(), 1);
    }
}
