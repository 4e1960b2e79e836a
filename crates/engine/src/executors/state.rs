//! Executors as of their heartbeats, and their desired states, as far as this engine knows. Asks no store.

use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_domain::{
    executor::{DesiredState, Profile, Roll, Sign},
    name::Name,
    time::Millis,
};
use std::sync::Arc;
use tokio::sync::watch;

/// The interval of writes for an executor whose report is unchanged.
const WRITE_AFTER_MS: i64 = 5_000;

pub(super) type Key = (Name, Name);
type Wishes = Arc<HashMap<Key, DesiredState>>;

/// A call of an executor.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    pub namespace: Name,
    pub name: Name,
    pub profile: Profile,
    /// Silent for this long, it counts as dead.
    pub alive_for_ms: i64,
    pub leaving: bool,
}

#[derive(Debug, Default)]
pub(crate) struct ExecutorRegistry {
    members: Mutex<HashMap<Key, Member>>,
    wishes: watch::Sender<Wishes>,
    pub(super) roll: Mutex<Called>,
    /// Held from before the store is asked until its answer is known here, so that an older answer never
    /// replaces a newer one.
    pub(super) asking: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
pub(super) struct Called {
    pub(super) looked_at: Option<Millis>,
    pub(super) rolled_at: Option<Millis>,
    pub(super) roll: Roll,
    pub(super) died: u64,
}

#[derive(Debug)]
struct Member {
    profile: Profile,
    seen_at: Millis,
    alive_until: Millis,
    leaving: bool,
    /// A change since the last write that is worth a write of its own.
    is_news: bool,
    written_at: Option<Millis>,
    /// It called since.
    is_unwritten: bool,
    /// The time of the last sign that was sent. The store accepts only later ones, and two calls may share a
    /// millisecond.
    sent_at: Option<Millis>,
}

impl ExecutorRegistry {
    /// Returns the executor's desired state.
    pub(crate) fn seen(&self, seen: Heartbeat, now: Millis) -> DesiredState {
        let Heartbeat { namespace, name, profile, alive_for_ms, leaving } = seen;
        let key = (namespace, name);
        let desired = self.desired(&key);
        let mut members = self.members.lock();
        let member = members.entry(key).or_insert_with(|| Member {
            profile: Profile::default(),
            seen_at: now,
            alive_until: now,
            leaving: false,
            is_news: true,
            written_at: None,
            is_unwritten: true,
            sent_at: None,
        });
        let mut profile = profile;
        if let (Some(known), Some(said)) = (&member.profile.queues, &mut profile.queues) {
            // A lease names one queue, and an executor may request several.
            said.extend(known.iter().cloned());
        }
        let running = (member.profile.running, &member.profile.holds);
        // How much it runs changes with every beat and is no news.
        let same_but_running = Profile { running: running.0, holds: running.1.clone(), ..profile.clone() };
        member.is_news |= leaving || member.profile.clone().update(same_but_running);
        member.profile.update(profile);
        member.seen_at = member.seen_at.max(now);
        member.alive_until = member.alive_until.max(now.plus(alive_for_ms));
        (member.leaving, member.is_unwritten) = (leaving, true);
        desired
    }

    fn desired(&self, key: &Key) -> DesiredState {
        self.wishes.borrow().get(key).copied().unwrap_or_default()
    }

    /// Waits until an executor's desired state is, or no longer is, to serve.
    pub(crate) async fn until(&self, namespace: &Name, name: &Name, serves: bool) {
        let key = (namespace.clone(), name.clone());
        let holds =
            |map: &Wishes| (map.get(&key).copied().unwrap_or_default() == DesiredState::Serve) == serves;
        // The sender lives as long as this value.
        let _ = self.wishes.subscribe().wait_for(holds).await;
    }

    pub(super) fn learn(&self, wished: Vec<(Name, Name, DesiredState)>) {
        let new: HashMap<Key, DesiredState> =
            wished.into_iter().map(|(a, b, desired)| ((a, b), desired)).collect();
        self.wishes.send_if_modified(|known| {
            let changed = **known != new;
            if changed {
                *known = Arc::new(new);
            }
            changed
        });
    }

    pub(super) fn learn_one(&self, key: Key, desired: DesiredState) {
        self.wishes.send_modify(|known| {
            let known = Arc::make_mut(known);
            if desired == DesiredState::Serve {
                known.remove(&key)
            } else {
                known.insert(key, desired)
            };
        });
    }

    /// Returns the signs to write. Executors that left, or were silent for long, are removed.
    pub(super) fn signs(&self, now: Millis) -> Vec<Sign> {
        let mut signs = Vec::new();
        self.members.lock().retain(|(namespace, name), member| {
            let is_time = member.written_at.is_none_or(|at| at.plus(WRITE_AFTER_MS) <= now);
            if member.is_unwritten && (member.is_news || is_time) {
                let at = member.sent_at.map_or(member.seen_at, |sent| member.seen_at.max(sent.plus(1)));
                (member.is_news, member.is_unwritten, member.written_at, member.sent_at) =
                    (false, false, Some(now), Some(at));
                signs.push(Sign {
                    namespace: namespace.clone(),
                    name: name.clone(),
                    profile: member.profile.clone(),
                    at,
                    alive_until: if member.leaving { at } else { member.alive_until },
                    leaving: member.leaving,
                });
            }
            !member.leaving && now < member.alive_until.plus(WRITE_AFTER_MS)
        });
        signs
    }

    /// Signs that could not be written are part of the next write.
    pub(super) fn unwritten(&self, signs: Vec<Sign>) {
        let mut members = self.members.lock();
        for sign in signs {
            let member = members.entry((sign.namespace, sign.name)).or_insert_with(|| Member {
                profile: sign.profile,
                seen_at: sign.at,
                alive_until: sign.alive_until,
                leaving: sign.leaving,
                is_news: true,
                written_at: None,
                is_unwritten: true,
                sent_at: None,
            });
            (member.is_news, member.is_unwritten, member.written_at) = (true, true, None);
        }
    }

    pub(crate) fn roll(&self) -> Roll {
        let called = self.roll.lock();
        Roll { died: called.died, ..called.roll }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis(1_000_000);

    fn name(text: &str) -> Name {
        Name::new(text).expect("a name")
    }

    fn seen(profile: Profile) -> Heartbeat {
        Heartbeat { namespace: name("n"), name: name("x"), profile, alive_for_ms: 30_000, leaving: false }
    }

    fn queue(queue: &str) -> Profile {
        Profile { queues: Some([queue.to_owned()].into()), ..Profile::default() }
    }

    #[test]
    fn an_executor_is_written_at_once_when_it_says_something_new_and_else_every_few_seconds() {
        let executor_registry = ExecutorRegistry::default();
        executor_registry.seen(seen(queue("a")), NOW);
        assert_eq!(executor_registry.signs(NOW).len(), 1);
        executor_registry.seen(seen(queue("a")), NOW.plus(1_000));
        executor_registry.seen(seen(Profile { running: Some(3), ..Profile::default() }), NOW.plus(2_000));
        assert_eq!(executor_registry.signs(NOW.plus(2_000)), [], "nothing new");
        executor_registry.seen(seen(queue("b")), NOW.plus(3_000));
        let news = executor_registry.signs(NOW.plus(3_000)).remove(0);
        assert_eq!(news.profile.queues, Some(["a".to_owned(), "b".to_owned()].into()));
        assert_eq!((news.at, news.alive_until), (NOW.plus(3_000), NOW.plus(33_000)));
        executor_registry.seen(seen(queue("a")), NOW.plus(4_000));
        assert_eq!(executor_registry.signs(NOW.plus(7_999)), []);
        assert_eq!(executor_registry.signs(NOW.plus(8_000)).len(), 1);
        assert_eq!(executor_registry.signs(NOW.plus(20_000)), [], "it was not seen since");
    }

    #[test]
    fn a_farewell_in_the_millisecond_of_a_write_is_told() {
        let executor_registry = ExecutorRegistry::default();
        executor_registry.seen(seen(queue("a")), NOW);
        assert_eq!(executor_registry.signs(NOW).len(), 1);
        executor_registry.seen(Heartbeat { leaving: true, ..seen(queue("a")) }, NOW);
        let reported = executor_registry.signs(NOW).remove(0);
        assert_eq!((reported.leaving, reported.at), (true, NOW.plus(1)), "later than what was told before");
    }

    #[test]
    fn what_could_not_be_written_goes_with_the_next_write() {
        let executor_registry = ExecutorRegistry::default();
        executor_registry.seen(Heartbeat { leaving: true, ..seen(queue("a")) }, NOW);
        let signs = executor_registry.signs(NOW);
        assert!(signs[0].leaving);
        assert_eq!(executor_registry.signs(NOW.plus(9_000)), [], "it has left");
        executor_registry.unwritten(signs.clone());
        assert_eq!(executor_registry.signs(NOW.plus(9_000)), signs);
    }

    #[test]
    fn a_wish_is_known_at_once_and_forgotten_when_it_is_gone() {
        let executor_registry = ExecutorRegistry::default();
        assert_eq!(executor_registry.seen(seen(queue("a")), NOW), DesiredState::Serve);
        executor_registry.learn_one((name("n"), name("x")), DesiredState::Quiet);
        assert_eq!(executor_registry.seen(seen(queue("a")), NOW), DesiredState::Quiet);
        executor_registry.learn(vec![(name("n"), name("x"), DesiredState::Drain)]);
        assert_eq!(executor_registry.seen(seen(queue("a")), NOW), DesiredState::Drain);
        executor_registry.learn(Vec::new());
        assert_eq!(executor_registry.seen(seen(queue("a")), NOW), DesiredState::Serve);
    }
}
