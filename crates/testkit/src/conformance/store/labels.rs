//! Labels that queues declare, and searches by them, and by due time. Every access path finds the same tasks.

use super::sample::{CALLER, KEEP, NEXT, NOW, ask, insert, name, queue};
use super::walk::walk_to;
use punctual_contract::{
    Store,
    namespaces::{DeleteTasks, FinishedTask},
    settings::SaveSetting,
    store::{Along, Applied, Change, Page, Query, Step},
};
use punctual_domain::{
    history::Note,
    name::{Name, QueueKey},
    place::TaskRef,
    settings::{QueueSettings, Scope, Setting},
    state::State,
    task::{NewTask, Task},
};
use std::{collections::BTreeSet, sync::Arc};

fn labelled(task_id: i64, value: &str) -> NewTask {
    NewTask { labels: [("team".to_owned(), value.to_owned())].into(), ..ask(task_id) }
}

async fn declare(store: &dyn Store, queue: QueueKey, labels: &[&str]) {
    let indexed_labels = labels.iter().map(|label| (*label).to_owned()).collect();
    let setting = Setting::Queue(Box::new(QueueSettings { indexed_labels, ..QueueSettings::default() }));
    let save = SaveSetting {
        scope: Scope::Queue(queue),
        setting: Some(setting),
        expected: None,
        by: CALLER.to_owned(),
    };
    store.save_setting(save, NOW).await.unwrap();
}

fn of(value: &str) -> Query {
    Query {
        namespace: Some(Name::default_namespace()),
        queue: Some(name("mail")),
        label: Some(("team".to_owned(), value.to_owned())),
        limit: 3,
        ..Query::default()
    }
}

/// All pages, and along what each of them went.
async fn all(store: &dyn Store, query: &Query) -> (Vec<Task>, BTreeSet<&'static str>) {
    let (mut tasks, mut alongs, mut query) = (Vec::new(), BTreeSet::new(), query.clone());
    for _ in 0..1_000 {
        let Page { tasks: page, next_before_id, next_behind_due, along, .. } =
            store.list(&query).await.unwrap();
        assert!(page.len() <= query.limit, "bounded");
        tasks.extend(page);
        alongs.insert(match along {
            Along::Ids | Along::Chunks => "ids",
            Along::Label => "label",
            Along::Dead => "dead",
            Along::DueTime => "due time",
        });
        (query.before_id, query.behind_due) = (next_before_id, next_behind_due);
        if next_before_id.is_none() && next_behind_due.is_none() {
            return (tasks, alongs);
        }
    }
    panic!("a search that never ends");
}

async fn found(store: &dyn Store, query: &Query, along: &'static str) -> Vec<i64> {
    let (tasks, alongs) = all(store, query).await;
    assert_eq!(alongs, [along].into(), "{query:?}");
    tasks.iter().map(Task::task_id).collect()
}

/// Indexes all tasks in small batches, as its runner does.
async fn index_all(store: &dyn Store) -> usize {
    let mut batches = 0;
    for part in 0..store.parts() {
        while store.index_labels_in(part, 7).await.unwrap() > 0 {
            batches += 1;
        }
    }
    batches
}

pub async fn what_is_inserted_with_a_declared_label_is_found_along_it(store: Arc<dyn Store>) {
    declare(&*store, queue("mail"), &["team", "\u{e9}\"'"]).await;
    index_all(&*store).await;
    let values = ["blue", "red", "blue = \u{1F980}", ""];
    let asks = (0..40).map(|id| labelled(id, values[usize::try_from(id % 4).unwrap()])).collect();
    store.insert(asks, CALLER, NOW).await.unwrap();
    let odd = [("\u{e9}\"'".to_owned(), "x".to_owned()), ("other".to_owned(), "y".to_owned())];
    insert(&*store, NewTask { labels: odd.into(), ..ask(100) }).await;
    insert(&*store, NewTask { queue: queue("sms"), ..labelled(101, "blue") }).await;
    for (nth, value) in (0_i64..).zip(values) {
        let wanted: Vec<i64> = (0..10).rev().map(|number| number * 4 + nth).collect();
        assert_eq!(found(&*store, &of(value), "label").await, wanted, "{value:?}");
    }
    let of_odd = Query { label: Some(("\u{e9}\"'".to_owned(), "x".to_owned())), ..of("") };
    assert_eq!(found(&*store, &of_odd, "label").await, [100]);
    let not_declared = Query { label: Some(("other".to_owned(), "y".to_owned())), ..of("") };
    assert_eq!(found(&*store, &not_declared, "ids").await, [100]);
    walk_to(&*store, 200, State::Cancelled).await;
    let filtered = Query { state: Some(State::Cancelled), ..of("blue") };
    assert_eq!(found(&*store, &filtered, "label").await, [0; 0], "the other conditions hold, too");
}

pub async fn what_stood_before_a_label_was_declared_is_found_along_it_when_all_is_entered(
    store: Arc<dyn Store>,
) {
    let asks = (0..60).map(|id| labelled(id, if id % 5 == 0 { "rare" } else { "usual" })).collect();
    store.insert(asks, CALLER, NOW).await.unwrap();
    declare(&*store, queue("mail"), &["team"]).await;
    insert(&*store, labelled(60, "rare")).await;
    let wanted: Vec<i64> = (0..=12).rev().map(|nth| nth * 5).collect();
    assert_eq!(found(&*store, &of("rare"), "ids").await, wanted, "before it is whole");
    let percents = async || {
        store
            .label_indexes()
            .await
            .unwrap()
            .iter()
            .map(|label_index| label_index.percent())
            .collect::<Vec<_>>()
    };
    assert!(percents().await.contains(&0));
    store.index_labels_in(0, 7).await.unwrap();
    assert_eq!(found(&*store, &of("rare"), "ids").await, wanted, "half-way");
    assert!(index_all(&*store).await > 5, "in batches");
    assert!(percents().await.iter().all(|percent| *percent == 100));
    assert_eq!(found(&*store, &of("rare"), "label").await, wanted);
    assert_eq!(index_all(&*store).await, 0, "there is nothing left to do");
}

pub async fn a_replacement_is_found_under_its_new_label_only(store: Arc<dyn Store>) {
    declare(&*store, queue("mail"), &["team"]).await;
    declare(&*store, queue("sms"), &["team"]).await;
    index_all(&*store).await;
    for id in 0..4 {
        insert(&*store, labelled(id, "blue")).await;
    }
    insert(&*store, labelled(0, "red")).await;
    insert(&*store, ask(1)).await;
    insert(&*store, NewTask { queue: queue("sms"), ..labelled(2, "blue") }).await;
    assert_eq!(found(&*store, &of("blue"), "label").await, [3]);
    assert_eq!(found(&*store, &of("red"), "label").await, [0]);
    let sms = Query { queue: Some(name("sms")), ..of("blue") };
    assert_eq!(found(&*store, &sms, "label").await, [2]);
    insert(&*store, labelled(1, "blue")).await;
    assert_eq!(found(&*store, &of("blue"), "label").await, [3, 1]);
}

pub async fn what_goes_into_another_queue_is_found_as_that_has_declared(store: Arc<dyn Store>) {
    declare(&*store, queue("mail"), &["team"]).await;
    declare(&*store, queue("sms"), &["team"]).await;
    index_all(&*store).await;
    let mut tasks = Vec::new();
    for id in 0..4 {
        tasks.push(insert(&*store, labelled(id, "blue")).await.task);
    }
    insert(&*store, ask(9)).await;
    let into = async |task: &Task, queue: &str| {
        let queue = Some(name(queue));
        let change = Change::Reschedule { execute_at: None, priority: None, payload: None, queue };
        let note = Note { by: CALLER.to_owned(), ..Note::default() };
        let step = Step { place: task.place, fence: None, change, note, fired_at: None, known: None };
        assert_eq!(store.apply(vec![step], NOW).await.unwrap(), [Applied::Moved]);
    };
    into(&tasks[0], "sms").await;
    into(&tasks[1], "fax").await;
    let of_queue = |queue: &str| Query { queue: Some(name(queue)), ..of("blue") };
    assert_eq!(found(&*store, &of_queue("mail"), "label").await, [3, 2]);
    assert_eq!(found(&*store, &of_queue("sms"), "label").await, [0]);
    assert_eq!(found(&*store, &of_queue("fax"), "ids").await, [1], "it has declared nothing");
    // A task returns from a queue without an index, and a label declared there later is indexed from the
    // stored tasks.
    into(&tasks[1], "mail").await;
    assert_eq!(found(&*store, &of_queue("mail"), "label").await, [3, 2, 1]);
    into(&tasks[2], "fax").await;
    declare(&*store, queue("fax"), &["team"]).await;
    index_all(&*store).await;
    assert_eq!(found(&*store, &of_queue("fax"), "label").await, [2]);
    let everywhere = Query { queue: None, ..of("blue") };
    assert_eq!(found(&*store, &everywhere, "label").await, [3, 2, 1, 0]);
}

pub async fn what_is_deleted_is_found_no_more_and_its_id_can_come_again(store: Arc<dyn Store>) {
    declare(&*store, queue("mail"), &["team"]).await;
    index_all(&*store).await;
    let mut places: Vec<TaskRef> = Vec::new();
    for id in 0..5 {
        places.push(insert(&*store, labelled(id, "blue")).await.task.place);
    }
    let cancel = punctual_contract::store::Change::Cancel { keep_until: KEEP };
    for place in &places[..3] {
        let task = super::sample::read(&*store, *place).await;
        super::sample::moved(&*store, &task, cancel.clone(), NOW).await;
    }
    let task = super::sample::read(&*store, places[0]).await;
    let finished = FinishedTask { place: places[0], fence: task.fence, state: task.state };
    assert_eq!(store.delete_finished(vec![finished]).await.unwrap(), [Applied::Moved]);
    assert_eq!(found(&*store, &of("blue"), "label").await, [4, 3, 2, 1], "one by hand");
    while store.retire(KEEP, KEEP, 100).await.unwrap().deleted > 0 {}
    assert_eq!(found(&*store, &of("blue"), "label").await, [4, 3], "and those whose time is over");
    insert(&*store, labelled(0, "blue")).await;
    assert_eq!(found(&*store, &of("blue"), "label").await, [0, 4, 3]);
    let asked = DeleteTasks {
        namespace: Name::default_namespace(),
        from: None,
        limit: 100,
        in_flight: true,
        now: NOW,
    };
    for part in 0..store.parts() {
        let mut asked = asked.clone();
        while let Some(next) = store.delete_tasks_in(part, asked.clone()).await.unwrap().next {
            asked.from = Some(next);
        }
    }
    assert_eq!(all(&*store, &of("blue")).await.0, [], "with its namespace");
}

pub async fn without_a_queue_each_that_has_tasks_must_have_declared_the_label(store: Arc<dyn Store>) {
    declare(&*store, queue("mail"), &["team"]).await;
    index_all(&*store).await;
    insert(&*store, labelled(1, "blue")).await;
    let any = Query { queue: None, ..of("blue") };
    assert_eq!(found(&*store, &any, "label").await, [1]);
    let elsewhere = QueueKey { namespace: name("other"), queue: name("mail") };
    insert(&*store, NewTask { queue: elsewhere.clone(), ..labelled(1, "blue") }).await;
    assert_eq!(found(&*store, &any, "label").await, [1], "not of another namespace");
    insert(&*store, NewTask { queue: queue("sms"), ..labelled(2, "blue") }).await;
    assert_eq!(found(&*store, &any, "ids").await, [2, 1]);
    declare(&*store, queue("sms"), &["team"]).await;
    index_all(&*store).await;
    assert_eq!(found(&*store, &any, "label").await, [2, 1]);
    let of_all = Query { namespace: None, ..any };
    assert_eq!(found(&*store, &of_all, "ids").await.len(), 3);
}

pub async fn what_is_no_longer_declared_is_walked_to_until_it_is_whole_again(store: Arc<dyn Store>) {
    declare(&*store, queue("mail"), &["team"]).await;
    index_all(&*store).await;
    insert(&*store, labelled(1, "blue")).await;
    declare(&*store, queue("mail"), &[]).await;
    insert(&*store, labelled(2, "blue")).await;
    assert_eq!(found(&*store, &of("blue"), "ids").await, [2, 1]);
    assert_eq!(store.label_indexes().await.unwrap(), []);
    declare(&*store, queue("mail"), &["team", "env"]).await;
    assert_eq!(found(&*store, &of("blue"), "ids").await, [2, 1]);
    index_all(&*store).await;
    assert_eq!(found(&*store, &of("blue"), "label").await, [2, 1], "each of them once");
    // Another setting of the queue leaves it as it is.
    declare(&*store, queue("mail"), &["team"]).await;
    assert_eq!(found(&*store, &of("blue"), "label").await, [2, 1]);
}

pub async fn the_dead_of_a_namespace_are_found_among_the_dead_alone(store: Arc<dyn Store>) {
    index_all(&*store).await;
    store.insert((100..160).map(ask).collect(), CALLER, NOW).await.unwrap();
    for id in 0..7 {
        walk_to(&*store, id, State::Dead).await;
    }
    let dead = Query {
        namespace: Some(Name::default_namespace()),
        state: Some(State::Dead),
        limit: 3,
        ..Query::default()
    };
    assert_eq!(found(&*store, &dead, "dead").await, [6, 5, 4, 3, 2, 1, 0]);
    let none = Query { queue: Some(name("sms")), ..dead.clone() };
    assert_eq!(found(&*store, &none, "dead").await, [0; 0]);
    let elsewhere = Query { namespace: Some(name("other")), ..dead.clone() };
    assert_eq!(found(&*store, &elsewhere, "dead").await, [0; 0]);
    let (tasks, _) = all(&*store, &dead).await;
    for task in &tasks[..2] {
        let task = super::sample::read(&*store, task.place).await;
        let redrive = punctual_contract::store::Change::Redrive { execute_at: NEXT };
        super::sample::moved(&*store, &task, redrive, NOW).await;
    }
    assert_eq!(found(&*store, &dead, "dead").await, [4, 3, 2, 1, 0], "what lives again is none of them");
    let task = super::sample::read(&*store, tasks[3].place).await;
    let finished = FinishedTask { place: task.place, fence: task.fence, state: task.state };
    assert_eq!(store.delete_finished(vec![finished]).await.unwrap(), [Applied::Moved]);
    assert_eq!(found(&*store, &dead, "dead").await, [4, 2, 1, 0]);
}

/// Along due times where the store has a key for that; by ids otherwise, and either way each once.
pub async fn a_search_along_due_times_finds_everything_once_the_latest_first(store: Arc<dyn Store>) {
    let many = (0..90).map(|id| NewTask { execute_at: NEXT.plus((id * 37) % 50), ..ask(id) });
    let crowd = (100..120).map(|id| NewTask { execute_at: NEXT.plus(1_000), ..ask(id) });
    store.insert(many.chain(crowd).collect(), CALLER, NOW).await.unwrap();
    let due = |from, before| Query {
        namespace: Some(Name::default_namespace()),
        due_after: from,
        due_before: before,
        by_due_time: true,
        limit: 4,
        ..Query::default()
    };
    let ranges = [
        (None, None),
        (Some(NEXT.plus(10)), Some(NEXT.plus(20))),
        (Some(NEXT.plus(1_000)), None),
        (None, Some(NEXT.plus(1_000))),
        (Some(NEXT.plus(2_000)), None),
    ];
    for (from, before) in ranges {
        let (tasks, alongs) = all(&*store, &due(from, before)).await;
        let is_in =
            |task: &Task| from.is_none_or(|at| task.due_at >= at) && before.is_none_or(|at| task.due_at < at);
        let (everything, _) = all(&*store, &due(None, None)).await;
        let wanted: BTreeSet<i64> = everything.iter().filter(|task| is_in(task)).map(Task::task_id).collect();
        let ids: BTreeSet<i64> = tasks.iter().map(Task::task_id).collect();
        assert_eq!((ids.len(), &ids), (tasks.len(), &wanted), "{from:?} {before:?}");
        if alongs == ["due time"].into() {
            assert!(tasks.is_sorted_by_key(|task| std::cmp::Reverse((task.due_at, task.place.id))));
        } else {
            assert_eq!(alongs, ["ids"].into());
        }
    }
    assert_eq!(all(&*store, &due(None, None)).await.0.len(), 110);
    // Of what waits, every store has a key.
    let waiting = Query { state: Some(State::Scheduled), ..due(Some(NEXT.plus(10)), None) };
    let (tasks, alongs) = all(&*store, &waiting).await;
    let ids: BTreeSet<i64> = tasks.iter().map(Task::task_id).collect();
    let late = (0..90).filter(|id| (id * 37) % 50 >= 10).chain(100..120).collect::<BTreeSet<i64>>();
    assert_eq!((alongs, tasks.len(), ids), (["due time"].into(), late.len(), late));
    assert!(tasks.is_sorted_by_key(|task| std::cmp::Reverse((task.due_at, task.place.id))));
    for state in [None, Some(State::Scheduled)] {
        for (from, before) in ranges {
            let rising = Query { state, earliest_first: true, ..due(from, before) };
            let (tasks, alongs) = all(&*store, &rising).await;
            let falling = all(&*store, &Query { earliest_first: false, ..rising }).await.0;
            let ids = |tasks: &[Task]| tasks.iter().map(Task::task_id).collect::<BTreeSet<i64>>();
            assert_eq!((tasks.len(), ids(&tasks)), (falling.len(), ids(&falling)), "{from:?} {before:?}");
            if alongs == ["due time"].into() {
                assert!(tasks.is_sorted_by_key(|task| (task.due_at, task.place.id)), "{from:?} {before:?}");
            }
        }
    }
    let filtered = Query { state: Some(State::Dead), ..due(None, None) };
    assert_eq!(all(&*store, &filtered).await.0, []);
}
