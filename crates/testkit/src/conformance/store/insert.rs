//! Inserts: identity, versions, requirement A2, batches.

use super::{
    sample::{
        CALLER, KEEP, LATER, NEXT, NOW, ask, find, full, insert, insert_at, name, queue, read, version,
    },
    walk::{reachable, walk_to},
};
use punctual_contract::{
    Store,
    store::{Applied, Change, Inserted},
};
use punctual_domain::{
    insert::{Decision, Existing, OnConflict, decide},
    name::QueueKey,
    place::partition_of,
    state::State,
    task::{Content, NewTask, Priority},
    time::Millis,
};
use std::{collections::HashSet, sync::Arc};
use tokio::task::JoinSet;

pub async fn a_new_task_stands_as_it_was_asked(store: Arc<dyn Store>) {
    let asked = full(42);
    let Inserted { decision, task } = insert(&*store, asked.clone()).await;
    assert_eq!((decision, &task.ask), (Decision::Create, &asked));
    assert_eq!((task.state, task.attempt, task.task_id()), (State::Scheduled, 0, 42));
    assert_eq!((task.created_at, task.updated_at, task.due_at), (NOW, NOW, NOW));
    assert_eq!((task.fired_at, task.keep_until, &task.lease), (None, None, &None));
    assert_eq!((&task.result, &task.last_error, &task.progress), (&None, &None, &None));
    assert_eq!(read(&*store, task.place).await, task, "the answer is what was stored");
}

pub async fn a_task_is_due_no_earlier_than_it_was_accepted(store: Arc<dyn Store>) {
    let times = [(1, NOW.plus(-1_000), NOW), (2, NOW, NOW), (3, NEXT, NEXT), (4, Millis::ZERO, NOW)];
    for (id, execute_at, due_at) in times {
        let task = insert(&*store, NewTask { execute_at, ..ask(id) }).await.task;
        assert_eq!((task.due_at, task.ask.execute_at), (due_at, execute_at), "the wish itself is kept");
    }
}

pub async fn its_partition_is_the_one_that_placement_says(store: Arc<dyn Store>) {
    assert!(store.partitions() > 0);
    for id in [i64::MIN, -1, 0, 1, 2, 3, 4_711, i64::MAX] {
        let task = insert(&*store, ask(id)).await.task;
        let wanted = partition_of(&task.ask.queue.namespace, id, store.partitions());
        assert_eq!(task.place.partition, wanted, "{id}");
    }
    let given = insert(&*store, NewTask { task_id: None, ..ask(0) }).await.task;
    let wanted = partition_of(&given.ask.queue.namespace, given.task_id(), store.partitions());
    assert_eq!(given.place.partition, wanted);
}

/// Requirement A2: the same, a lower and a higher version, against every state there is a way to.
pub async fn what_stands_is_treated_as_the_rule_says_in_every_state(store: Arc<dyn Store>) {
    for (nth, state) in reachable().enumerate() {
        let id = i64::try_from(nth).unwrap();
        let before = walk_to(&*store, id, state).await;
        let existing = Existing { same_version: Some(state), highest_version: Some(0) };
        let wanted = decide(0, existing);
        let asked = NewTask { payload: Content::json("\"again\""), ..version(id, 0) };
        let same = insert_at(&*store, asked.clone(), LATER).await;
        assert_eq!(same.decision, wanted, "same version, {state:?}");
        match wanted {
            Decision::Replace => {
                assert_eq!((same.task.state, &same.task.ask), (State::Scheduled, &asked), "{state:?}");
            }
            _ => assert_eq!(same.task, before, "{state:?}: nothing changed"),
        }
        let lower = insert_at(&*store, version(id, -1), LATER).await;
        assert_eq!((lower.decision, &lower.task), (Decision::Superseded, &same.task), "{state:?}");
        let higher = insert_at(&*store, version(id, 1), LATER).await;
        assert_eq!(higher.decision, Decision::Create, "higher version, {state:?}");
        assert_ne!(higher.task.place.id, before.place.id);
        assert_eq!(read(&*store, before.place).await, same.task, "{state:?}: the lower one stays");
    }
}

/// A caller that inserts the same task twice creates one, whatever has happened to it meanwhile.
pub async fn what_is_to_be_kept_stays_in_every_state(store: Arc<dyn Store>) {
    for (nth, state) in reachable().enumerate() {
        let id = i64::try_from(nth).unwrap();
        let before = walk_to(&*store, id, state).await;
        let asked =
            NewTask { payload: Content::json("\"again\""), on_conflict: OnConflict::Keep, ..version(id, 0) };
        let kept = insert_at(&*store, asked.clone(), LATER).await;
        assert_eq!((kept.decision, &kept.task), (Decision::ReturnExisting, &before), "{state:?}");
        let higher = insert_at(&*store, NewTask { task_version: 1, ..asked.clone() }, LATER).await;
        assert_eq!(higher.decision, Decision::Create, "higher version, {state:?}");
        assert_eq!(higher.task, read(&*store, higher.task.place).await, "the answer is what was stored");
        let lower = insert_at(&*store, asked, LATER).await;
        assert_eq!((lower.decision, lower.task), (Decision::Superseded, higher.task), "{state:?}");
    }
}

pub async fn a_lower_version_is_refused_and_shown_the_highest(store: Arc<dyn Store>) {
    for number in [1, 5, 9] {
        assert_eq!(insert(&*store, version(1, number)).await.decision, Decision::Create);
    }
    let refused = insert(&*store, version(1, 7)).await;
    assert_eq!((refused.decision, refused.task.ask.task_version), (Decision::Superseded, 9));
    let name = name("default");
    assert_eq!(store.versions(&name, 1, None, 9).await.unwrap().len(), 3, "nothing was stored");
}

pub async fn a_version_under_a_higher_one_is_refused_even_if_it_exists(store: Arc<dyn Store>) {
    let low = insert(&*store, version(1, 1)).await.task;
    let high = insert(&*store, version(1, 2)).await.task;
    let refused = insert(&*store, NewTask { priority: Priority::HIGHEST, ..version(1, 1) }).await;
    assert_eq!((refused.decision, &refused.task), (Decision::Superseded, &high));
    assert_eq!(read(&*store, low.place).await, low);
}

pub async fn a_replacement_is_a_new_wish_in_the_old_place(store: Arc<dyn Store>) {
    let before = walk_to(&*store, 1, State::Retrying).await;
    assert_eq!(before.attempt, 1);
    let request = NewTask { task_version: 0, execute_at: NEXT.plus(7), queue: queue("other"), ..full(1) };
    let Inserted { decision, task } = insert_at(&*store, request.clone(), LATER).await;
    assert_eq!((decision, task.place, &task.ask), (Decision::Replace, before.place, &request));
    assert!(task.fence > before.fence, "a new fence");
    assert_eq!((task.attempt, task.due_at, task.state), (0, NEXT.plus(7), State::Scheduled));
    assert_eq!((task.created_at, task.updated_at), (before.created_at, LATER));
    assert_eq!(
        (&task.result, &task.lease, task.keep_until),
        (&None, &None, None),
        "of the new wish, nothing"
    );
    let past = insert_at(&*store, version(1, 0), LATER).await.task;
    assert_eq!(past.due_at, LATER, "a replacement is due no earlier than it was accepted");
    assert_eq!(read(&*store, before.place).await, past, "found by the reference of the first insert");
}

pub async fn one_id_twice_in_a_batch_is_stored_once(store: Arc<dyn Store>) {
    let second = NewTask { payload: Content::json("2"), priority: Priority::LOWEST, ..ask(1) };
    let got = store.insert(vec![ask(1), second.clone()], CALLER, NOW).await.unwrap();
    let decisions: Vec<Decision> = got.iter().map(|inserted| inserted.decision).collect();
    assert_eq!(decisions, [Decision::Create, Decision::Replace]);
    assert_eq!(got[0].task.place, got[1].task.place);
    assert_eq!(read(&*store, got[0].task.place).await, got[1].task, "the last wish holds");
    assert_eq!(got[1].task.ask, second);
    assert_eq!(store.books().await.unwrap().accepted, 1);
}

pub async fn versions_in_one_batch_see_each_other(store: Arc<dyn Store>) {
    let asked = vec![version(1, 2), version(1, 1), version(1, 3), version(1, 2)];
    let got = store.insert(asked, CALLER, NOW).await.unwrap();
    let answers: Vec<_> =
        got.iter().map(|inserted| (inserted.decision, inserted.task.ask.task_version)).collect();
    let refused = Decision::Superseded;
    assert_eq!(answers, [(Decision::Create, 2), (refused, 2), (Decision::Create, 3), (refused, 3)]);
}

pub async fn results_stand_in_the_order_of_what_was_asked(store: Arc<dyn Store>) {
    insert(&*store, version(500, 9)).await;
    let mut ids: Vec<i64> = (0..1_000).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut ids);
    let got = store.insert(ids.iter().map(|id| version(*id, 1)).collect(), CALLER, NOW).await.unwrap();
    assert_eq!(got.iter().map(|inserted| inserted.task.task_id()).collect::<Vec<_>>(), ids);
    for inserted in &got {
        let wanted = if inserted.task.task_id() == 500 { Decision::Superseded } else { Decision::Create };
        assert_eq!(inserted.decision, wanted, "one that is refused does not spoil the others");
    }
}

/// Like order numbers: new ones are the usual case, and a few exist already.
pub async fn ids_that_follow_each_other_are_each_decided_by_what_stands(store: Arc<dyn Store>) {
    let insert = async |asks: Vec<NewTask>| -> Vec<(i64, Decision)> {
        let inserted = store.insert(asks, CALLER, NOW).await.unwrap();
        inserted.into_iter().map(|inserted| (inserted.task.task_id(), inserted.decision)).collect()
    };
    let all = |ids: &[i64], decision| ids.iter().map(|id| (*id, decision)).collect::<Vec<_>>();
    let odd: Vec<i64> = (0..200).map(|nth| 2 * nth + 1).collect();
    let even: Vec<i64> = (0..200).map(|nth| 2 * nth).collect();
    let asks = |ids: &[i64]| ids.iter().map(|id| ask(*id)).collect::<Vec<_>>();
    assert_eq!(insert(asks(&odd)).await, all(&odd, Decision::Create));
    assert_eq!(insert(asks(&even)).await, all(&even, Decision::Create), "between those of others");
    let mixed: Vec<i64> = (300..500).collect();
    let (standing, new) = mixed.split_at(100);
    let wanted = [all(standing, Decision::Replace), all(new, Decision::Create)].concat();
    assert_eq!(insert(asks(&mixed)).await, wanted);
    let one = |version| {
        let mut asks = asks(&(1_000..1_100).collect::<Vec<_>>());
        asks.push(NewTask { task_version: version, ..ask(499) });
        asks
    };
    assert_eq!(
        insert(one(5)).await.last(),
        Some(&(499, Decision::Create)),
        "a newer version of one that stands"
    );
    assert_eq!(insert(one(4)).await.last(), Some(&(499, Decision::Superseded)));
    let books = store.books().await.unwrap();
    assert_eq!((books.unaccounted(), &books), (0, &store.audit().await.unwrap()));
}

/// Most ask for nothing special; those that do keep it.
pub async fn plain_tasks_and_others_come_in_one_batch(store: Arc<dyn Store>) {
    let asked: Vec<NewTask> = (1..=60).map(|id| if id % 3 == 0 { full(id) } else { ask(id) }).collect();
    let inserted = store.insert(asked.clone(), CALLER, NOW).await.unwrap();
    for (asked, inserted) in asked.iter().zip(inserted) {
        assert_eq!((inserted.decision, &inserted.task.ask), (Decision::Create, asked));
        assert_eq!(read(&*store, inserted.task.place).await, inserted.task, "the answer is what was stored");
    }
}

pub async fn an_empty_batch_is_nothing(store: Arc<dyn Store>) {
    assert_eq!(store.insert(Vec::new(), CALLER, NOW).await.unwrap(), []);
    assert_eq!(store.books().await.unwrap().accepted, 0);
}

/// Also when a caller has taken the ids that would come next.
pub async fn tasks_without_an_id_get_one_that_is_free(store: Arc<dyn Store>) {
    let anonymous = NewTask { task_id: None, ..ask(0) };
    let first = insert(&*store, anonymous.clone()).await.task.task_id();
    for id in first + 1..first + 6 {
        assert_eq!(insert(&*store, ask(id)).await.decision, Decision::Create);
    }
    let taken = ask(first + 8);
    let mixed = vec![anonymous.clone(), anonymous.clone(), taken, anonymous.clone(), anonymous.clone()];
    let got = store.insert(mixed, CALLER, NOW).await.unwrap();
    let distinct: HashSet<i64> = got.iter().map(|inserted| inserted.task.task_id()).collect();
    assert!(got.iter().all(|inserted| inserted.decision == Decision::Create), "{got:?}");
    assert_eq!(distinct.len(), 5);
    assert!(got.iter().all(|inserted| inserted.task.ask.task_id.is_some()), "the answer says the id");
    assert_eq!(store.books().await.unwrap().accepted, 11);
}

pub async fn the_same_id_in_another_namespace_is_another_task(store: Arc<dyn Store>) {
    let here = insert(&*store, version(1, 5)).await.task;
    let key = QueueKey { namespace: name("other"), queue: name("mail") };
    let there = insert(&*store, NewTask { queue: key.clone(), ..version(1, 1) }).await;
    assert_eq!(there.decision, Decision::Create);
    assert_ne!(there.task.place.id, here.place.id);
    assert_eq!(store.versions(&key.namespace, 1, None, 9).await.unwrap().len(), 1);
}

pub async fn a_thousand_at_once_of_one_id_create_it_once(store: Arc<dyn Store>) {
    let mut callers = JoinSet::new();
    for _ in 0..1_000 {
        let store = Arc::clone(&store);
        callers.spawn(async move { insert(&*store, ask(1)).await });
    }
    let got = callers.join_all().await;
    let created = got.iter().filter(|inserted| inserted.decision == Decision::Create).count();
    assert_eq!(created, 1);
    assert!(got.iter().all(|inserted| matches!(inserted.decision, Decision::Create | Decision::Replace)));
    let fences: HashSet<i64> = got.iter().map(|inserted| inserted.task.fence).collect();
    assert_eq!(fences.len(), 1_000, "each replacement has a fence of its own");
    assert_eq!(store.books().await.unwrap().accepted, 1);
}

pub async fn ids_given_to_many_at_once_are_all_different(store: Arc<dyn Store>) {
    let mut callers = JoinSet::new();
    for _ in 0..200 {
        let store = Arc::clone(&store);
        callers.spawn(async move { insert(&*store, NewTask { task_id: None, ..ask(0) }).await });
    }
    let got = callers.join_all().await;
    assert_eq!(got.iter().map(|inserted| inserted.task.task_id()).collect::<HashSet<_>>().len(), 200);
    assert_eq!(got.iter().map(|inserted| inserted.task.place.id).collect::<HashSet<_>>().len(), 200);
}

pub async fn the_insert_is_the_first_line_of_the_history(store: Arc<dyn Store>) {
    let place = insert(&*store, ask(1)).await.task.place;
    let history = find(&*store, place).await.unwrap().history;
    assert_eq!(history.len(), 1);
    let first = &history[0];
    assert_eq!((first.at, first.event, first.from, first.to), (NOW, None, None, State::Scheduled));
    assert_eq!((first.attempt, first.by.as_str()), (0, CALLER));
    let place = insert(&*store, ask(2)).await.task.place;
    let task = read(&*store, place).await;
    let change = Change::Cancel { keep_until: KEEP };
    let step = super::sample::step(&task, change);
    assert_eq!(super::sample::apply(&*store, step, LATER).await, Applied::Moved);
    assert_eq!(read(&*store, place).await.history[0], task.history[0], "later lines are appended");
}

/// Whatever the caller's clock says: the database's own decides.
pub async fn what_arrives_too_late_is_not_stored(store: Arc<dyn Store>) {
    let late = NewTask { insert_by: Some(Millis(1)), ..ask(1) };
    let in_time = NewTask { insert_by: Some(Millis(i64::MAX)), ..ask(2) };
    let refused = match store.insert_each(vec![late], CALLER, NOW).await {
        Ok(answers) => answers.into_iter().find_map(Result::err).expect("it was too late"),
        Err(error) => error,
    };
    assert_eq!(refused.happened, punctual_contract::Happened::No, "{refused}");
    assert_eq!(insert(&*store, in_time).await.task.ask.insert_by, None, "no store keeps it");
    let others = store.versions(&queue("mail").namespace, 1, None, 1).await.unwrap();
    assert!(others.is_empty(), "{others:?}");
}
