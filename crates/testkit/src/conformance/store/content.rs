//! Contents of tasks are returned unchanged, however odd.

use super::{
    sample::{
        KEEP, LATER, NOW, ask, beat, dispatch, extend, grant, insert, moved, name, read, result, scan, step,
        version,
    },
    walk::walk_to,
};
use punctual_contract::{
    Store,
    store::{Applied, Change, Extended},
};
use punctual_domain::{
    history::Note,
    insert::Decision,
    state::State,
    task::{Content, NewTask, TaskResult},
    time::Millis,
};
use std::sync::Arc;

/// Zero bytes, invalid UTF-8, and nothing that compresses.
fn megabyte(seed: u64) -> Content {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut bytes: Vec<u8> = (0..1 << 20).map(|_| rng.u8(..)).collect();
    bytes[..8].copy_from_slice(&[0, 0xff, 0xc0, 0, 0xfe, 0x80, 0, 0]);
    Content::binary(bytes)
}

pub async fn a_megabyte_of_any_bytes_comes_back_identical(store: Arc<dyn Store>) {
    let (first, second) = (megabyte(1), megabyte(2));
    let asked = NewTask { payload: first.clone(), ..ask(1) };
    let task = insert(&*store, asked).await.task;
    assert!(task.ask.payload == first, "in the answer");
    assert!(read(&*store, task.place).await.ask.payload == first, "in the store");
    let change =
        Change::Reschedule { execute_at: None, priority: None, payload: Some(second.clone()), queue: None };
    let task = moved(&*store, &task, change, NOW).await;
    assert!(task.ask.payload == second, "rescheduled");
    let task = moved(&*store, &task, Change::Claim, NOW).await;
    let assignment = dispatch(&*store, grant(&task, NOW), NOW).await.unwrap();
    assert!(assignment.payload == second, "in the executor's hands");
    let name = name("default");
    assert!(store.versions(&name, 1, None, 1).await.unwrap()[0].ask.payload == second);
}

pub async fn a_result_of_any_bytes_comes_back_identical(store: Arc<dyn Store>) {
    let content = megabyte(3);
    let task = walk_to(&*store, 1, State::Running).await;
    let result =
        TaskResult { status_code: i64::MIN, status_msg: "ы\0\u{1F980}".to_owned(), content: Some(content) };
    let task = moved(&*store, &task, Change::Succeed { result: result.clone(), keep_until: KEEP }, NOW).await;
    assert!(task.result == Some(result));
    let task = walk_to(&*store, 2, State::Running).await;
    let result = TaskResult { content: None, ..TaskResult::default() };
    let task = moved(&*store, &task, Change::Succeed { result: result.clone(), keep_until: KEEP }, NOW).await;
    assert_eq!(task.result, Some(result), "an empty result is a result");
}

pub async fn a_reference_to_what_is_outside_comes_back_as_one(store: Arc<dyn Store>) {
    let outside = |is_json, key: &str| Content::outside(is_json, key, 1 << 24);
    for (id, is_json) in [(1, false), (2, true)] {
        let payload = outside(is_json, "020000/n-a/first");
        let task = insert(&*store, NewTask { payload: payload.clone(), ..ask(id) }).await.task;
        assert_eq!(read(&*store, task.place).await.ask.payload, payload);
        let payload = outside(!is_json, "020000/n-a/second");
        let change = Change::Reschedule {
            execute_at: None,
            priority: None,
            payload: Some(payload.clone()),
            queue: None,
        };
        let task = moved(&*store, &task, change, NOW).await;
        assert_eq!(task.ask.payload, payload);
        let task = moved(&*store, &task, Change::Claim, NOW).await;
        let assignment = dispatch(&*store, grant(&task, NOW), NOW).await.unwrap();
        assert_eq!(assignment.payload, payload);
        let found = store.versions(&name("default"), id, None, 1).await.unwrap();
        assert_eq!(found[0].ask.payload, payload);
        for (id, change) in [(id + 10, 0), (id + 20, 1), (id + 30, 2)] {
            let task = walk_to(&*store, id, State::Running).await;
            let result = result(outside(is_json, "020000/n-a/third"));
            let change = match change {
                0 => Change::Succeed { result: result.clone(), keep_until: KEEP },
                1 => Change::Retry { due_at: LATER, result: Some(result.clone()) },
                _ => Change::Bury { result: Some(result.clone()), keep_until: KEEP },
            };
            assert_eq!(moved(&*store, &task, change, NOW).await.result, Some(result));
        }
        let replaced = insert(&*store, NewTask { payload: outside(is_json, "k"), ..ask(id + 20) }).await;
        assert_eq!(replaced.decision, Decision::Replace);
        assert_eq!(replaced.task.ask.payload, outside(is_json, "k"));
    }
}

pub async fn an_empty_payload_is_not_no_payload(store: Arc<dyn Store>) {
    for (id, content) in
        [(1, Content::binary(Vec::new())), (2, Content::json("")), (3, Content::json("null"))]
    {
        let task = insert(&*store, NewTask { payload: content.clone(), ..ask(id) }).await.task;
        assert_eq!(read(&*store, task.place).await.ask.payload, content);
        let task = walk_to(&*store, id + 10, State::Running).await;
        let result = result(content);
        let task =
            moved(&*store, &task, Change::Succeed { result: result.clone(), keep_until: KEEP }, NOW).await;
        assert_eq!(task.result, Some(result));
    }
}

pub async fn text_of_any_script_comes_back_identical(store: Arc<dyn Store>) {
    let odd = "naïve \u{1F980} 中文 'quote\" \\ % _ \u{0} \n\r\t end".to_owned();
    let labels = [(odd.clone(), odd.clone()), (String::new(), String::new())].into();
    let asked = NewTask {
        labels,
        traceparent: Some(odd.clone()),
        payload: Content::json(format!("\"{odd}\"")),
        ..ask(1)
    };
    let inserted = store.insert(vec![asked.clone()], &odd, NOW).await.unwrap().remove(0);
    let task = read(&*store, inserted.task.place).await;
    assert_eq!((&task.ask, &task.history[0].by), (&asked, &odd));
    let task = moved(&*store, &task, Change::Claim, NOW).await;
    let mut wanted = grant(&task, NOW);
    wanted.executor.clone_from(&odd);
    assert_eq!(dispatch(&*store, wanted, NOW).await.unwrap().traceparent, Some(odd.clone()));
    let task = read(&*store, task.place).await;
    let mut sign = beat(&task, NOW.plus(60_000));
    sign.progress = Some(odd.clone());
    assert!(matches!(extend(&*store, sign, NOW).await, Extended::Held { .. }));
    let task = read(&*store, task.place).await;
    assert_eq!((task.progress.as_ref(), &task.lease.as_ref().unwrap().executor), (Some(&odd), &odd));
    let mut last = step(&task, Change::Bury { result: None, keep_until: KEEP });
    last.note = Note { by: odd.clone(), due_at: None, reason: Some(odd.clone()), error: Some(odd.clone()) };
    assert_eq!(store.apply(vec![last.clone()], NOW).await.unwrap(), [Applied::Moved]);
    let task = read(&*store, task.place).await;
    let line = task.history.last().unwrap();
    assert_eq!((&line.by, &line.reason, &line.error), (&odd, &Some(odd.clone()), &Some(odd.clone())));
    assert_eq!(task.last_error, Some(odd));
}

pub async fn the_furthest_numbers_come_back_identical(store: Arc<dyn Store>) {
    for id in [i64::MIN, -1, 0, i64::MAX] {
        for number in [i64::MIN, -1, 0, i64::MAX] {
            let asked = NewTask {
                max_attempts: u32::MAX,
                timeout_ms: Some(i64::MAX),
                deadline_ms: Some(i64::MAX),
                ..version(id, number)
            };
            let inserted = insert(&*store, asked.clone()).await;
            assert_eq!(inserted.decision, Decision::Create, "{id} {number}");
            assert_eq!(read(&*store, inserted.task.place).await.ask, asked);
        }
        let found = store.versions(&name("default"), id, None, 9).await.unwrap();
        let numbers: Vec<i64> = found.iter().map(|task| task.ask.task_version).collect();
        assert_eq!(numbers, [i64::MAX, 0, -1, i64::MIN]);
        let newest = &found[0];
        let claimed = moved(&*store, newest, Change::Claim, NOW).await;
        let assignment = dispatch(&*store, grant(&claimed, NOW), NOW).await.unwrap();
        assert_eq!((assignment.task_id, assignment.task_version), (id, i64::MAX));
        assert!(assignment.lease_until > NOW, "the longest timeout does not overflow");
    }
}

pub async fn the_last_instant_can_be_waited_for(store: Arc<dyn Store>) {
    let task =
        insert(&*store, NewTask { execute_at: Millis::MAX, deadline_ms: Some(1), ..ask(1) }).await.task;
    assert_eq!((task.due_at, task.ask.execute_at), (Millis::MAX, Millis::MAX));
    let partition = task.place.partition;
    assert_eq!(scan(&*store, partition, Millis::MAX.plus(-1)).await, []);
    let found = scan(&*store, partition, Millis::MAX).await;
    assert_eq!((found.len(), found[0].due_at, found[0].deadline_at), (1, Millis::MAX, Millis::MAX));
    let task = moved(&*store, &task, Change::Claim, LATER).await;
    assert_eq!(task.place.to_string().parse(), Ok(task.place), "its reference can be handed out");
}
