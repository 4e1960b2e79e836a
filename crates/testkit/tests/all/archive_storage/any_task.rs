//! Any possible task, and some impossible ones: the archive keeps each unchanged.

use proptest::{option, prelude::*, sample::select};
use punctual_domain::{
    history::Entry,
    insert::OnConflict,
    key::Key,
    name::{Name, QueueKey},
    place::{Partition, TaskRef},
    retry::RetryPolicy,
    state::{Event, State, TRANSITIONS},
    task::{Content, Demands, Lease, NewTask, Priority, Task, TaskResult},
    time::Millis,
};

fn name() -> impl Strategy<Value = Name> {
    "[a-zA-Z0-9._:-]{1,20}".prop_map(|text| Name::new(&text).unwrap())
}

fn millis() -> impl Strategy<Value = Millis> {
    prop_oneof![(0..=Millis::MAX.0).prop_map(Millis), any::<i64>().prop_map(Millis)]
}

/// JSON, other text, or bytes that are no text; content marked as JSON may be invalid.
fn content() -> impl Strategy<Value = Content> {
    let bytes = prop_oneof![
        any::<String>().prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..40),
        Just(br#"{ "a" : 1.50, "b":"\u00e9\n" }"#.to_vec()),
    ];
    let flags = (any::<bool>(), any::<bool>());
    (flags, bytes).prop_map(|((is_json, is_outside), bytes)| Content { is_json, is_outside, bytes })
}

fn retry() -> impl Strategy<Value = RetryPolicy> {
    let exponential = (any::<i64>(), 1.0..=100.0_f64, any::<i64>(), 0.0..=1.0_f64);
    prop_oneof![
        Just(RetryPolicy::default()),
        Just(RetryPolicy::Immediate {}),
        any::<i64>().prop_map(|delay_ms| RetryPolicy::Fixed { delay_ms }),
        exponential.prop_map(|(delay_ms, factor, max_delay_ms, jitter)| RetryPolicy::Exponential {
            delay_ms,
            factor,
            max_delay_ms,
            jitter
        }),
        prop::collection::vec(any::<i64>(), 0..5).prop_map(|delays_ms| RetryPolicy::List { delays_ms }),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    select(TRANSITIONS.iter().map(|transition| transition.event).collect::<Vec<_>>())
}

fn state() -> impl Strategy<Value = State> {
    select(State::ALL.to_vec())
}

fn entry() -> impl Strategy<Value = Entry> {
    let when = (millis(), option::of(millis()), any::<u32>());
    let what = (option::of(event()), option::of(state()), state());
    let why = (any::<String>(), option::of(any::<String>()), option::of(any::<String>()));
    (when, what, why).prop_map(|((at, due_at, attempt), (event, from, to), (by, reason, error))| Entry {
        at,
        event,
        from,
        to,
        attempt,
        by,
        due_at,
        reason,
        error,
    })
}

fn ask() -> impl Strategy<Value = NewTask> {
    let ids = (name(), name(), name(), option::of(any::<i64>()), any::<i64>());
    let times = (millis(), option::of(any::<i64>()), option::of(any::<i64>()), any::<u32>());
    let labels = prop::collection::btree_map(any::<String>(), any::<String>(), 0..3);
    let rest = (1..=5_u8, content(), retry(), labels, option::of(any::<String>()));
    (ids, times, rest, demands()).prop_map(
        |(ids, times, (priority, payload, retry, labels, traceparent), demands)| NewTask {
            queue: QueueKey { namespace: ids.0, queue: ids.1 },
            kind: ids.2,
            task_id: ids.3,
            task_version: ids.4,
            execute_at: times.0,
            timeout_ms: times.1,
            deadline_ms: times.2,
            max_attempts: times.3,
            priority: Priority::new(priority).unwrap(),
            payload,
            retry,
            labels,
            traceparent,
            demands: demands.0,
            key: demands.1,
            name: demands.2,
            on_conflict: OnConflict::default(),
            insert_by: None,
        },
    )
}

fn demands() -> impl Strategy<Value = (Demands, Option<Key>, Option<String>)> {
    let text = || option::of(any::<String>());
    (text(), text(), text(), text()).prop_map(|(concurrency_key, handler_versions, key, name)| {
        (Demands { concurrency_key, handler_versions }, key.map(Key::Caller), name)
    })
}

fn lease() -> impl Strategy<Value = Lease> {
    (any::<String>(), millis(), millis(), any::<bool>()).prop_map(
        |(executor, until, since, cancel_requested)| Lease { executor, until, since, cancel_requested },
    )
}

fn result() -> impl Strategy<Value = TaskResult> {
    (any::<i64>(), any::<String>(), option::of(content()))
        .prop_map(|(status_code, status_msg, content)| TaskResult { status_code, status_msg, content })
}

pub(super) fn task() -> impl Strategy<Value = Task> {
    let place = (any::<u16>(), millis(), any::<i64>());
    let standing = (state(), any::<i64>(), any::<u32>(), millis());
    let times = (option::of(millis()), millis(), millis(), option::of(millis()));
    let rest = (
        option::of(lease()),
        option::of(any::<String>()),
        option::of(result()),
        option::of(any::<String>()),
        prop::collection::vec(entry(), 0..6),
        option::of(any::<String>()),
    );
    (place, ask(), standing, times, rest).prop_map(|(place, ask, standing, times, rest)| Task {
        place: TaskRef { partition: Partition(place.0), due_at: place.1, id: place.2 },
        ask,
        state: standing.0,
        fence: standing.1,
        attempt: standing.2,
        due_at: standing.3,
        fired_at: times.0,
        created_at: times.1,
        updated_at: times.2,
        keep_until: times.3,
        lease: rest.0,
        progress: rest.1,
        result: rest.2,
        last_error: rest.3,
        history: rest.4,
        log: rest.5,
    })
}
