//! Durability beyond the process. The medium is opened again with nothing left of the first opening except
//! the store's own writes; other tests kill a process to show that nothing is lost.

use super::{
    balanced,
    sample::{LATER, NOW, ask, dispatch, full, grant, insert, moved, name, read},
    walk::{reachable, walk_to},
};
use punctual_contract::{
    Store,
    store::{Change, Reply, ReplyKey},
};
use punctual_domain::{state::State, task::NewTask};
use std::sync::Arc;

type Open<'a> = &'a (dyn Fn() -> Arc<dyn Store> + Sync);

pub async fn what_was_acknowledged_is_there_after_reopening(open: Open<'_>) {
    let store = open();
    let mut tasks = vec![insert(&*store, full(1_000)).await.task];
    for state in reachable() {
        tasks.push(walk_to(&*store, i64::from(state.code()), state).await);
    }
    let key = ReplyKey { namespace: name("default"), key: "k".to_owned() };
    let reply = Reply { request_hash: 7, status: 201, body: vec![0, 1, 2], keep_until: LATER };
    store.save_reply(&key, &reply).await.unwrap();
    let books = store.books().await.unwrap();
    drop(store);
    let store = open();
    for task in &tasks {
        assert_eq!(&read(&*store, task.place).await, task);
    }
    assert_eq!(store.books().await.unwrap(), books);
    assert_eq!(store.load_reply(&key, NOW).await.unwrap(), Some(reply));
    balanced(&*store).await;
}

pub async fn fences_and_given_ids_are_not_used_again(open: Open<'_>) {
    let anonymous = || NewTask { task_id: None, ..ask(0) };
    let store = open();
    let first = insert(&*store, anonymous()).await.task;
    let held = walk_to(&*store, 5, State::Dispatched).await;
    drop(store);
    let store = open();
    let second = insert(&*store, anonymous()).await.task;
    assert_ne!((first.task_id(), first.place.id), (second.task_id(), second.place.id));
    let task = moved(&*store, &held, Change::Retry { due_at: NOW, result: None }, NOW).await;
    let task = moved(&*store, &task, Change::Claim, NOW).await;
    let assignment = dispatch(&*store, grant(&task, NOW), NOW).await.unwrap();
    assert!(assignment.fence > held.fence);
    assert_eq!(assignment.attempt, 2);
}

pub async fn the_number_of_partitions_is_fixed_at_creation(open: Open<'_>) {
    let store = open();
    let partitions = store.partitions();
    drop(store);
    assert_eq!(open().partitions(), partitions);
}
