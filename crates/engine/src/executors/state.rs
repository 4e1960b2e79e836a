//! Executors as they called, and what is wished of them, as far as this engine knows. Asks no store.

use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_domain::{
    executor::{Profile, Roll, Sign, Wish},
    name::Name,
    time::Millis,
};
use std::sync::Arc;
use tokio::sync::watch;

/// An executor that says the same again is written this often.
const WRITE_AFTER_MS: i64 = 5_000;

pub(super) type Key = (Name, Name);
type Wishes = Arc<HashMap<Key, Wish>>;

/// A call of an executor.
#[derive(Clone, Debug)]
pub struct Seen {
    pub namespace: Name,
    pub name: Name,
    pub profile: Profile,
    /// Silent for this long, it counts as dead.
    pub alive_for_ms: i64,
    pub leaving: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Roster {
    members: Mutex<HashMap<Key, Member>>,
    wishes: watch::Sender<Wishes>,
    pub(super) roll: Mutex<Called>,
    /// Held from before the store is asked until what it answered is known here: an older answer never takes the place
    /// of a newer one.
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
    /// Something was said since the last write that is worth one of its own.
    is_news: bool,
    written_at: Option<Millis>,
    /// It called since.
    is_unwritten: bool,
    /// Of the last sign that was sent. The store takes only later ones, and two calls may come in one millisecond.
    sent_at: Option<Millis>,
}

impl Roster {
    /// Answers what is wished of the executor.
    pub(crate) fn seen(&self, seen: Seen, now: Millis) -> Wish {
        let Seen { namespace, name, profile, alive_for_ms, leaving } = seen;
        let key = (namespace, name);
        let wish = self.wish(&key);
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
            // A lease names one queue, and an executor may ask for several.
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
        wish
    }

    fn wish(&self, key: &Key) -> Wish {
        self.wishes.borrow().get(key).copied().unwrap_or_default()
    }

    /// Waits until what is wished of an executor is, or is no more, to serve.
    pub(crate) async fn until(&self, namespace: &Name, name: &Name, serves: bool) {
        let key = (namespace.clone(), name.clone());
        let holds = |map: &Wishes| (map.get(&key).copied().unwrap_or_default() == Wish::Serve) == serves;
        // The sender lives as long as this value.
        let _ = self.wishes.subscribe().wait_for(holds).await;
    }

    pub(super) fn learn(&self, wished: Vec<(Name, Name, Wish)>) {
        let new: HashMap<Key, Wish> = wished.into_iter().map(|(a, b, wish)| ((a, b), wish)).collect();
        self.wishes.send_if_modified(|known| {
            let changed = **known != new;
            if changed {
                *known = Arc::new(new);
            }
            changed
        });
    }

    pub(super) fn learn_one(&self, key: Key, wish: Wish) {
        self.wishes.send_modify(|known| {
            let known = Arc::make_mut(known);
            if wish == Wish::Serve {
                known.remove(&key)
            } else {
                known.insert(key, wish)
            };
        });
    }

    /// What is to be written. Those that left, or were not seen for long, are known no more.
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

    /// What could not be written goes with the next write.
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

    fn seen(profile: Profile) -> Seen {
        Seen { namespace: name("n"), name: name("x"), profile, alive_for_ms: 30_000, leaving: false }
    }

    fn queue(queue: &str) -> Profile {
        Profile { queues: Some([queue.to_owned()].into()), ..Profile::default() }
    }

    #[test]
    fn an_executor_is_written_at_once_when_it_says_something_new_and_else_every_few_seconds() {
        let roster = Roster::default();
        roster.seen(seen(queue("a")), NOW);
        assert_eq!(roster.signs(NOW).len(), 1);
        roster.seen(seen(queue("a")), NOW.plus(1_000));
        roster.seen(seen(Profile { running: Some(3), ..Profile::default() }), NOW.plus(2_000));
        assert_eq!(roster.signs(NOW.plus(2_000)), [], "nothing new");
        roster.seen(seen(queue("b")), NOW.plus(3_000));
        let news = roster.signs(NOW.plus(3_000)).remove(0);
        assert_eq!(news.profile.queues, Some(["a".to_owned(), "b".to_owned()].into()));
        assert_eq!((news.at, news.alive_until), (NOW.plus(3_000), NOW.plus(33_000)));
        roster.seen(seen(queue("a")), NOW.plus(4_000));
        assert_eq!(roster.signs(NOW.plus(7_999)), []);
        assert_eq!(roster.signs(NOW.plus(8_000)).len(), 1);
        assert_eq!(roster.signs(NOW.plus(20_000)), [], "it was not seen since");
    }

    #[test]
    fn a_farewell_in_the_millisecond_of_a_write_is_told() {
        let roster = Roster::default();
        roster.seen(seen(queue("a")), NOW);
        assert_eq!(roster.signs(NOW).len(), 1);
        roster.seen(Seen { leaving: true, ..seen(queue("a")) }, NOW);
        let told = roster.signs(NOW).remove(0);
        assert_eq!((told.leaving, told.at), (true, NOW.plus(1)), "later than what was told before");
    }

    #[test]
    fn what_could_not_be_written_goes_with_the_next_write() {
        let roster = Roster::default();
        roster.seen(Seen { leaving: true, ..seen(queue("a")) }, NOW);
        let signs = roster.signs(NOW);
        assert!(signs[0].leaving);
        assert_eq!(roster.signs(NOW.plus(9_000)), [], "it has left");
        roster.unwritten(signs.clone());
        assert_eq!(roster.signs(NOW.plus(9_000)), signs);
    }

    #[test]
    fn a_wish_is_known_at_once_and_forgotten_when_it_is_gone() {
        let roster = Roster::default();
        assert_eq!(roster.seen(seen(queue("a")), NOW), Wish::Serve);
        roster.learn_one((name("n"), name("x")), Wish::Quiet);
        assert_eq!(roster.seen(seen(queue("a")), NOW), Wish::Quiet);
        roster.learn(vec![(name("n"), name("x"), Wish::Drain)]);
        assert_eq!(roster.seen(seen(queue("a")), NOW), Wish::Drain);
        roster.learn(Vec::new());
        assert_eq!(roster.seen(seen(queue("a")), NOW), Wish::Serve);
    }
}
