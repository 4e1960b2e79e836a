//! Partitions that change their database while tasks flow: each task exactly once and findable, accounts
//! correct on both sides, whatever happens to the mover between two steps, and whichever engine slept
//! meanwhile.

mod crashing;
mod following;
mod growing;
mod labels;
mod mending;

use punctual_contract::{
    ClusterStore, Store,
    cluster::Move,
    hot::HotEntry,
    store::{Applied, Assignment, Change, Dispatched, Grant, Query, Scan, Step},
};
use punctual_domain::{
    history::Note,
    name::{Name, QueueKey},
    place::{Partition, TaskRef, partition_of},
    state::State,
    task::{Content, NewTask, Task},
    time::Millis,
};
use punctual_store::{MoveProgress, MoveStep, Moved, MysqlOptions, MysqlStore};
use punctual_testkit::servers;
use std::{collections::HashMap, ops::ControlFlow, sync::Arc};

const NOW: Millis = Millis(1_900_000_000_000);
const PARTITIONS: u16 = 4;
const OPTIONS: MysqlOptions =
    MysqlOptions { partitions: PARTITIONS, writers_per_database: 2, readers_per_database: 4 };

async fn fresh(databases: usize) -> Vec<String> {
    let mut urls = Vec::new();
    for _ in 0..databases {
        urls.push(servers::migrated_database().await);
    }
    urls
}

async fn open(urls: &[String]) -> Arc<MysqlStore> {
    Arc::new(MysqlStore::open(urls, OPTIONS).await.unwrap())
}

async fn sql(url: &str, text: &str) -> String {
    let name = url.rsplit('/').next().unwrap();
    servers::mariadb().await.sql(name, text).await.trim().to_owned()
}

fn queue() -> QueueKey {
    QueueKey { namespace: Name::default_namespace(), queue: Name::new("mail").unwrap() }
}

fn ask(task_id: i64) -> NewTask {
    let ask = NewTask::new(queue(), Name::new("send").unwrap(), NOW);
    NewTask { task_id: Some(task_id), payload: Content::json("{}"), ..ask }
}

/// Ids of tasks that belong in a partition.
fn ids_in(partition: u16) -> impl Iterator<Item = i64> {
    (1..).filter(move |number| {
        partition_of(&Name::default_namespace(), *number, PARTITIONS) == Partition(partition)
    })
}

async fn insert(store: &MysqlStore, asks: Vec<NewTask>, now: Millis) -> Vec<Task> {
    let inserted = store.insert(asks, "test", now).await.unwrap();
    inserted.into_iter().map(|inserted| inserted.task).collect()
}

fn step(place: TaskRef, fence: i64, change: Change) -> Step {
    let note = Note { by: "test".to_owned(), ..Note::default() };
    Step { place, fence: Some(fence), change, note, fired_at: None, known: None }
}

fn grant(place: TaskRef, fence: i64, now: Millis) -> Grant {
    Grant {
        place,
        fence,
        executor: "worker".to_owned(),
        fired_at: now,
        lease_until: now.plus(600_000),
        namespace: punctual_domain::name::Name::default_namespace(),
        has_begun: false,
        known: None,
    }
}

fn success(now: Millis) -> Change {
    let result =
        punctual_domain::task::TaskResult { status_code: 0, status_msg: "ok".to_owned(), content: None };
    Change::Succeed { result, keep_until: now.plus(3_600_000) }
}

/// Everything that waits in a partition.
async fn waiting(store: &MysqlStore, partition: u16, now: Millis) -> Vec<HotEntry> {
    let scan =
        Scan { partition: Partition(partition), after: None, until: now.plus(1_000_000), limit: 10_000 };
    store.scan(scan).await.unwrap()
}

/// From waiting to in flight.
async fn hand_over(store: &MysqlStore, entries: &[HotEntry], now: Millis) -> Vec<Assignment> {
    let claims = entries.iter().map(|entry| step(entry.place, entry.fence, Change::Claim)).collect();
    let claimed = store.apply(claims, now).await.unwrap();
    let mine = entries.iter().zip(claimed).filter(|pair| pair.1 == Applied::Moved).map(|pair| pair.0);
    let grants = mine.map(|entry| grant(entry.place, entry.fence, now)).collect();
    store.dispatch(grants, now).await.unwrap().into_iter().filter_map(Dispatched::made).collect()
}

async fn move_to(store: &MysqlStore, partition: u16, to: usize) -> Option<Moved> {
    let mut go_on = |_: &MoveProgress| ControlFlow::Continue(());
    store.move_partition(Partition(partition), to, &mut go_on).await.unwrap()
}

/// Both sides are accounted for, nothing is left over, and every database has the partitions that the catalog
/// names.
async fn all_is_sound(store: &MysqlStore) {
    for check in store.check().await.unwrap() {
        assert!(check.is_sound(), "{check:?}");
        assert_eq!(check.strangers, [], "{check:?}");
    }
    let (books, audit) = (store.books().await.unwrap(), store.audit().await.unwrap());
    assert_eq!(books, audit);
    assert_eq!(books.unaccounted(), 0);
    assert_eq!(ClusterStore::moves(store).await.unwrap(), []);
}

/// Each of the tasks by its reference, by its id, and in a search: once.
async fn each_is_found_once(store: &MysqlStore, tasks: &HashMap<i64, TaskRef>) {
    let places: Vec<TaskRef> = tasks.values().copied().collect();
    for (place, found) in places.iter().zip(store.read(&places).await.unwrap()) {
        assert_eq!(found.unwrap_or_else(|| panic!("{place:?} is lost")).place, *place);
    }
    for (task_id, place) in tasks {
        let versions = store.versions(&Name::default_namespace(), *task_id, None, 10).await.unwrap();
        assert_eq!(versions.iter().map(|version| version.place).collect::<Vec<_>>(), [*place], "{task_id}");
    }
    let (mut found, mut before) = (HashMap::new(), None);
    loop {
        let page = store.list(&Query { limit: 500, before_id: before, ..Query::default() }).await.unwrap();
        for task in page.tasks {
            *found.entry(task.ask.task_id.unwrap()).or_insert(0) += 1;
        }
        before = page.next_before_id;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(found.len(), tasks.len());
    assert!(found.iter().all(|entry| *entry.1 == 1 && tasks.contains_key(entry.0)));
}
