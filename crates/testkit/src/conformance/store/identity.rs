//! Identity as a text: a key is unique like an id, compared exactly, and stays with its task. And inserts of
//! an existing identity.

use super::{
    sample::{CALLER, LATER, NOW, ask, full, insert, insert_at, moved, name, read, version},
    walk::{reachable, walk_to},
};
use punctual_contract::{Store, store::Change};
use punctual_domain::{
    insert::{Decision, OnConflict},
    key::{Key, is_id_of_keys},
    name::QueueKey,
    place::partition_of,
    state::State,
    task::{Content, NewTask, Task},
};
use std::{collections::HashSet, sync::Arc};
use tokio::task::JoinSet;

fn keyed(text: &str) -> NewTask {
    NewTask { task_id: None, key: Some(Key::caller(text).unwrap()), ..ask(0) }
}

fn ids(store: &dyn Store, text: &str) -> [i64; 2] {
    Key::caller(text).unwrap().ids(&name("default"), store.partitions())
}

async fn under(store: &dyn Store, task_id: i64) -> Vec<Task> {
    store.versions(&name("default"), task_id, None, 9).await.unwrap()
}

pub async fn a_key_is_kept_with_its_task_and_stands_for_an_id(store: Arc<dyn Store>) {
    let asked = NewTask { name: Some("Anna's order".to_owned()), ..keyed("order 7/é") };
    let task = insert(&*store, asked.clone()).await.task;
    assert_eq!((&task.ask.key, &task.ask.name), (&asked.key, &asked.name));
    assert_eq!(task.task_id(), ids(&*store, "order 7/é")[0]);
    assert!(is_id_of_keys(task.task_id()) && task.task_id() < 1 << 53);
    let wanted = partition_of(&task.ask.queue.namespace, task.task_id(), store.partitions());
    assert_eq!(task.place.partition, wanted);
    assert_eq!(read(&*store, task.place).await, task, "the answer is what was stored");
    assert_eq!(under(&*store, task.task_id()).await, std::slice::from_ref(&task));
    let rest = NewTask { task_id: None, key: asked.key, ..full(1) };
    let replaced = insert_at(&*store, rest.clone(), LATER).await;
    assert_eq!(replaced.decision, Decision::Create, "a higher version");
    assert_eq!((&replaced.task.ask.demands, &replaced.task.ask.key), (&rest.demands, &rest.key));
    assert_eq!(under(&*store, task.task_id()).await.len(), 2);
}

pub async fn keys_are_compared_letter_for_letter(store: Arc<dyn Store>) {
    let keys = ["a", "A", "a ", " a", "ä", "a\u{308}", "á", "ß", "ss", "%", "_", "a\0"];
    let asks = keys.iter().map(|key| keyed(key)).collect();
    let first = store.insert(asks, CALLER, NOW).await.unwrap();
    assert!(first.iter().all(|inserted| inserted.decision == Decision::Create), "{first:?}");
    let places: HashSet<_> = first.iter().map(|inserted| inserted.task.place).collect();
    assert_eq!(places.len(), keys.len());
    for (text, was) in keys.iter().zip(&first) {
        let again = insert(&*store, keyed(text)).await;
        assert_eq!((again.decision, again.task.place), (Decision::Replace, was.task.place), "{text:?}");
    }
    let shop = QueueKey { namespace: name("shop"), queue: name("mail") };
    let there = insert(&*store, NewTask { queue: shop, ..keyed("a") }).await;
    assert_eq!(there.decision, Decision::Create, "in another namespace it is another task");
}

/// Requirement A2 holds for keys.
pub async fn versions_of_a_key_are_decided_as_those_of_an_id(store: Arc<dyn Store>) {
    let of = |task_version| NewTask { task_version, ..keyed("k") };
    let asked = vec![of(2), of(1), of(3), of(3), keyed("other")];
    let answers = store.insert(asked, CALLER, NOW).await.unwrap();
    let answers: Vec<_> =
        answers.iter().map(|answer| (answer.decision, answer.task.ask.task_version)).collect();
    let (created, refused) = (Decision::Create, Decision::Superseded);
    assert_eq!(answers, [(created, 2), (refused, 2), (created, 3), (Decision::Replace, 3), (created, 0)]);
    assert_eq!(insert(&*store, of(1)).await.decision, refused);
    assert_eq!(insert(&*store, of(4)).await.decision, created);
    assert_eq!(under(&*store, ids(&*store, "k")[0]).await.len(), 3);
}

/// Two keys with the same first id each have a task of their own, even after one of them is deleted.
pub async fn a_key_whose_id_another_has_takes_its_second_and_keeps_it(store: Arc<dyn Store>) {
    let [first, second] = ids(&*store, "k");
    let other = insert(&*store, ask(first)).await.task;
    let mine = insert(&*store, keyed("k")).await;
    assert_eq!((mine.decision, mine.task.task_id()), (Decision::Create, second));
    for _ in 0..2 {
        let again = insert(&*store, keyed("k")).await;
        assert_eq!((again.decision, again.task.place), (Decision::Replace, mine.task.place));
        let other = insert(&*store, ask(first)).await;
        assert_eq!(other.decision, Decision::Replace, "who has the id keeps it");
    }
    let newer = insert(&*store, NewTask { task_version: 7, ..keyed("k") }).await;
    assert_eq!((newer.decision, newer.task.task_id()), (Decision::Create, second));
    let other = read(&*store, other.place).await;
    moved(&*store, &other, Change::Cancel { keep_until: NOW }, LATER).await;
    assert_eq!(store.retire(LATER, LATER, 10).await.unwrap().deleted, 1);
    let again = insert(&*store, NewTask { task_version: 7, ..keyed("k") }).await;
    assert_eq!((again.decision, again.task.place), (Decision::Replace, newer.task.place));
    assert_eq!(under(&*store, first).await, [], "no second task of one key");
}

pub async fn the_id_of_a_key_is_not_to_be_had_without_it(store: Arc<dyn Store>) {
    let [first, second] = ids(&*store, "k");
    let mine = insert(&*store, keyed("k")).await.task;
    for task in [ask(first), version(first, 5), version(first, -5)] {
        let refused = insert(&*store, task).await;
        assert_eq!((refused.decision, &refused.task), (Decision::Exists, &mine));
    }
    let [third, fourth] = ids(&*store, "full");
    for number in [third, fourth] {
        assert_eq!(insert(&*store, ask(number)).await.decision, Decision::Create);
    }
    let refused = insert(&*store, keyed("full")).await;
    assert_eq!((refused.decision, refused.task.task_id()), (Decision::Exists, fourth), "others have both");
    assert_eq!(under(&*store, second).await, []);
    assert_eq!(read(&*store, mine.place).await, mine);
}

pub async fn a_key_is_free_again_when_its_task_is_gone(store: Arc<dyn Store>) {
    let old = insert(&*store, keyed("k")).await.task;
    moved(&*store, &old, Change::Cancel { keep_until: NOW }, LATER).await;
    assert_eq!(store.retire(LATER, LATER, 10).await.unwrap().deleted, 1);
    let again = insert(&*store, keyed("k")).await;
    assert_eq!((again.decision, again.task.task_id()), (Decision::Create, old.task_id()));
    assert_ne!(again.task.place.id, old.place.id);
}

pub async fn a_hundred_at_once_of_one_key_create_it_once(store: Arc<dyn Store>) {
    let mut callers = JoinSet::new();
    for nth in 0..100 {
        let store = Arc::clone(&store);
        callers.spawn(async move { insert(&*store, keyed(if nth % 2 == 0 { "a" } else { "b" })).await });
    }
    let got = callers.join_all().await;
    assert_eq!(got.iter().filter(|inserted| inserted.decision == Decision::Create).count(), 2);
    assert_eq!(store.books().await.unwrap().accepted, 2);
}

/// A caller that must be first gets an error if it is not, whatever the state of the existing task.
pub async fn whoever_must_be_first_is_refused_in_every_state(store: Arc<dyn Store>) {
    for (nth, state) in reachable().enumerate() {
        let id = i64::try_from(nth).unwrap();
        let before = walk_to(&*store, id, state).await;
        let first = |task_version| NewTask {
            payload: Content::json("\"again\""),
            on_conflict: OnConflict::Fail,
            ..version(id, task_version)
        };
        let refused = insert_at(&*store, first(0), LATER).await;
        assert_eq!((refused.decision, &refused.task), (Decision::Exists, &before), "{state:?}");
        assert_eq!(insert_at(&*store, first(1), LATER).await.decision, Decision::Create, "{state:?}");
        assert_eq!(insert_at(&*store, first(0), LATER).await.decision, Decision::Superseded, "{state:?}");
    }
    let batch = vec![
        NewTask { on_conflict: OnConflict::Fail, ..keyed("k") },
        NewTask { on_conflict: OnConflict::Fail, ..keyed("k") },
        NewTask { on_conflict: OnConflict::Keep, ..keyed("k") },
        keyed("k"),
    ];
    let got = store.insert(batch, CALLER, NOW).await.unwrap();
    let got: Vec<_> = got.iter().map(|inserted| (inserted.decision, inserted.task.state)).collect();
    let decisions = [Decision::Create, Decision::Exists, Decision::ReturnExisting, Decision::Replace];
    assert_eq!(got, decisions.map(|decision| (decision, State::Scheduled)));
}
