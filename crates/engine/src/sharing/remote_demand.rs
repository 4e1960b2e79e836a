//! Engines that receive demands, and the queues for which they announced waiting tasks; and this engine's
//! unanswered demands. Keeps no task, and asks no engine.

use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::ownership::Passed;
use punctual_domain::name::QueueKey;
use std::{
    cmp::Reverse,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};
use tokio::{sync::oneshot, time::Instant};

/// An announcement is trusted for this long: it is repeated each second while it holds.
const BELIEVED_FOR: Duration = Duration::from_millis(2_500);

#[derive(Debug, Default)]
pub(crate) struct Elsewhere {
    /// The time of the last announcement, by queue and engine.
    ready: Mutex<HashMap<QueueKey, HashMap<String, Instant>>>,
    /// The number of further tasks that an engine's executors accept, by queue and engine.
    wanted: Mutex<HashMap<QueueKey, HashMap<String, PlacesWanted>>>,
    /// The last announcement of each engine that it receives demands.
    heard: Mutex<HashMap<String, Instant>>,
    /// The demands by number.
    demands: Mutex<HashMap<u64, oneshot::Sender<Passed>>>,
    last_number: AtomicU64,
}

#[derive(Debug)]
struct PlacesWanted {
    places: usize,
    said_at: Instant,
}

/// A demand that waits for its answer, until it is dropped.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    all: &'a Elsewhere,
    pub(crate) number: u64,
    pub(crate) answer: oneshot::Receiver<Passed>,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.all.demands.lock().remove(&self.number);
    }
}

impl Elsewhere {
    pub(crate) fn says_hello(&self, engine: String) {
        self.heard.lock().insert(engine, Instant::now());
    }

    /// True if the engine was not received recently: it does not pass its tasks, or does not receive demands.
    pub(crate) fn is_deaf_to(&self, engine: &str) -> bool {
        !self.heard.lock().get(engine).is_some_and(is_believed)
    }

    pub(crate) fn has_ready(&self, engine: String, queue: &QueueKey) {
        let mut ready = self.ready.lock();
        match ready.get_mut(queue) {
            Some(engines) => drop(engines.insert(engine, Instant::now())),
            None => drop(ready.insert(queue.clone(), HashMap::from([(engine, Instant::now())]))),
        }
    }

    /// Executors at an engine accept this many tasks of the queue, as of now.
    pub(crate) fn wants(&self, engine: String, queue: QueueKey, places: usize) {
        let wanted = PlacesWanted { places, said_at: Instant::now() };
        self.wanted.lock().entry(queue).or_default().insert(engine, wanted);
    }

    pub(crate) fn is_something_wanted(&self) -> bool {
        !self.wanted.lock().is_empty()
    }

    /// Engines that together accept this many tasks of the queue, and how many each; the one that accepts
    /// most first. Their numbers are reduced until their next announcement.
    pub(crate) fn share_out(&self, queue: &QueueKey, count: usize) -> Vec<(String, usize)> {
        let mut wanted = self.wanted.lock();
        let Some(engines) = wanted.get_mut(queue) else { return Vec::new() };
        let mut engines: Vec<_> =
            engines.iter_mut().filter(|(_, wanted)| is_believed(&wanted.said_at)).collect();
        engines.sort_unstable_by_key(|(_, wanted)| Reverse(wanted.places));
        let (mut shares, mut left) = (Vec::new(), count);
        for (engine, wanted) in engines {
            let share = left.min(wanted.places);
            if share == 0 {
                break;
            }
            (wanted.places, left) = (wanted.places - share, left - share);
            shares.push((engine.clone(), share));
        }
        shares
    }

    /// The engine has no more tasks of the queue, or does not answer.
    pub(crate) fn has_none(&self, engine: &str, queue: &QueueKey) {
        let mut ready = self.ready.lock();
        let Some(engines) = ready.get_mut(queue) else { return };
        engines.remove(engine);
        if engines.is_empty() {
            ready.remove(queue);
        }
    }

    /// Tasks of the queue wait at another engine.
    pub(crate) fn is_known(&self, queue: &QueueKey) -> bool {
        let ready = self.ready.lock();
        ready.get(queue).is_some_and(|engines| engines.values().any(is_believed))
    }

    /// Engines at which tasks of the queue wait.
    pub(crate) fn engines(&self, queue: &QueueKey) -> Vec<String> {
        let mut ready = self.ready.lock();
        let Some(engines) = ready.get_mut(queue) else { return Vec::new() };
        engines.retain(|_, said_at| is_believed(said_at));
        let names = engines.keys().cloned().collect();
        if engines.is_empty() {
            ready.remove(queue);
        }
        names
    }

    /// Removes old announcements.
    pub(crate) fn forget(&self) {
        self.ready.lock().retain(|_, engines| engines.values().any(is_believed));
        self.wanted.lock().retain(|_, engines| engines.values().any(|wanted| is_believed(&wanted.said_at)));
        self.heard.lock().retain(|_, said_at| is_believed(said_at));
    }

    pub(crate) fn ask(&self) -> Asked<'_> {
        let (gives, answer) = oneshot::channel();
        let number = self.last_number.fetch_add(1, Relaxed) + 1;
        self.demands.lock().insert(number, gives);
        Asked { all: self, number, answer }
    }

    /// Delivers an answer to its caller. An answer without a caller is returned.
    pub(crate) fn answer(&self, passed: Passed) -> Option<Passed> {
        let asked = self.demands.lock().remove(&passed.number);
        match asked {
            Some(gives) => gives.send(passed).err(),
            None => Some(passed),
        }
    }
}

fn is_believed(said_at: &Instant) -> bool {
    said_at.elapsed() < BELIEVED_FOR
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_domain::name::Name;

    fn queue(name: &str) -> QueueKey {
        QueueKey { namespace: Name::default_namespace(), queue: Name::new(name).unwrap() }
    }

    fn passed(number: u64) -> Passed {
        let (to, from) = ("a".to_owned(), "b".to_owned());
        Passed { to, from, number, queue: queue("q"), entries: vec![], granted_at: None, has_more: false }
    }

    #[tokio::test(start_paused = true)]
    async fn what_an_engine_says_is_believed_until_it_is_over_or_too_old() {
        let elsewhere = Elsewhere::default();
        elsewhere.has_ready("a".to_owned(), &queue("q"));
        elsewhere.has_ready("b".to_owned(), &queue("q"));
        elsewhere.has_none("a", &queue("q"));
        assert_eq!(elsewhere.engines(&queue("q")), ["b"]);
        assert!(elsewhere.is_known(&queue("q")) && !elsewhere.is_known(&queue("other")));
        tokio::time::advance(BELIEVED_FOR).await;
        assert!(!elsewhere.is_known(&queue("q")));
        elsewhere.forget();
        assert!(elsewhere.ready.lock().is_empty());
        elsewhere.says_hello("a".to_owned());
        assert!(!elsewhere.is_deaf_to("a") && elsewhere.is_deaf_to("b"));
        tokio::time::advance(BELIEVED_FOR).await;
        assert!(elsewhere.is_deaf_to("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_go_to_who_takes_most_and_to_nobody_who_has_not_said_so_lately() {
        let elsewhere = Elsewhere::default();
        assert!(!elsewhere.is_something_wanted());
        elsewhere.wants("a".to_owned(), queue("q"), 3);
        elsewhere.wants("b".to_owned(), queue("q"), 5);
        assert_eq!(elsewhere.share_out(&queue("other"), 9), []);
        assert_eq!(elsewhere.share_out(&queue("q"), 6), [("b".to_owned(), 5), ("a".to_owned(), 1)]);
        assert_eq!(elsewhere.share_out(&queue("q"), 6), [("a".to_owned(), 2)]);
        assert_eq!(elsewhere.share_out(&queue("q"), 6), [], "until they say so again");
        elsewhere.wants("a".to_owned(), queue("q"), 3);
        tokio::time::advance(BELIEVED_FOR).await;
        assert_eq!(elsewhere.share_out(&queue("q"), 6), []);
        elsewhere.forget();
        assert!(!elsewhere.is_something_wanted());
    }

    #[tokio::test]
    async fn an_answer_goes_to_the_caller_that_asked_and_comes_back_when_it_has_gone() {
        let elsewhere = Elsewhere::default();
        let (mut one, other) = (elsewhere.ask(), elsewhere.ask());
        assert_eq!(elsewhere.answer(passed(one.number)), None);
        assert_eq!((&mut one.answer).await, Ok(passed(one.number)));
        let number = other.number;
        drop(other);
        assert_eq!(elsewhere.answer(passed(number)), Some(passed(number)));
        drop(one);
        assert!(elsewhere.demands.lock().is_empty());
    }
}
