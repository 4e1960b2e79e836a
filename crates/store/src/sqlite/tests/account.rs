//! Whatever happens, in whatever order: the books equal the rows, and a task is in the indexes of its state.

use super::{LATER, NOW, memory, now, numbered};
use crate::{
    SqliteStore,
    sqlite::{Runs, template},
};
use proptest::prelude::*;
use punctual_contract::{
    Store as _,
    store::{Applied, Beat, Change, Grant, Scan, Step},
};
use punctual_domain::{
    history::Note,
    name::Name,
    place::Partition,
    state::{Event, TRANSITIONS},
    task::{Content, NewTask, Task, TaskResult},
    time::Millis,
};

#[derive(Clone, Debug)]
enum Op {
    Insert { id: i64, version: i64, queue: u8 },
    Move { nth: usize, event: usize },
    Dispatch { nth: usize },
    Beat { nth: usize },
    Retire { limit: usize },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0..40_i64, 0..3_i64, 0..3_u8).prop_map(|(id, version, queue)| Op::Insert { id, version, queue }),
        8 => (0..100_usize, 0..TRANSITIONS.len()).prop_map(|(nth, event)| Op::Move { nth, event }),
        4 => (0..100_usize).prop_map(|nth| Op::Dispatch { nth }),
        2 => (0..100_usize).prop_map(|nth| Op::Beat { nth }),
        1 => (1..4_usize).prop_map(|limit| Op::Retire { limit }),
    ]
}

/// Everything an event needs, or `None` if it is not made by `apply`.
fn change(event: Event) -> Option<Change> {
    let (result, keep_until) = (TaskResult::default(), NOW);
    Some(match event {
        Event::Replace | Event::Dispatch => return None,
        Event::Unblock => Change::Unblock,
        Event::Claim => Change::Claim,
        Event::Reclaim => Change::Reclaim,
        Event::HandBack => Change::HandBack,
        Event::Fire => Change::Fire { fired_at: NOW },
        Event::FailDispatch => Change::FailDispatch,
        Event::Release => Change::Release,
        Event::Start => Change::Start,
        Event::Succeed => Change::Succeed { result, keep_until },
        Event::Retry => Change::Retry { due_at: LATER, result: Some(result) },
        Event::Snooze => Change::Snooze { due_at: LATER },
        Event::Bury => Change::Bury { result: None, keep_until },
        Event::Expire => Change::Expire { keep_until },
        Event::DeadLetter => Change::DeadLetter { keep_until },
        Event::Cancel => Change::Cancel { keep_until },
        Event::Withdraw => Change::Withdraw { keep_until },
        Event::Abort => Change::Abort { keep_until },
        Event::Reschedule => {
            Change::Reschedule { execute_at: Some(LATER), priority: None, payload: None, queue: None }
        }
        Event::Amend => {
            let (max_attempts, priority) = (Some(9), None);
            let payload = Some(Content::binary(vec![0; 11]));
            Change::Amend { max_attempts, priority, payload, timeout_ms: None, retry: None }
        }
        Event::Redrive => Change::Redrive { execute_at: LATER },
        Event::Retire => Change::Retire { keep_until },
    })
}

/// The store, and the places of all that was ever in it.
struct World {
    store: SqliteStore,
    tasks: Vec<Task>,
}

impl World {
    fn nth(&self, nth: usize) -> Option<Task> {
        let task = self.tasks.get(nth % self.tasks.len().max(1))?;
        now(self.store.read(&[task.place])).unwrap().remove(0)
    }

    fn run(&mut self, op: &Op) {
        match op {
            Op::Insert { id, version, queue } => self.insert(*id, *version, *queue),
            Op::Move { nth, event } => self.step(*nth, TRANSITIONS[*event].event),
            Op::Dispatch { nth } => self.dispatch(*nth),
            Op::Beat { nth } => self.beat(*nth),
            Op::Retire { limit } => drop(now(self.store.retire(NOW, LATER, *limit)).unwrap()),
        }
    }

    fn insert(&mut self, id: i64, version: i64, queue: u8) {
        let mut ask = NewTask { task_id: (id > 0).then_some(id), ..numbered(id, version) };
        ask.queue.queue = Name::new(&format!("q{queue}")).unwrap();
        self.tasks.extend(
            now(self.store.insert(vec![ask], "test", NOW)).unwrap().into_iter().map(|inserted| inserted.task),
        );
    }

    /// The move happens exactly if the table has it, and the row says so.
    fn step(&self, nth: usize, event: Event) {
        let (Some(task), Some(change)) = (self.nth(nth), change(event)) else { return };
        let note = Note { by: "test".to_owned(), ..Note::default() };
        let step =
            Step { place: task.place, fence: Some(task.fence), change, note, fired_at: None, known: None };
        let applied = now(self.store.apply(vec![step], NOW)).unwrap().remove(0).applied;
        let after = self.nth(nth).unwrap();
        match task.state.after(event) {
            Ok(target) => {
                assert_eq!((applied, after.state), (Applied::Moved, target));
                let entry = after.history.last().unwrap();
                assert_eq!(
                    (entry.event, entry.from, entry.attempt),
                    (Some(event), Some(task.state), after.attempt)
                );
                assert_eq!(after.place, task.place);
            }
            Err(_) => assert_eq!((applied, after), (Applied::Lost, task)),
        }
    }

    fn dispatch(&self, nth: usize) {
        let Some(task) = self.nth(nth) else { return };
        let executor = "executor".to_owned();
        let grant = Grant {
            place: task.place,
            fence: task.fence,
            fired_at: NOW,
            lease_until: LATER,
            executor,
            namespace: punctual_domain::name::Name::default_namespace(),
            has_begun: false,
            known: None,
        };
        let given = now(self.store.dispatch(vec![grant], NOW)).unwrap().remove(0).made();
        assert_eq!(given.is_some(), task.state.after(Event::Dispatch).is_ok());
        assert!(given.is_none_or(|lease| lease.fence > task.fence && lease.attempt == task.attempt + 1));
    }

    fn beat(&self, nth: usize) {
        let Some(task) = self.nth(nth) else { return };
        let executor = "executor".to_owned();
        let (place, fence) = (task.place, task.fence);
        let beat = Beat {
            place,
            fence,
            lease_until: LATER,
            progress: None,
            log: None,
            executor,
            handed_over_at: None,
        };
        drop(now(self.store.extend(vec![beat], NOW)).unwrap());
    }

    fn check(&self) {
        let books = now(self.store.books()).unwrap();
        assert_eq!(books, now(self.store.audit()).unwrap());
        assert_eq!(books.unaccounted(), 0);
        let in_class = |class: fn(&punctual_contract::store::Tally) -> bool| -> i64 {
            books.tallies.iter().filter(|tally| class(tally)).map(|tally| tally.tasks).sum()
        };
        let scan = |partition| {
            let scan =
                Scan { partition: Partition(partition), until: Millis::MAX, after: None, limit: 10_000 };
            now(self.store.scan(scan)).unwrap().len()
        };
        let waiting: usize = (0..self.store.partitions()).map(scan).sum();
        assert_eq!(i64::try_from(waiting).unwrap(), in_class(|tally| tally.state.is_waiting()));
        let leased = now(self.store.leases_ended(Millis::MAX, 10_000)).unwrap().len();
        assert_eq!(i64::try_from(leased).unwrap(), in_class(|tally| tally.state.is_in_flight()));
    }

    fn tables(&self) -> Vec<template::Table> {
        let Runs::Inline(session) = &self.store.runs else { panic!("it is in memory") };
        template::tables(session.lock().conn()).unwrap()
    }
}

#[test]
fn a_store_that_is_renewed_holds_what_a_new_one_holds() {
    let mut world = World { store: memory(), tasks: Vec::new() };
    let new = world.tables();
    for id in 0..20 {
        world.run(&Op::Insert { id, version: 0, queue: 1 });
        world.run(&Op::Dispatch { nth: 3 });
    }
    assert_ne!(world.tables(), new);
    assert!(world.store.renew().unwrap());
    assert_eq!(world.tables(), new);
    world.tasks.clear();
    world.run(&Op::Insert { id: 1, version: 0, queue: 0 });
    world.check();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn the_books_equal_the_rows_after_any_operations(ops in proptest::collection::vec(op(), 400)) {
        let mut world = World { store: memory(), tasks: Vec::new() };
        for op in &ops {
            world.run(op);
        }
        world.check();
    }
}
