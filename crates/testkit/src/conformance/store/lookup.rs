//! The look-ups of tasks by callers.

use super::{
    sample::{
        CALLER, KEEP, LATER, NEXT, NOW, apply, ask, full, insert, insert_at, name, note, nowhere, queue,
        read, step, version,
    },
    walk::{reachable, walk_to},
};
use punctual_contract::{
    Store,
    store::{Applied, Change, Page, Query, Step},
};
use punctual_domain::{
    history::Note,
    name::{Name, QueueKey},
    state::State,
    task::{NewTask, Task},
};
use std::sync::Arc;

pub async fn reading_answers_in_order_with_gaps_where_nothing_is(store: Arc<dyn Store>) {
    let one = insert(&*store, ask(1)).await.task;
    let two = insert(&*store, ask(2)).await.task;
    let found = store.read(&[two.place, nowhere(), one.place, two.place]).await.unwrap();
    assert_eq!(found, [Some(two.clone()), None, Some(one), Some(two)]);
}

pub async fn versions_come_the_highest_first(store: Arc<dyn Store>) {
    for number in [-5, 0, 3, 11] {
        insert(&*store, version(7, number)).await;
    }
    insert(&*store, version(8, 99)).await;
    let of = async |id, asked, limit| {
        let found = store.versions(&Name::default_namespace(), id, asked, limit).await.unwrap();
        found.iter().map(|task| task.ask.task_version).collect::<Vec<_>>()
    };
    assert_eq!(of(7, None, 9).await, [11, 3, 0, -5]);
    assert_eq!(of(7, None, 2).await, [11, 3]);
    assert_eq!(of(7, Some(3), 9).await, [3]);
    assert_eq!(of(7, Some(4), 9).await, [0; 0]);
    assert_eq!(of(9, None, 9).await, [0; 0]);
    assert_eq!(store.versions(&name("other"), 7, None, 9).await.unwrap(), [], "another namespace");
}

pub async fn the_highest_version_of_each_of_several_ids_is_one_read(store: Arc<dyn Store>) {
    for (id, number) in [(7, -5), (7, 11), (7, 3), (8, 99), (9, 0)] {
        insert(&*store, version(id, number)).await;
    }
    let of = async |ids: &[i64]| {
        let mut found = store.latest_versions(&Name::default_namespace(), ids).await.unwrap();
        found.sort_by_key(Task::task_id);
        found.iter().map(|task| (task.task_id(), task.ask.task_version)).collect::<Vec<_>>()
    };
    assert_eq!(of(&[9, 7, 8_000_000_001]).await, [(7, 11), (9, 0)]);
    assert_eq!(of(&[8]).await, [(8, 99)]);
    assert_eq!(of(&[]).await, []);
    assert_eq!(store.latest_versions(&name("other"), &[7]).await.unwrap(), [], "another namespace");
    let found = store.latest_versions(&Name::default_namespace(), &[8]).await.unwrap();
    assert_eq!(found, [read(&*store, found[0].place).await], "whole, with its history");
}

/// All pages of a query.
async fn list(store: &dyn Store, query: &Query) -> Vec<Task> {
    let mut tasks: Vec<Task> = Vec::new();
    let mut query = query.clone();
    for _ in 0..10_000 {
        let Page { tasks: page, next_before_id, .. } = store.list(&query).await.unwrap();
        assert!(page.len() <= query.limit, "bounded");
        tasks.extend(page);
        let Some(next) = next_before_id else { return tasks };
        assert!(query.before_id.is_none_or(|before_id| next < before_id), "each page goes on below the last");
        query.before_id = Some(next);
    }
    panic!("a list that never ends");
}

fn ids(tasks: &[Task]) -> Vec<i64> {
    tasks.iter().map(Task::task_id).collect()
}

pub async fn a_list_is_newest_first_and_bounded(store: Arc<dyn Store>) {
    for id in 0..20 {
        insert_at(&*store, ask(id), NOW.plus(id)).await;
    }
    let page = store.list(&Query { limit: 5, ..Query::default() }).await.unwrap();
    assert!(page.tasks.len() <= 5 && page.next_before_id.is_some());
    let all = list(&*store, &Query { limit: 5, ..Query::default() }).await;
    assert_eq!(ids(&all), (0..20).rev().collect::<Vec<_>>());
    assert!(all.iter().all(|task| task.history.is_empty()), "histories are not filled in");
    let whole = read(&*store, all[3].place).await;
    assert_eq!(Task { history: Vec::new(), ..whole }, all[3], "all but the history");
}

pub async fn the_oldest_first_is_the_same_list_the_other_way_round(store: Arc<dyn Store>) {
    for id in 0..20 {
        insert_at(&*store, ask(id), NOW.plus(40 - id)).await;
    }
    let upward = Query { oldest_first: true, limit: 6, ..Query::default() };
    let (mut query, mut all, mut pages) = (upward.clone(), Vec::new(), 0);
    loop {
        let page = store.list(&query).await.unwrap();
        assert!(page.tasks.len() <= 6 && page.next_before_id.is_none() && pages < 10);
        all.extend(page.tasks);
        pages += 1;
        let Some(next) = page.next_after_id else { break };
        assert!(query.after_id.is_none_or(|after_id| after_id < next), "each page goes on above the last");
        query.after_id = Some(next);
    }
    assert_eq!((ids(&all), pages), ((0..20).collect(), 4));
    assert!(all.iter().all(|task| task.history.is_empty()), "histories are not filled in");
    let kind = Query { kind: Some(name("nobody")), ..upward };
    assert_eq!(store.list(&kind).await.unwrap().tasks, [], "filters hold");
}

pub async fn each_filter_holds_and_all_hold_together(store: Arc<dyn Store>) {
    let elsewhere = QueueKey { namespace: name("other"), queue: name("mail") };
    let asks = [
        ask(0),
        NewTask { queue: elsewhere, ..ask(1) },
        NewTask { queue: queue("sms"), ..ask(2) },
        NewTask { kind: name("resize"), ..ask(3) },
        NewTask { execute_at: NEXT, ..full(4) },
        NewTask { execute_at: NEXT.plus(1), ..ask(5) },
    ];
    store.insert(asks.to_vec(), CALLER, NOW).await.unwrap();
    walk_to(&*store, 6, State::Cancelled).await;
    let any = || Query { limit: 3, ..Query::default() };
    let label = |key: &str, value: &str| Some((key.to_owned(), value.to_owned()));
    let table = [
        (any(), vec![6, 5, 4, 3, 2, 1, 0]),
        (Query { namespace: Some(name("other")), ..any() }, vec![1]),
        (Query { queue: Some(name("sms")), ..any() }, vec![2]),
        (Query { queue: Some(name("mail")), ..any() }, vec![6, 5, 4, 3, 1, 0]),
        (Query { state: Some(State::Cancelled), ..any() }, vec![6]),
        (Query { kind: Some(name("resize")), ..any() }, vec![3]),
        (Query { label: label("team", "blue"), ..any() }, vec![4]),
        (Query { label: label("team", "blu"), ..any() }, vec![]),
        (Query { label: label("blue", "team"), ..any() }, vec![]),
        (Query { due_after: Some(NEXT), ..any() }, vec![5, 4]),
        (Query { due_before: Some(NEXT), ..any() }, vec![6, 3, 2, 1, 0]),
        (Query { due_after: Some(NEXT), due_before: Some(NEXT.plus(1)), ..any() }, vec![4]),
        (Query { label: label("team", "blue"), due_before: Some(LATER), ..any() }, vec![]),
        (Query { queue: Some(name("mail")), namespace: Some(name("other")), ..any() }, vec![1]),
        (Query { queue: Some(name("nothing")), ..any() }, vec![]),
    ];
    for (query, wanted) in table {
        assert_eq!(ids(&list(&*store, &query).await), wanted, "{query:?}");
    }
}

pub async fn the_dead_are_found_by_when_they_died_and_of_what(store: Arc<dyn Store>) {
    let errors = [Some("card declined: 51"), Some("Card 100% gone"), None, Some("timeout \u{e9}\u{1F980}")];
    for (id, error) in (0_i64..).zip(errors) {
        let task = walk_to(&*store, id, State::Running).await;
        let at = LATER.plus(id);
        let note = Note { error: error.map(str::to_owned), ..note() };
        let bury = Step { note, ..step(&task, Change::Bury { result: None, keep_until: KEEP }) };
        assert_eq!(apply(&*store, bury, at).await, Applied::Moved);
    }
    let dead = || Query { state: Some(State::Dead), limit: 2, ..Query::default() };
    let error = |text: &str| Some(text.to_owned());
    let table = [
        (dead(), vec![3, 2, 1, 0]),
        (Query { updated_from: Some(LATER.plus(2)), ..dead() }, vec![3, 2]),
        (Query { updated_from: Some(LATER.plus(4)), ..dead() }, vec![]),
        (Query { error: error("declined"), ..dead() }, vec![0]),
        (Query { error: error("Card"), ..dead() }, vec![1]),
        (Query { error: error("100%"), ..dead() }, vec![1]),
        (Query { error: error("10_% "), ..dead() }, vec![]),
        (Query { error: error("\u{e9}\u{1F980}"), ..dead() }, vec![3]),
        (Query { error: error("card"), updated_from: Some(LATER.plus(1)), ..dead() }, vec![]),
    ];
    for (query, wanted) in table {
        assert_eq!(ids(&list(&*store, &query).await), wanted, "{query:?}");
    }
}

/// Also rare tasks among many that do not match.
pub async fn pages_of_a_list_find_everything_once(store: Arc<dyn Store>) {
    let kind = |id: i64| if id % 500 == 3 { name("rare") } else { name("send") };
    let asks = (0..2_000).map(|id| NewTask { kind: kind(id), ..ask(id) }).collect();
    store.insert(asks, CALLER, NOW).await.unwrap();
    for limit in [1, 3, 100] {
        let rare = list(&*store, &Query { kind: Some(name("rare")), limit, ..Query::default() }).await;
        assert_eq!(ids(&rare), [1_503, 1_003, 503, 3], "pages of {limit}");
    }
    assert_eq!(list(&*store, &Query { limit: 300, ..Query::default() }).await.len(), 2_000);
    for state in reachable().filter(|reachable| *reachable != State::Scheduled) {
        walk_to(&*store, 5_000 + i64::from(state.code()), state).await;
        let found = list(&*store, &Query { state: Some(state), limit: 10, ..Query::default() }).await;
        assert_eq!(ids(&found), [5_000 + i64::from(state.code())]);
    }
}
