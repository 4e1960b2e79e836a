//! Bulk operations: their documents, progress and failures; and which tasks match.

use super::{
    sample::{CALLER, LATER, NEXT, NOW, ask, full, insert_at, name, queue},
    walk::walk_to,
};
use punctual_contract::{
    BulkStore, Store,
    bulk::{AdvanceBulk, BulkFailure, FAILURES_MAX, NewBulk, StoredBulk, TaskFilter},
    settings::SaveSetting,
    store::{Applied, Change, Step},
};
use punctual_domain::{
    bulk::{Action, Bulk, BulkState, Filter, NewTime, Progress, Tally},
    history::Note,
    name::{Name, QueueKey},
    place::{Partition, TaskRef},
    settings::{QueueSettings, Scope, Setting},
    state::State,
    task::NewTask,
    time::Millis,
};
use std::{collections::BTreeSet, sync::Arc};
use tokio::task::JoinSet;

const ALL_SLOTS: u32 = u32::MAX;

fn new(namespace: &str) -> NewBulk {
    let filter = Filter { queue: Some(name("mail")), ..Filter::default() };
    let bulk = Bulk { action: Action::Cancel { stop_if_fired: false }, filter, rate: 10, reason: None };
    let progress = Progress { count: 7, previewed_at: NOW, ..Progress::default() };
    NewBulk { namespace: name(namespace), bulk, progress, by: "ada".to_owned() }
}

async fn made(store: &dyn BulkStore) -> StoredBulk {
    store.create_bulk(new("default"), NOW).await.unwrap()
}

async fn current(store: &dyn BulkStore, of: &StoredBulk) -> StoredBulk {
    store.bulk(&of.namespace, of.id).await.unwrap().unwrap()
}

fn advance(of: &StoredBulk, state: BulkState, wake_at: Option<Millis>) -> AdvanceBulk {
    AdvanceBulk {
        id: of.id,
        step: of.step,
        state,
        progress: Progress { batch_number: of.progress.batch_number + 1, ..of.progress.clone() },
        wake_at,
        failed: Vec::new(),
        mended: Vec::new(),
    }
}

fn failure(id: i64, error: &str) -> BulkFailure {
    let place = TaskRef { partition: Partition(1), due_at: NOW, id };
    BulkFailure { place, at: NOW, error: error.to_owned() }
}

async fn failures(store: &dyn BulkStore, of: &StoredBulk) -> Vec<BulkFailure> {
    store.bulk_failures(of.id, i64::MIN, 100_000).await.unwrap()
}

pub async fn an_operation_comes_back_as_it_was_made(store: Arc<dyn BulkStore>, _: Arc<dyn Store>) {
    let filter = Filter {
        queue: Some(name("mail")),
        state: Some(State::Retrying),
        label: Some(("t\u{1F600}".to_owned(), "'x' \\ \"".to_owned())),
        due_before: Some(Millis::MAX),
        error: Some("\u{e9} 100%".to_owned()),
        ..Filter::default()
    };
    let action = Action::Reschedule(NewTime::ByMs(-5));
    let bulk = Bulk { action, filter, rate: 3, reason: Some("why \u{1F600}".to_owned()) };
    let progress = Progress {
        count: 9,
        count_is_exact: true,
        previewed_at: NOW,
        batch: vec!["a".to_owned(), "b".to_owned()],
        tally: Tally { done: 1, skipped: 2, failed: 3 },
        note: Some("\u{e9}".to_owned()),
        ..Progress::default()
    };
    let asked = NewBulk { bulk, progress, ..new("default") };
    let made = store.create_bulk(asked.clone(), NOW).await.unwrap();
    assert_eq!((&made.bulk, &made.progress), (&asked.bulk, &asked.progress));
    assert_eq!((made.state, made.step, made.wake_at), (BulkState::Previewed, 1, None));
    assert_eq!((made.created_at, made.updated_at, made.created_by.as_str()), (NOW, NOW, "ada"));
    assert_eq!(current(&*store, &made).await, made);
    assert_eq!(store.bulk(&name("other"), made.id).await.unwrap(), None, "it is another namespace's");
    assert_eq!(store.bulk(&made.namespace, made.id + 1).await.unwrap(), None);
    assert!(self::made(&*store).await.id > made.id);
}

pub async fn an_advance_on_another_step_changes_nothing(store: Arc<dyn BulkStore>, _: Arc<dyn Store>) {
    let one = made(&*store).await;
    let asked = advance(&one, BulkState::Running, Some(NOW));
    assert_eq!(store.advance_bulk(asked.clone(), LATER).await.unwrap(), Applied::Moved);
    let moved = current(&*store, &one).await;
    assert_eq!((moved.step, moved.state, moved.wake_at), (2, BulkState::Running, Some(NOW)));
    assert_eq!((moved.updated_at, moved.created_at, moved.progress), (LATER, NOW, asked.progress.clone()));
    let again = AdvanceBulk { failed: vec![failure(1, "no")], ..asked };
    assert_eq!(store.advance_bulk(again, LATER).await.unwrap(), Applied::Lost);
    let unknown = AdvanceBulk { id: one.id + 9, ..advance(&one, BulkState::Running, None) };
    assert_eq!(store.advance_bulk(unknown, LATER).await.unwrap(), Applied::Lost);
    assert_eq!((current(&*store, &one).await.step, failures(&*store, &one).await), (2, vec![]));
}

pub async fn of_many_who_advance_one_step_one_is_applied(store: Arc<dyn BulkStore>, _: Arc<dyn Store>) {
    let one = made(&*store).await;
    let mut asking = JoinSet::new();
    for nth in 0..16 {
        let (store, one) = (Arc::clone(&store), one.clone());
        asking.spawn(async move {
            let failed = vec![failure(nth, "no")];
            let asked = AdvanceBulk { failed, ..advance(&one, BulkState::Running, None) };
            store.advance_bulk(asked, NOW).await.unwrap() == Applied::Moved
        });
    }
    assert_eq!(asking.join_all().await.into_iter().filter(|flag| *flag).count(), 1);
    assert_eq!(failures(&*store, &one).await.len(), 1);
}

pub async fn failures_stand_and_go_with_their_advance(store: Arc<dyn BulkStore>, _: Arc<dyn Store>) {
    let (mut one, other) = (made(&*store).await, made(&*store).await);
    let failed = vec![failure(3, "a \u{1F600}"), failure(1, "b"), failure(2, "c")];
    for bulk in [&one, &other] {
        let asked = AdvanceBulk { failed: failed.clone(), ..advance(bulk, BulkState::Running, None) };
        assert_eq!(store.advance_bulk(asked, NOW).await.unwrap(), Applied::Moved);
    }
    let ids = |all: Vec<BulkFailure>| all.iter().map(|failure| failure.place.id).collect::<Vec<_>>();
    assert_eq!(failures(&*store, &one).await, [failure(1, "b"), failure(2, "c"), failure(3, "a \u{1F600}")]);
    assert_eq!(ids(store.bulk_failures(one.id, 1, 1).await.unwrap()), [2]);
    one = current(&*store, &one).await;
    let failed = vec![failure(2, "again")];
    let asked = AdvanceBulk { failed, mended: vec![3, 77], ..advance(&one, BulkState::Done, None) };
    assert_eq!(store.advance_bulk(asked, NOW).await.unwrap(), Applied::Moved);
    assert_eq!(failures(&*store, &one).await, [failure(1, "b"), failure(2, "again")]);
    assert_eq!(ids(failures(&*store, &other).await), [1, 2, 3]);
}

pub async fn no_more_failures_are_kept_than_are_promised(store: Arc<dyn BulkStore>, _: Arc<dyn Store>) {
    let mut one = made(&*store).await;
    let many = i64::try_from(FAILURES_MAX).unwrap();
    for from in [0, many, 2 * many] {
        let failed = (from..from + many).map(|id| failure(id, "no")).collect();
        let asked = AdvanceBulk { failed, ..advance(&one, BulkState::Running, None) };
        assert_eq!(store.advance_bulk(asked, NOW).await.unwrap(), Applied::Moved);
        one = current(&*store, &one).await;
    }
    assert_eq!(failures(&*store, &one).await.len(), FAILURES_MAX);
}

pub async fn only_what_is_due_and_of_the_asked_slots_is_found(store: Arc<dyn BulkStore>, _: Arc<dyn Store>) {
    assert_eq!(store.next_bulk_wake().await.unwrap(), None);
    let mut all = Vec::new();
    for wake_at in [Some(NOW.plus(2)), Some(NOW), Some(NOW.plus(1)), None] {
        let bulk = made(&*store).await;
        store.advance_bulk(advance(&bulk, BulkState::Running, wake_at), NOW).await.unwrap();
        all.push(current(&*store, &bulk).await);
    }
    let found = async |slots: u32, now: i64, limit: usize| -> Vec<i64> {
        store
            .due_bulks(slots, NOW.plus(now), limit)
            .await
            .unwrap()
            .iter()
            .map(|due_bulk| due_bulk.id)
            .collect()
    };
    assert_eq!(store.next_bulk_wake().await.unwrap(), Some(NOW));
    assert_eq!(found(ALL_SLOTS, -1, 9).await, [0; 0]);
    assert_eq!(found(ALL_SLOTS, 1, 9).await, [all[1].id, all[2].id]);
    assert_eq!(found(ALL_SLOTS, 9, 2).await, [all[1].id, all[2].id]);
    assert_eq!(found(1 << all[2].slot(), 9, 9).await, [all[2].id]);
    assert_eq!(found(!(1 << all[2].slot()), 9, 9).await, [all[1].id, all[0].id]);
    assert_eq!(store.due_bulks(ALL_SLOTS, NOW, 9).await.unwrap(), [all[1].clone()]);
}

pub async fn operations_are_listed_the_newest_first_of_their_namespace(
    store: Arc<dyn BulkStore>,
    _: Arc<dyn Store>,
) {
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(made(&*store).await.id);
        store.create_bulk(new("other"), NOW).await.unwrap();
    }
    ids.reverse();
    let listed = async |below: i64, limit: usize| -> Vec<i64> {
        let page = store.bulks(&Name::default_namespace(), below, limit).await.unwrap();
        page.iter().map(|bulk| bulk.id).collect()
    };
    assert_eq!(listed(i64::MAX, 9).await, ids);
    assert_eq!(listed(i64::MAX, 2).await, ids[..2]);
    assert_eq!(listed(ids[1], 2).await, ids[2..4]);
}

pub async fn what_has_ended_long_ago_is_forgotten_and_what_is_at_work_stays(
    store: Arc<dyn BulkStore>,
    _: Arc<dyn Store>,
) {
    let mut all = Vec::new();
    for state in BulkState::ALL {
        let bulk = made(&*store).await;
        let failed = vec![failure(1, "no")];
        store.advance_bulk(AdvanceBulk { failed, ..advance(&bulk, state, None) }, NOW).await.unwrap();
        all.push((state, bulk));
    }
    assert_eq!(store.forget_bulks(NOW, 9).await.unwrap(), 0, "none is older than that");
    assert_eq!(store.forget_bulks(NOW.plus(1), 2).await.unwrap(), 2, "so many at most");
    assert_eq!(store.forget_bulks(NOW.plus(1), 9).await.unwrap(), 1);
    for (state, bulk) in all {
        let is_there = store.bulk(&bulk.namespace, bulk.id).await.unwrap().is_some();
        let stays = matches!(state, BulkState::Running | BulkState::Paused);
        assert_eq!(
            (is_there, failures(&*store, &bulk).await.len()),
            (stays, usize::from(stays)),
            "{state:?}"
        );
    }
}

fn any() -> TaskFilter {
    TaskFilter { states: State::ALL.to_vec(), limit: 3, ..TaskFilter::default() }
}

/// All pages of a search.
async fn places(store: &dyn BulkStore, look: &TaskFilter) -> Vec<TaskRef> {
    let (mut all, mut look) = (Vec::new(), look.clone());
    for _ in 0..10_000 {
        let page = store.matching(&look).await.unwrap();
        assert!(page.places.len() <= look.limit, "bounded");
        all.extend(page.places);
        let Some(next) = page.next_before_id else { return all };
        assert!(look.before_id.is_none_or(|before_id| next < before_id), "each page goes on below the last");
        look.before_id = Some(next);
    }
    panic!("a look that never ends");
}

pub async fn each_condition_of_a_look_holds_and_all_hold_together(
    bulks: Arc<dyn BulkStore>,
    store: Arc<dyn Store>,
) {
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
    walk_to(&*store, 7, State::Dead).await;
    let label = |key: &str, value: &str| Some((key.to_owned(), value.to_owned()));
    let table = [
        (any(), vec![7, 6, 5, 4, 3, 2, 1, 0]),
        (TaskFilter { namespace: Some(name("other")), ..any() }, vec![1]),
        (TaskFilter { queue: Some(name("sms")), ..any() }, vec![2]),
        (TaskFilter { states: vec![State::Cancelled], ..any() }, vec![6]),
        (TaskFilter { states: vec![State::Cancelled, State::Dead], ..any() }, vec![7, 6]),
        (TaskFilter { states: vec![], ..any() }, vec![]),
        (TaskFilter { states: vec![State::Blocked], ..any() }, vec![]),
        (TaskFilter { kind: Some(name("resize")), ..any() }, vec![3]),
        (TaskFilter { label: label("team", "blue"), ..any() }, vec![4]),
        (TaskFilter { label: label("team", "blu"), ..any() }, vec![]),
        (TaskFilter { due_after: Some(NEXT), ..any() }, vec![5, 4]),
        (TaskFilter { due_after: Some(NEXT), due_before: Some(NEXT.plus(1)), ..any() }, vec![4]),
        (TaskFilter { created_until: Some(NOW.plus(-1)), ..any() }, vec![]),
        (TaskFilter { queue: Some(name("mail")), namespace: Some(name("other")), ..any() }, vec![1]),
    ];
    for (look, wanted) in table {
        let found = places(&*bulks, &look).await;
        let tasks = store.read(&found).await.unwrap();
        let ids: Vec<i64> =
            tasks.iter().map(|task| task.as_ref().expect("its place is its reference").task_id()).collect();
        assert_eq!(ids, wanted, "{look:?}");
    }
    insert_at(&*store, ask(8), LATER).await;
    let before = TaskFilter { created_until: Some(LATER.plus(-1)), queue: Some(name("mail")), ..any() };
    let newest = store.read(&places(&*bulks, &before).await).await.unwrap();
    assert!(newest.iter().flatten().all(|task| task.task_id() != 8), "it was made later");
    let of_what = TaskFilter { error: Some("no such text".to_owned()), ..any() };
    assert_eq!(places(&*bulks, &of_what).await, []);
}

pub async fn a_look_at_some_partitions_finds_what_is_there_and_nothing_else(
    bulks: Arc<dyn BulkStore>,
    store: Arc<dyn Store>,
) {
    let labelled = |id| NewTask { labels: [("team".to_owned(), "blue".to_owned())].into(), ..ask(id) };
    let inserted = store.insert((0..40).map(labelled).collect(), CALLER, NOW).await.unwrap();
    let mut all: Vec<TaskRef> = inserted.iter().map(|inserted| inserted.task.place).collect();
    all.reverse();
    let some: BTreeSet<Partition> = all.iter().map(|place| place.partition).take(3).collect();
    let there: Vec<TaskRef> = all.iter().copied().filter(|place| some.contains(&place.partition)).collect();
    let others: BTreeSet<Partition> =
        (0..store.partitions()).map(Partition).filter(|partition| !some.contains(partition)).collect();
    let elsewhere: Vec<TaskRef> =
        all.iter().copied().filter(|place| !some.contains(&place.partition)).collect();
    assert!(!there.is_empty() && !elsewhere.is_empty());
    let look = TaskFilter { namespace: Some(Name::default_namespace()), queue: Some(name("mail")), ..any() };
    let of_label = TaskFilter { label: Some(("team".to_owned(), "blue".to_owned())), ..look.clone() };
    let finds = async |look: &TaskFilter| {
        for (partitions, wanted) in [(&some, &there), (&others, &elsewhere)] {
            let look = TaskFilter { partitions: Some(partitions.clone()), ..look.clone() };
            assert_eq!(places(&*bulks, &look).await, *wanted, "{look:?}");
        }
        let none = TaskFilter { partitions: Some(BTreeSet::new()), ..look.clone() };
        assert_eq!(places(&*bulks, &none).await, []);
    };
    finds(&look).await;
    finds(&of_label).await;
    let settings = QueueSettings { indexed_labels: ["team".to_owned()].into(), ..QueueSettings::default() };
    let save = SaveSetting {
        scope: Scope::Queue(queue("mail")),
        setting: Some(Setting::Queue(Box::new(settings))),
        expected: None,
        by: CALLER.to_owned(),
    };
    store.save_setting(save, NOW).await.unwrap();
    while store.index_labels_in(0, 9).await.unwrap() > 0 {}
    finds(&of_label).await;
    let note = Note { by: CALLER.to_owned(), ..Note::default() };
    let bury = |place: &TaskRef| Step {
        place: *place,
        fence: None,
        change: Change::DeadLetter { keep_until: LATER },
        note: note.clone(),
        fired_at: None,
        known: None,
    };
    store.apply(all.iter().map(bury).collect(), NOW).await.unwrap();
    finds(&TaskFilter { states: vec![State::Dead], ..look }).await;
}

pub async fn a_look_along_a_declared_label_finds_the_same(bulks: Arc<dyn BulkStore>, store: Arc<dyn Store>) {
    let team = |id: i64| if id % 4 == 0 { "red" } else { "blue" };
    let labelled = |id| NewTask { labels: [("team".to_owned(), team(id).to_owned())].into(), ..ask(id) };
    store.insert((0..40).map(labelled).collect(), CALLER, NOW).await.unwrap();
    let look = TaskFilter {
        namespace: Some(Name::default_namespace()),
        queue: Some(name("mail")),
        label: Some(("team".to_owned(), "red".to_owned())),
        limit: 3,
        ..any()
    };
    let before = places(&*bulks, &look).await;
    assert_eq!(before.len(), 10);
    let indexed_labels = ["team".to_owned()].into();
    let settings = QueueSettings { indexed_labels, ..QueueSettings::default() };
    let save = SaveSetting {
        scope: Scope::Queue(queue("mail")),
        setting: Some(Setting::Queue(Box::new(settings))),
        expected: None,
        by: CALLER.to_owned(),
    };
    store.save_setting(save, NOW).await.unwrap();
    assert_eq!(places(&*bulks, &look).await, before, "while it is not whole");
    while store.index_labels_in(0, 9).await.unwrap() > 0 {}
    assert_eq!(places(&*bulks, &look).await, before);
    let filtered = TaskFilter { states: vec![State::Dead], ..look.clone() };
    assert_eq!(places(&*bulks, &filtered).await, []);
}

pub async fn pages_of_a_look_find_everything_once_whatever_is_changed_meanwhile(
    bulks: Arc<dyn BulkStore>,
    store: Arc<dyn Store>,
) {
    let mut wanted = Vec::new();
    for id in 0..20 {
        wanted.push(insert_at(&*store, ask(id), NOW).await.task.place.id);
    }
    wanted.reverse();
    let mut look = TaskFilter { limit: 6, created_until: Some(NOW), ..any() };
    let mut found = Vec::new();
    loop {
        let page = bulks.matching(&look).await.unwrap();
        found.extend(page.places.iter().map(|place| place.id));
        // Each task was moved in time, so its position changed in every key except that of ids.
        let change =
            Change::Reschedule { execute_at: Some(NEXT), priority: None, payload: None, queue: None };
        let note = Note { by: CALLER.to_owned(), ..Note::default() };
        let step = |place: &TaskRef| Step {
            place: *place,
            fence: None,
            change: change.clone(),
            note: note.clone(),
            fired_at: None,
            known: None,
        };
        store.apply(page.places.iter().map(step).collect(), NOW).await.unwrap();
        insert_at(&*store, ask(100 + i64::try_from(found.len()).unwrap()), LATER).await;
        let Some(next) = page.next_before_id else { break };
        look.before_id = Some(next);
    }
    assert_eq!(found, wanted);
}

pub async fn a_deleted_namespace_takes_its_operations_along(
    bulks: Arc<dyn BulkStore>,
    store: Arc<dyn Store>,
) {
    let other = bulks.create_bulk(new("other"), NOW).await.unwrap();
    for _ in 0..3 {
        let bulk = made(&*bulks).await;
        let failed = (0..3).map(|id| failure(id, "no")).collect();
        let asked = AdvanceBulk { failed, ..advance(&bulk, BulkState::Running, Some(NOW)) };
        bulks.advance_bulk(asked, NOW).await.unwrap();
    }
    let all = bulks.bulks(&Name::default_namespace(), i64::MAX, 9).await.unwrap();
    while store.delete_traces(&Name::default_namespace(), 2).await.unwrap() > 0 {}
    for bulk in all {
        assert_eq!(failures(&*bulks, &bulk).await, []);
        assert_eq!(bulks.bulk(&bulk.namespace, bulk.id).await.unwrap(), None);
    }
    assert_eq!(current(&*bulks, &other).await, other);
}
