//! Deletion of a namespace's contents: in bounded batches, in any state, and nothing of another namespace.

use super::{
    sample::{CALLER, LATER, NOW, ask, find, insert, name, queue, read, version},
    walk::{reachable, walk_to},
};
use punctual_contract::{
    Store,
    namespaces::{DeleteTasks, DeletedTasks, FinishedTask, TaskPosition},
    settings::SaveSetting,
    store::{Applied, Query, Reply, ReplyKey},
};
use punctual_domain::{
    executor::{Profile, Sign},
    insert::Decision,
    name::QueueKey,
    settings::{QueueSettings, Scope, Setting},
    state::State,
    task::{Content, Lease, NewTask, Task},
    time::Millis,
};
use std::{collections::BTreeSet, sync::Arc};

const GONE: &str = "default";
/// Names that stand beside it in every order.
const OTHERS: [&str; 4] = ["defaul", "default-", "default2", "a"];

fn asked(from: Option<TaskPosition>, limit: usize, in_flight: bool, now: Millis) -> DeleteTasks {
    DeleteTasks { namespace: name(GONE), from, limit, in_flight, now }
}

/// Batches of all parts, to the end.
async fn delete_all(store: &dyn Store, limit: usize, in_flight: bool) -> Vec<DeletedTasks> {
    delete_all_at(store, limit, in_flight, LATER).await
}

async fn delete_all_at(store: &dyn Store, limit: usize, in_flight: bool, now: Millis) -> Vec<DeletedTasks> {
    let mut batches = Vec::new();
    for part in 0..store.parts() {
        let mut from = None;
        loop {
            let batch = store.delete_tasks_in(part, asked(from, limit, in_flight, now)).await.unwrap();
            assert!(batch.deleted.len() + batch.in_flight.len() <= limit, "{batch:?}");
            super::balanced(store).await;
            from = batch.next;
            batches.push(batch);
            if from.is_none() {
                break;
            }
        }
    }
    batches
}

fn of(namespace: &str, task_id: i64) -> NewTask {
    let queue = QueueKey { namespace: name(namespace), queue: name("mail") };
    NewTask { queue, ..ask(task_id) }
}

async fn every_state(store: &dyn Store) -> Vec<Task> {
    let mut tasks = Vec::new();
    for state in reachable() {
        tasks.push(walk_to(store, i64::from(state.code()), state).await);
    }
    tasks
}

async fn all_of(store: &dyn Store, namespace: &str) -> Vec<Task> {
    let query = Query { namespace: Some(name(namespace)), limit: 1_000, ..Query::default() };
    store.list(&query).await.unwrap().tasks
}

pub async fn tasks_are_deleted_in_every_state_and_those_of_others_are_not(store: Arc<dyn Store>) {
    let tasks = every_state(&*store).await;
    let long = NewTask { payload: Content::json("1".repeat(100_000)), ..version(500, 3) };
    let long = insert(&*store, long).await.task;
    let unnamed = insert(&*store, NewTask { task_id: None, ..ask(0) }).await.task;
    let mut others = Vec::new();
    for namespace in OTHERS {
        others.push(insert(&*store, of(namespace, 1)).await.task);
    }
    let deleted: BTreeSet<i64> = delete_all(&*store, 1_000, true)
        .await
        .iter()
        .flat_map(|deleted_tasks| &deleted_tasks.deleted)
        .map(|deleted_task| deleted_task.place.id)
        .collect();
    let wanted: BTreeSet<i64> = tasks.iter().chain([&long, &unnamed]).map(|task| task.place.id).collect();
    assert_eq!(deleted, wanted);
    for task in tasks.iter().chain([&long, &unnamed]) {
        assert_eq!(find(&*store, task.place).await, None, "{:?}", task.state);
    }
    assert_eq!(all_of(&*store, GONE).await, []);
    for task in &others {
        assert_eq!(&read(&*store, task.place).await, task);
    }
    let books = store.books().await.unwrap();
    assert!(books.tallies.iter().all(|tally| tally.queue.namespace != name(GONE)), "{books:?}");
    let again = insert(&*store, version(500, 0)).await;
    assert_eq!(again.decision, Decision::Create, "its ids can be used again, with any version");
    assert_eq!(again.task.ask.payload, Content::json("{}"));
}

pub async fn those_that_executors_are_at_are_left_until_they_are_asked_for(store: Arc<dyn Store>) {
    let tasks = every_state(&*store).await;
    let flying: BTreeSet<i64> =
        tasks.iter().filter(|task| task.state.is_in_flight()).map(|task| task.place.id).collect();
    let batches = delete_all(&*store, 3, false).await;
    let left: BTreeSet<i64> =
        batches.iter().flat_map(|batch| &batch.in_flight).map(|in_flight| in_flight.id).collect();
    assert_eq!(left, flying);
    let mut asked = Vec::new();
    for task in tasks.iter().filter(|task| task.state.is_in_flight()) {
        let lease = task.lease.clone().map(|lease| Lease { cancel_requested: true, ..lease });
        let wanted = Task { lease, updated_at: LATER, ..task.clone() };
        asked.push(read(&*store, task.place).await);
        assert_eq!(asked.last(), Some(&wanted), "its executor is asked to stop");
    }
    let again = delete_all_at(&*store, 3, false, LATER.plus(1)).await;
    assert_eq!(again.iter().map(|batch| batch.in_flight.len()).sum::<usize>(), flying.len());
    for task in &asked {
        assert_eq!(&read(&*store, task.place).await, task, "it is asked once");
    }
    let batches = delete_all(&*store, 1, true).await;
    let deleted: Vec<_> = batches.iter().flat_map(|batch| &batch.deleted).collect();
    assert_eq!(deleted.iter().map(|deleted_task| deleted_task.place.id).collect::<BTreeSet<_>>(), flying);
    for deleted_task in deleted {
        let task = tasks.iter().find(|task| task.place.id == deleted_task.place.id).unwrap();
        assert_eq!((deleted_task.fence, deleted_task.was_in_flight), (task.fence, true));
    }
    assert_eq!(all_of(&*store, GONE).await, []);
}

pub async fn a_batch_of_a_deletion_is_bounded_and_the_next_goes_on_behind_it(store: Arc<dyn Store>) {
    let asks: Vec<NewTask> = (0..50).map(|id| version(id / 2, id % 2)).collect();
    store.insert(asks, CALLER, NOW).await.unwrap();
    let batches = delete_all(&*store, 7, false).await;
    assert!(batches.iter().map(|batch| batch.deleted.len()).sum::<usize>() == 50 && batches.len() >= 8);
    assert_eq!(delete_all(&*store, 7, false).await.len(), store.parts(), "there is nothing more");
}

pub async fn answers_and_traces_of_a_namespace_are_deleted_and_those_of_others_are_not(
    store: Arc<dyn Store>,
) {
    let key = |namespace: &str, nth: usize| ReplyKey { namespace: name(namespace), key: format!("k{nth}") };
    let reply = Reply { request_hash: 1, status: 200, body: vec![1], keep_until: LATER };
    let queues = |namespace: &str| Scope::Queue(QueueKey { namespace: name(namespace), queue: name("mail") });
    for namespace in [GONE].into_iter().chain(OTHERS) {
        for nth in 0..5 {
            store.save_reply(&key(namespace, nth), &reply).await.unwrap();
        }
        let sign = Sign {
            namespace: name(namespace),
            name: name("x"),
            profile: Profile::default(),
            at: NOW,
            alive_until: LATER,
            leaving: false,
        };
        store.note_executors(vec![sign]).await.unwrap();
        let setting =
            Some(Setting::Queue(Box::new(QueueSettings { concurrency: Some(1), ..Default::default() })));
        let save = SaveSetting { scope: queues(namespace), setting, expected: None, by: CALLER.to_owned() };
        store.save_setting(save, NOW).await.unwrap();
    }
    let batches = delete_all(&*store, 2, true).await;
    assert!(batches.iter().all(|batch| batch.replies <= 2), "{batches:?}");
    while delete_all(&*store, 2, true).await.iter().any(|deleted_tasks| deleted_tasks.replies > 0) {}
    while store.delete_traces(&name(GONE), 2).await.unwrap() > 0 {}
    for namespace in [GONE].into_iter().chain(OTHERS) {
        let is_left = namespace != GONE;
        for nth in 0..5 {
            assert_eq!(
                store.load_reply(&key(namespace, nth), NOW).await.unwrap().is_some(),
                is_left,
                "{namespace}"
            );
        }
        let executors = store.executors(&name(namespace), "", 9).await.unwrap();
        assert_eq!(executors.len(), usize::from(is_left), "{namespace}");
        let changes = store.setting_changes(&queues(namespace), None, 9).await.unwrap();
        assert_eq!(changes.len(), usize::from(is_left), "{namespace}");
    }
    assert_eq!(queues(GONE), Scope::Queue(queue("mail")));
    let tallies = store.settings().await.unwrap().all;
    assert_eq!(tallies.len(), 5, "what is set is not touched");
}

pub async fn a_finished_task_is_deleted_as_it_was_seen_and_no_other(store: Arc<dyn Store>) {
    for (task, again) in every_state(&*store).await.into_iter().zip(1_000_i64..) {
        let seen = FinishedTask { place: task.place, fence: task.fence, state: task.state };
        let stale = FinishedTask { fence: task.fence + 1, ..seen };
        assert_eq!(store.delete_finished(vec![stale]).await.unwrap(), [Applied::Lost], "{:?}", task.state);
        let expected = if task.state.is_finished() { Applied::Moved } else { Applied::Lost };
        let other = insert(&*store, ask(again)).await.task;
        let unfinished = FinishedTask { place: other.place, fence: other.fence, state: State::Succeeded };
        // One that is named twice is deleted once.
        let done = store.delete_finished(vec![unfinished, seen, seen]).await.unwrap();
        assert_eq!(done, [Applied::Lost, expected, Applied::Lost], "{:?}", task.state);
        let left = store.read(&[task.place, other.place]).await.unwrap();
        assert_eq!((left[0].is_none(), left[1].is_some()), (expected == Applied::Moved, true));
        super::balanced(&*store).await;
        if expected == Applied::Moved {
            let again = insert(&*store, ask(task.task_id())).await;
            assert_eq!(again.decision, Decision::Create, "its id can be used again");
        }
    }
}
