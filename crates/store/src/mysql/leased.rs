//! What this store has handed over and nobody has reported on yet, as its commit left it: a success is written without
//! a look at the rows before it, which costs as much as the move. Only ever a guess, which the guard of the move has to
//! confirm for every row (state, fence); if it does not, all is undone and the rows are looked at. So it must hold
//! nothing that may change while a task keeps its state and its fence.

use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::store::{Assignment, Change, EndedAttempt, Step};
use punctual_domain::{name::QueueKey, place::TaskRef, time::Millis};

/// More is forgotten, and looked at: about 10 MiB.
const LEASES_MAX: usize = 100_000;
/// So many times at most nothing is guessed after a wrong guess: executors that report their start elsewhere make every
/// guess about them wrong. After the first it is once, after each further one twice as often, after each right one half.
const PAUSE_MAX: u32 = 32;

/// A task that was handed over and has not begun, as far as is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownLease {
    /// Where its row is.
    pub(crate) place: TaskRef,
    pub(crate) queue: QueueKey,
    pub(crate) fence: i64,
    pub(crate) attempt: i64,
    /// As `lease_since` has it.
    since: Millis,
    traceparent: Option<String>,
}

impl KnownLease {
    /// By a success.
    pub(crate) fn ended(&self) -> EndedAttempt {
        let (queue, traceparent) = (self.queue.clone(), self.traceparent.clone());
        EndedAttempt { queue, leased_since: self.since, traceparent }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Leased(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    leases: HashMap<i64, KnownLease>,
    /// Guesses to be left out.
    pause: u32,
    /// How many of those that were made lately were wrong.
    wrong: u32,
}

impl Leased {
    /// Of a transaction that was committed. `now`: as it was handed over.
    pub(crate) fn keep<'a>(&self, made: impl Iterator<Item = &'a Assignment>, now: Millis) {
        let mut known = self.0.lock();
        for it in made {
            if known.leases.len() >= LEASES_MAX {
                known.leases.clear();
            }
            let place = TaskRef { due_at: it.due_at, ..it.place };
            let (queue, attempt) = (it.queue.clone(), i64::from(it.attempt));
            let (since, traceparent) = (it.fired_at.max(now), it.traceparent.clone());
            let lease = KnownLease { place, queue, fence: it.fence, attempt, since, traceparent };
            known.leases.insert(place.id, lease);
        }
    }

    /// What may have changed in another way than a hand-over.
    pub(crate) fn forget(&self, ids: impl Iterator<Item = i64>) {
        let mut known = self.0.lock();
        for it in ids {
            known.leases.remove(&it);
        }
    }

    /// The leases of those steps that are successes of such, by their ids.
    pub(crate) fn of<'s>(&self, steps: impl Iterator<Item = &'s Step>) -> HashMap<i64, KnownLease> {
        let known = self.0.lock();
        steps.filter_map(|it| Some((it.place.id, known.lease(it)?))).collect()
    }

    /// To be asked once for each transaction that could begin with a guess.
    pub(crate) fn may_guess(&self) -> bool {
        let mut known = self.0.lock();
        let may = known.pause == 0;
        known.pause = known.pause.saturating_sub(1);
        may
    }

    /// A guess was wrong.
    pub(crate) fn doubt(&self) {
        let mut known = self.0.lock();
        known.pause = 1 << known.wrong;
        known.wrong = (known.wrong + 1).min(PAUSE_MAX.ilog2());
    }

    /// A guess was right.
    pub(crate) fn trust(&self) {
        let mut known = self.0.lock();
        known.wrong = known.wrong.saturating_sub(1);
    }
}

impl Known {
    fn lease(&self, step: &Step) -> Option<KnownLease> {
        let lease = self.leases.get(&step.place.id)?;
        let is_it = lease.place.partition == step.place.partition && step.fence == Some(lease.fence);
        (is_it && matches!(step.change, Change::Succeed { .. })).then(|| lease.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_domain::{
        content::Content,
        history::Note,
        name::Name,
        place::Partition,
        task::{Priority, TaskResult},
    };

    fn made(id: i64, fence: i64) -> Assignment {
        let name = Name::default_namespace;
        Assignment {
            place: TaskRef { partition: Partition(1), due_at: Millis(5), id },
            queue: QueueKey { namespace: name(), queue: name() },
            task_id: id,
            task_version: 0,
            fence,
            attempt: 1,
            max_attempts: 3,
            kind: name(),
            priority: Priority::default(),
            payload: Content { is_json: true, is_outside: false, bytes: Vec::new() },
            execute_at: Millis(5),
            due_at: Millis(7),
            fired_at: Millis(7),
            lease_until: Millis(99),
            timeout_ms: None,
            labels: std::collections::BTreeMap::new(),
            traceparent: None,
        }
    }

    fn step(id: i64, fence: Option<i64>, change: Change) -> Step {
        let place = TaskRef { partition: Partition(1), due_at: Millis(5), id };
        Step { place, fence, change, note: Note::default(), fired_at: None }
    }

    fn succeed() -> Change {
        let result = TaskResult { status_code: 0, status_msg: String::new(), content: None };
        Change::Succeed { result, keep_until: Millis(100) }
    }

    #[test]
    fn successes_of_what_was_handed_over_are_guessed_where_the_row_is_now() {
        let leased = Leased::default();
        leased.keep([made(1, 2), made(2, 2)].iter(), Millis(7));
        let (one, two) = (step(1, Some(2), succeed()), step(2, Some(2), succeed()));
        let guessed = leased.of([&two, &one].into_iter());
        assert_eq!([1, 2].map(|it| (guessed[&it].place.id, guessed[&it].place.due_at.0)), [(1, 7), (2, 7)]);
        let others = [
            step(3, Some(2), succeed()),
            step(1, Some(1), succeed()),
            step(1, None, succeed()),
            step(1, Some(2), Change::Release),
        ];
        assert!(leased.of(others.iter()).is_empty());
        leased.forget([1].into_iter());
        let known: Vec<i64> = leased.of([&one, &two].into_iter()).into_keys().collect();
        assert_eq!(known, [2]);
    }

    #[test]
    fn after_wrong_guesses_none_is_made_for_a_while() {
        let leased = Leased::default();
        assert!(leased.may_guess());
        let pause_of = |_| {
            leased.doubt();
            (0..).take_while(|_| !leased.may_guess()).count()
        };
        assert_eq!([0; 7].map(pause_of), [1, 2, 4, 8, 16, 32, PAUSE_MAX as usize]);
        leased.trust();
        leased.trust();
        assert_eq!(pause_of(0), 8);
        (0..9).for_each(|_| leased.trust());
        assert_eq!(pause_of(0), 1);
    }

    #[test]
    fn it_does_not_grow_without_end() {
        let leased = Leased::default();
        let many = i64::try_from(LEASES_MAX).unwrap() + 1;
        (0..many).for_each(|it| leased.keep(std::iter::once(&made(it, 2)), Millis(7)));
        assert_eq!(leased.0.lock().leases.len(), 1);
    }
}
