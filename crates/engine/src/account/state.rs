//! The account as last read, and which callers it is good enough for. Reads nothing itself.

use parking_lot::Mutex;
use punctual_contract::{
    Error,
    store::{Books, PendingBytes, Tally},
};
use punctual_domain::{
    name::{Name, QueueKey},
    state::State,
};
use std::{cmp::Ordering, collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{sync, time::Instant};

/// The maximum age of an account for callers that accept an older one.
const KEPT_FOR: Duration = Duration::from_secs(1);
/// The maximum age as a multiple of the duration of the read. With very many queues, reading takes a twentieth of the
/// time at most.
const KEPT_FACTOR: u32 = 20;

/// The account at one instant, found by queue and by namespace.
#[derive(Debug, Default)]
pub struct Account {
    pub(super) books: Books,
    states: BTreeMap<State, i64>,
    /// Sorted.
    pub(super) ready: Vec<(Arc<QueueKey>, usize)>,
}

impl Account {
    #[must_use]
    pub fn new(mut books: Books, ready: Vec<(Arc<QueueKey>, usize)>) -> Self {
        // Mostly they are.
        books.tallies.sort_by(|a, b| a.queue.cmp(&b.queue));
        books.pending_bytes.sort_by(|a, b| a.queue.cmp(&b.queue));
        let mut all = ready;
        all.sort_unstable();
        let mut ready: Vec<(Arc<QueueKey>, usize)> = Vec::with_capacity(all.len());
        for (queue, tasks) in all {
            match ready.last_mut().filter(|one| one.0 == queue) {
                Some(one) => one.1 += tasks,
                None => ready.push((queue, tasks)),
            }
        }
        let mut states = BTreeMap::new();
        for one in &books.tallies {
            *states.entry(one.state).or_default() += one.tasks;
        }
        Self { books, states, ready }
    }

    #[must_use]
    pub const fn books(&self) -> &Books {
        &self.books
    }

    /// The states of all queues.
    #[must_use]
    pub const fn states(&self) -> &BTreeMap<State, i64> {
        &self.states
    }

    #[must_use]
    pub fn of_queue(&self, queue: &QueueKey) -> &[Tally] {
        range(&self.books.tallies, |one| one.queue.cmp(queue))
    }

    #[must_use]
    pub fn of_namespace(&self, name: &Name) -> &[Tally] {
        range(&self.books.tallies, |one| one.queue.namespace.cmp(name))
    }

    #[must_use]
    pub fn bytes_of_namespace(&self, name: &Name) -> &[PendingBytes] {
        range(&self.books.pending_bytes, |one| one.queue.namespace.cmp(name))
    }

    /// The number of ready tasks in the lines of this engine.
    #[must_use]
    pub fn ready(&self, queue: &QueueKey) -> usize {
        range(&self.ready, |one| (*one.0).cmp(queue)).first().map_or(0, |one| one.1)
    }

    /// The non-empty queues of a namespace; a queue may occur twice.
    pub fn queues(&self, namespace: &Name) -> impl Iterator<Item = &QueueKey> {
        let ready = range(&self.ready, |one| one.0.namespace.cmp(namespace));
        self.of_namespace(namespace).iter().map(|one| &one.queue).chain(ready.iter().map(|one| &*one.0))
    }

    #[must_use]
    pub fn knows(&self, queue: &QueueKey) -> bool {
        !self.of_queue(queue).is_empty() || self.ready(queue) > 0
    }
}

/// The equal elements of a sorted list.
fn range<T>(all: &[T], compare: impl Fn(&T) -> Ordering) -> &[T] {
    let begin = all.partition_point(|one| compare(one) == Ordering::Less);
    let rest = all.get(begin..).unwrap_or_default();
    let length = rest.partition_point(|one| compare(one) == Ordering::Equal);
    rest.get(..length).unwrap_or_default()
}

#[derive(Debug, Default)]
pub(crate) struct Accounts {
    pub(super) last: Mutex<Option<Last>>,
    /// Held by the caller that reads.
    pub(super) reading: Arc<sync::Mutex<()>>,
}

#[derive(Clone, Debug)]
pub(super) struct Last {
    pub(super) began: Instant,
    pub(super) done: Instant,
    pub(super) account: Result<Arc<Account>, Error>,
}

impl Last {
    pub(super) fn is_good(&self, asked_at: Instant, max_age: Duration) -> bool {
        let kept_for = KEPT_FOR.max(self.pause()).min(max_age);
        match &self.account {
            Ok(_) => self.began > asked_at || asked_at - self.began < kept_for,
            // Callers that waited for this failed read need not wait for another.
            Err(_) => self.done > asked_at,
        }
    }

    /// Good enough while the next one is read.
    pub(super) fn is_good_meanwhile(&self, asked_at: Instant, max_age: Duration) -> bool {
        self.account.is_ok() && asked_at - self.began < (self.pause() * 2).min(max_age)
    }

    fn pause(&self) -> Duration {
        (self.done - self.began) * KEPT_FACTOR
    }
}

impl Accounts {
    pub(super) fn last(&self, is_good: impl Fn(&Last) -> bool) -> Option<Result<Arc<Account>, Error>> {
        self.last.lock().as_ref().filter(|one| is_good(one)).map(|one| one.account.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(namespace: &str, name: &str) -> QueueKey {
        QueueKey { namespace: Name::new(namespace).unwrap(), queue: Name::new(name).unwrap() }
    }

    fn tally(namespace: &str, name: &str, state: State, tasks: i64) -> Tally {
        Tally { queue: queue(namespace, name), state, tasks }
    }

    #[test]
    fn what_a_queue_and_a_namespace_hold_is_found_in_whatever_order_it_was_told() {
        let tallies = vec![
            tally("shop", "b", State::Ready, 1),
            tally("shop", "a", State::Ready, 2),
            tally("default", "z", State::Dead, 3),
            tally("shop", "b", State::Scheduled, 4),
        ];
        let ready = [("shop", "b", 5), ("a", "a", 6), ("shop", "b", 7)];
        let ready = ready.map(|one| (Arc::new(queue(one.0, one.1)), one.2)).to_vec();
        let account = Account::new(Books { tallies, ..Books::default() }, ready);
        let tasks = |all: &[Tally]| all.iter().map(|one| one.tasks).collect::<Vec<_>>();
        assert_eq!(tasks(account.of_queue(&queue("shop", "b"))), [1, 4]);
        assert_eq!(tasks(account.of_namespace(&Name::new("shop").unwrap())), [2, 1, 4]);
        assert_eq!(tasks(account.of_queue(&queue("shop", "c"))), [0_i64; 0]);
        assert_eq!((account.ready(&queue("shop", "b")), account.ready(&queue("shop", "a"))), (12, 0));
        assert!(account.knows(&queue("a", "a")) && !account.knows(&queue("a", "b")));
        let named: Vec<&str> =
            account.queues(&Name::new("shop").unwrap()).map(|one| one.queue.as_str()).collect();
        assert_eq!(named, ["a", "b", "b", "b"]);
        assert_eq!(account.states()[&State::Ready], 3);
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_as_old_as_is_taken_and_no_older() {
        let ms = Duration::from_millis;
        let began = Instant::now() + ms(10_000);
        let last = |took: Duration| Last { began, done: began + took, account: Ok(Arc::default()) };
        let quick = last(ms(1));
        assert!(quick.is_good(began - ms(1), Duration::ZERO), "asked for before it was read");
        assert!(!quick.is_good(began, Duration::ZERO) && !quick.is_good(began + ms(1), Duration::ZERO));
        assert!(quick.is_good(began + ms(999), ms(5_000)) && !quick.is_good(began + ms(1_000), ms(5_000)));
        assert!(!quick.is_good(began + ms(200), ms(200)));
        let slow = last(ms(200));
        assert!(slow.is_good(began + ms(3_999), ms(10_000)) && !slow.is_good(began + ms(4_000), ms(10_000)));
        assert!(!slow.is_good(began + ms(2_000), ms(2_000)), "a caller's word counts");
        let meanwhile = |one: &Last, age, max_age| one.is_good_meanwhile(began + ms(age), ms(max_age));
        assert!(meanwhile(&slow, 7_999, 10_000) && !meanwhile(&slow, 8_000, 10_000));
        assert!(meanwhile(&slow, 4_999, 5_000) && !meanwhile(&slow, 5_000, 5_000) && !meanwhile(&slow, 0, 0));
        assert!(!meanwhile(&quick, 1_000, 10_000), "what is read at once is waited for");
        let failed = Last { account: Err(Error::did_not_happen("read", "away")), ..slow };
        assert!(!meanwhile(&failed, 1, 10_000));
        assert!(
            failed.is_good(began + ms(199), Duration::ZERO) && !failed.is_good(began + ms(200), ms(9_000))
        );
    }
}
