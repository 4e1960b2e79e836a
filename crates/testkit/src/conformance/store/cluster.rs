//! Cluster data: events once each and the newest first, samples by step, counts of tasks that fall due.

use super::sample::{LATER, NOW, ask, insert};
use punctual_contract::{
    ClusterStore, Store,
    cluster::{DueLook, Event, EventQuery, Sample},
    store::{Applied, Change, Step},
};
use punctual_domain::{
    event::EventKind,
    history::Note,
    name::{Name, QueueKey},
    place::Partition,
    task::NewTask,
    time::Millis,
};
use std::{collections::BTreeMap, sync::Arc};

fn event(key: &str) -> Event {
    Event {
        at: NOW,
        kind: EventKind::EngineLost,
        key: key.to_owned(),
        engine: Some("host-\u{1F980}-1".to_owned()),
        text: format!("engine {key} is gone"),
        details: r#"{"silent_ms":7}"#.to_owned(),
    }
}

fn query() -> EventQuery {
    EventQuery { limit: 100, ..EventQuery::default() }
}

async fn keys(store: &dyn ClusterStore, query: EventQuery) -> Vec<String> {
    store.events(query).await.unwrap().into_iter().map(|event| event.1.key).collect()
}

pub async fn an_event_comes_back_as_it_was_appended(store: Arc<dyn ClusterStore>, _: Arc<dyn Store>) {
    assert_eq!(store.events(query()).await.unwrap(), []);
    let plain = Event { engine: None, details: "{}".to_owned(), ..event("b") };
    for event in [event("a"), plain.clone()] {
        assert_eq!(store.append_event(event).await.unwrap(), Applied::Moved);
    }
    let found = store.events(query()).await.unwrap();
    assert!(found[0].0 > found[1].0, "later ones have higher numbers");
    assert_eq!(found.into_iter().map(|pair| pair.1).collect::<Vec<_>>(), [plain, event("a")]);
}

pub async fn no_partition_moves_unless_somebody_moves_one(store: Arc<dyn ClusterStore>, _: Arc<dyn Store>) {
    assert_eq!(store.moves().await.unwrap(), []);
}

pub async fn of_events_with_one_key_the_first_stands(store: Arc<dyn ClusterStore>, _: Arc<dyn Store>) {
    assert_eq!(store.append_event(event("a")).await.unwrap(), Applied::Moved);
    let again = Event { text: "another engine says it too".to_owned(), at: LATER, ..event("a") };
    assert_eq!(store.append_event(again).await.unwrap(), Applied::Lost);
    let found = store.events(query()).await.unwrap();
    assert_eq!(found.into_iter().map(|pair| pair.1).collect::<Vec<_>>(), [event("a")]);
    let long = "k".repeat(10_000);
    store.append_event(event(&long)).await.unwrap();
}

pub async fn each_condition_on_events_holds_and_pages_find_everything_once(
    store: Arc<dyn ClusterStore>,
    _: Arc<dyn Store>,
) {
    let other = Event { kind: EventKind::HotSetLost, at: LATER, engine: None, ..event("c") };
    for event in [event("a"), Event { at: LATER, ..event("b") }, other] {
        store.append_event(event).await.unwrap();
    }
    for (asked, expected) in [
        (query(), vec!["c", "b", "a"]),
        (EventQuery { kind: Some(EventKind::EngineLost), ..query() }, vec!["b", "a"]),
        (EventQuery { kind: Some(EventKind::HotSetBack), ..query() }, vec![]),
        (EventQuery { engine: event("a").engine, ..query() }, vec!["b", "a"]),
        (EventQuery { engine: Some("nobody".to_owned()), ..query() }, vec![]),
        (EventQuery { since: Some(LATER), ..query() }, vec!["c", "b"]),
        (EventQuery { until: Some(LATER), ..query() }, vec!["a"]),
        (EventQuery { since: Some(LATER), kind: Some(EventKind::EngineLost), ..query() }, vec!["b"]),
    ] {
        assert_eq!(keys(&*store, asked.clone()).await, expected, "{asked:?}");
    }
    let (mut before_id, mut found) = (None, Vec::new());
    for _ in 0..4 {
        let page = store.events(EventQuery { before_id, limit: 1, ..query() }).await.unwrap();
        before_id = page.last().map(|pair| pair.0).or(before_id);
        found.extend(page.into_iter().map(|pair| pair.1.key));
    }
    assert_eq!(found, ["c", "b", "a"]);
}

pub async fn events_are_bounded_in_time_and_number(store: Arc<dyn ClusterStore>, _: Arc<dyn Store>) {
    for nth in 0..6 {
        store.append_event(Event { at: Millis(1_000 * nth), ..event(&nth.to_string()) }).await.unwrap();
    }
    let trim = async |before: i64, most, limit| store.trim_events(Millis(before), most, limit).await.unwrap();
    assert_eq!(trim(0, 6, 100).await, 0);
    assert_eq!(trim(2_000, 100, 100).await, 2);
    assert_eq!(keys(&*store, query()).await, ["5", "4", "3", "2"]);
    assert_eq!(trim(0, 1, 2).await, 2, "no more than asked for, the oldest first");
    assert_eq!(keys(&*store, query()).await, ["5", "4"]);
    assert_eq!(trim(0, 1, 2).await, 1);
    assert_eq!(keys(&*store, query()).await, ["5"]);
}

pub async fn a_sample_takes_the_place_of_its_engines_last_of_that_step(
    store: Arc<dyn ClusterStore>,
    _: Arc<dyn Store>,
) {
    let sample = |step_at: i64, engine: &str, body: &str| Sample {
        step_at: Millis(step_at),
        engine: engine.to_owned(),
        body: body.to_owned(),
    };
    for sample in
        [sample(2, "a", "{}"), sample(1, "b", "x"), sample(1, "a", "y"), sample(2, "a", r#"{"n":1}"#)]
    {
        store.save_sample(sample).await.unwrap();
    }
    let all = [sample(1, "a", "y"), sample(1, "b", "x"), sample(2, "a", r#"{"n":1}"#)];
    assert_eq!(store.samples(Millis(0)).await.unwrap(), all);
    assert_eq!(store.samples(Millis(2)).await.unwrap(), all[2..]);
    assert_eq!(store.trim_samples(Millis(2)).await.unwrap(), 2);
    assert_eq!(store.samples(Millis(0)).await.unwrap(), all[2..]);
}

/// One queue's counts can be had by themselves, whatever characters its name has.
pub async fn samples_of_queues_are_kept_beside_and_read_by_queue(
    store: Arc<dyn ClusterStore>,
    _: Arc<dyn Store>,
) {
    let queue =
        |queue: &str| QueueKey { namespace: Name::new("a.b").unwrap(), queue: Name::new(queue).unwrap() };
    let sample = |step_at: i64, engine: &str, body: &str| Sample {
        step_at: Millis(step_at),
        engine: engine.to_owned(),
        body: body.to_owned(),
    };
    let body = r#"{"started_ms":5,"until_ms":9,"is_cut":false,"queues":{"a.b/q.1:x-y_z":{"fired":3,"lateness":[1,2]},"a.b/other":{}}}"#;
    let idle = r#"{"started_ms":6,"until_ms":8,"queues":{}}"#;
    for sample in [sample(1, "a", "{}"), sample(1, "a", body), sample(2, "\u{1F980}", idle)] {
        store.save_queue_sample(sample).await.unwrap();
    }
    let all = [sample(1, "a", body), sample(2, "\u{1F980}", idle)];
    assert_eq!(store.queue_samples(Millis(0), None).await.unwrap(), all);
    assert_eq!(store.queue_samples(Millis(2), None).await.unwrap(), all[1..]);
    assert_eq!(store.samples(Millis(0)).await.unwrap(), []);
    let of = async |name: &str, since| {
        let found = store.queue_samples(Millis(since), Some(&queue(name))).await.unwrap();
        let read =
            |sample: Sample| (sample.step_at.0, sample.engine, serde_json::from_str(&sample.body).unwrap());
        found.into_iter().map(read).collect::<Vec<(i64, String, serde_json::Value)>>()
    };
    let reported = |started: i64, until: i64, counts| serde_json::json!({ "started_ms": started, "until_ms": until, "counts": counts });
    let nothing = (2, "\u{1F980}".to_owned(), reported(6, 8, serde_json::json!({})));
    let counts = serde_json::json!({ "fired": 3, "lateness": [1, 2] });
    assert_eq!(of("q.1:x-y_z", 0).await, [(1, "a".to_owned(), reported(5, 9, counts)), nothing.clone()]);
    assert_eq!(of("q.1:x-y_z", 2).await, std::slice::from_ref(&nothing));
    assert_eq!(of("q", 2).await, [nothing]);
    store.trim_samples(Millis(2)).await.unwrap();
    assert_eq!(store.queue_samples(Millis(0), None).await.unwrap(), all[1..]);
}

pub async fn what_waits_for_its_time_is_counted_by_step_and_nothing_else(
    cluster: Arc<dyn ClusterStore>,
    store: Arc<dyn Store>,
) {
    let mut expected: BTreeMap<(Partition, usize), u64> = BTreeMap::new();
    for nth in 0..40_i64 {
        let at = NOW.plus(1_000 + nth * 250);
        let task = NewTask { execute_at: at, ..ask(nth + 1) };
        let place = insert(&*store, task).await.task.place;
        if nth % 5 == 0 {
            let step = Step {
                place,
                fence: None,
                change: Change::Cancel { keep_until: Millis::MAX },
                note: Note::default(),
                fired_at: None,
                known: None,
            };
            store.apply(vec![step], NOW).await.unwrap();
        } else if at < NOW.plus(10_000) {
            let step = usize::try_from(at.since(NOW) / 1_000).unwrap();
            *expected.entry((place.partition, step)).or_default() += 1;
        }
    }
    let (mut found, mut passed) = (BTreeMap::new(), 0);
    for partition in (0..store.partitions()).map(Partition) {
        let look = DueLook { partition, from: NOW, until: NOW.plus(10_000), step_ms: 1_000, limit: 1_000 };
        let counts = cluster.due_counts(look.clone()).await.unwrap();
        assert!(!counts.is_cut);
        for (step, tasks) in &counts.steps {
            passed += tasks;
            found.insert((partition, *step), *tasks);
        }
        let few = cluster.due_counts(DueLook { limit: 1, ..look }).await.unwrap();
        let of_few: u64 = few.steps.iter().map(|step| step.1).sum();
        assert!(of_few <= 1 && (few.is_cut || counts.steps.is_empty()), "{few:?}");
    }
    assert_eq!(found, expected);
    assert!(passed > 20);
}

pub async fn a_database_says_its_name(cluster: Arc<dyn ClusterStore>, store: Arc<dyn Store>) {
    for part in 0..store.parts() {
        let database = cluster.database(part).await.unwrap();
        assert!(!database.name.is_empty());
        assert!(database.bytes.is_some_and(|bytes| bytes > 0), "{database:?}");
    }
    assert!(cluster.signs_of_life().await.unwrap().is_empty(), "nobody lives here");
}
