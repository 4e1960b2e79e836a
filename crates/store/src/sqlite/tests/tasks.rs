//! Rows: ids, long payloads, pages of a search, histories that grow; in memory, without a runtime.

use super::{LATER, NOW, ask, go, grant, memory, now, numbered, one, read};
use punctual_contract::{
    Store as _,
    hot::HotEntry,
    store::{Applied, Beat, Change, Extended, Query, Scan},
};
use punctual_domain::{
    history::HISTORY_LEN_MAX,
    insert::Decision,
    name::Name,
    state::{Event, State},
    task::{Content, ENGINE_TASK_ID_BASE, NewTask},
    time::Millis,
};

#[test]
fn an_insert_answers_what_a_read_answers() {
    let store = memory();
    let mut full = numbered(-5, 3);
    full.labels.insert("a\"b".to_owned(), "c".to_owned());
    full.retry = punctual_domain::retry::RetryPolicy::List { delays_ms: vec![1, 2] };
    full.timeout_ms = Some(9);
    full.deadline_ms = Some(10);
    full.traceparent = Some("00-1".to_owned());
    full.payload = Content::json("{}");
    for new_task in [full, ask("mail")] {
        let task = now(one(&store, new_task));
        assert_eq!(now(read(&store, &task)), Some(task));
    }
}

#[test]
fn engine_given_ids_pass_over_those_that_callers_took_and_are_never_used_again() {
    let store = memory();
    now(one(&store, numbered(ENGINE_TASK_ID_BASE + 2, 7)));
    let given = now(one(&store, ask("mail")));
    assert_eq!(given.task_id(), ENGINE_TASK_ID_BASE + 3);
    now(go(&store, &given, Change::Cancel { keep_until: NOW }));
    assert_eq!(now(store.retire(NOW, LATER, 10)).unwrap().deleted, 1);
    assert_eq!(now(read(&store, &given)), None);
    assert!(now(one(&store, ask("mail"))).place.id > given.place.id);
}

#[test]
fn a_long_payload_comes_and_goes_with_its_task() {
    let store = memory();
    let (long, short) = (Content::binary(vec![1; 9_000]), Content::json("1"));
    let bodies = || match &store.runs {
        super::super::Runs::Inline(session) => {
            let count = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
            session.lock().conn().query_row("SELECT count(*) FROM body", [], count).unwrap()
        }
        super::super::Runs::OnThreads(_) => -1,
    };
    let task = now(one(&store, NewTask { payload: long.clone(), ..numbered(1, 1) }));
    let payload = || now(read(&store, &task)).unwrap().ask.payload;
    let plan = |content: &Content| Change::Reschedule {
        execute_at: None,
        priority: None,
        payload: Some(content.clone()),
        queue: None,
    };
    assert_eq!((payload(), bodies()), (long.clone(), 1));
    now(go(&store, &task, plan(&short)));
    assert_eq!((payload(), bodies()), (short.clone(), 0));
    now(go(&store, &task, plan(&long)));
    assert_eq!((payload(), bodies()), (long.clone(), 1));
    now(one(&store, NewTask { payload: short.clone(), ..numbered(1, 1) }));
    assert_eq!((payload(), bodies()), (short, 0));
    now(one(&store, NewTask { payload: long.clone(), ..numbered(1, 1) }));
    now(go(&store, &task, Change::Claim));
    let given = now(store.dispatch(vec![grant(&task, 5)], NOW)).unwrap().remove(0).made().unwrap();
    assert_eq!(given.payload, long);
    now(go(&store, &task, Change::Abort { keep_until: NOW }));
    now(store.retire(NOW, LATER, 10)).unwrap();
    assert_eq!(bodies(), 0);
}

#[test]
fn a_search_reaches_every_task_across_gaps_in_bounded_pages() {
    let store = memory();
    let first = now(one(&store, ask("sms")));
    let many = now(store.insert((0..45_000).map(|_| ask("mail")).collect(), "test", NOW)).unwrap();
    let last = now(one(&store, ask("sms")));
    let mut query = Query { queue: Some(first.ask.queue.queue.clone()), limit: 10, ..Query::default() };
    let mut found = Vec::new();
    let mut pages = 0;
    loop {
        let page = now(store.list(&query)).unwrap();
        found.extend(page.tasks.iter().map(|task| task.place));
        pages += 1;
        query.before_id = page.next_before_id;
        if query.before_id.is_none() {
            break;
        }
    }
    assert_eq!(found, [last.place, first.place]);
    assert_eq!(pages, 3, "each looks at 20,000 rows");
    let page = now(store.list(&Query { limit: 3, ..Query::default() })).unwrap();
    assert_eq!((page.tasks.len(), page.next_before_id), (3, Some(many[many.len() - 2].task.place.id)));
}

#[test]
fn labels_are_found_whatever_characters_they_have() {
    let store = memory();
    for (key, value) in [("a\"b$.c", "é'"), ("x", "1")] {
        let labels = [(key.to_owned(), value.to_owned())].into();
        let task = now(one(&store, NewTask { labels, ..ask("mail") }));
        let label = Some((key.to_owned(), value.to_owned()));
        let page = now(store.list(&Query { label, limit: 5, ..Query::default() })).unwrap();
        assert_eq!(page.tasks.iter().map(|task| task.place).collect::<Vec<_>>(), [task.place]);
    }
}

#[test]
fn a_history_is_cut_in_half_when_it_grows_too_long_and_keeps_the_newest() {
    let store = memory();
    let task = now(one(&store, ask("mail")));
    let plan = Change::Reschedule { execute_at: None, priority: None, payload: None, queue: None };
    for _ in 0..2_000 {
        assert_eq!(now(go(&store, &task, plan.clone())), Applied::Moved);
    }
    now(go(&store, &task, Change::Claim));
    let history = now(read(&store, &task)).unwrap().history;
    assert!((100..HISTORY_LEN_MAX / 40).contains(&history.len()), "{}", history.len());
    assert_eq!(history.last().unwrap().event, Some(Event::Claim));
}

#[test]
fn a_lease_never_outlives_the_timeout_and_an_ended_one_is_lost() {
    let store = memory();
    let task = now(one(&store, NewTask { timeout_ms: Some(1_000), ..ask("mail") }));
    now(go(&store, &task, Change::Claim));
    let given = now(store.dispatch(vec![grant(&task, task.fence)], NOW)).unwrap().remove(0).made().unwrap();
    assert_eq!(given.lease_until, NOW.plus(1_000));
    let beat = |at: Millis| {
        let beat = Beat {
            place: task.place,
            fence: given.fence,
            lease_until: LATER,
            progress: None,
            log: None,
            executor: "executor".to_owned(),
            handed_over_at: None,
        };
        now(store.extend(vec![beat], at)).unwrap().remove(0)
    };
    let held = Extended::Held { lease_until: NOW.plus(1_000), cancel_requested: false, has_begun: true };
    assert_eq!(beat(NOW.plus(999)), held);
    assert_eq!(now(read(&store, &task)).unwrap().state, State::Running);
    assert_eq!(beat(NOW.plus(1_000)), Extended::Lost);
}

#[test]
fn a_replacement_keeps_its_place_and_starts_afresh() {
    let store = memory();
    let task = now(one(&store, numbered(9, 1)));
    now(go(&store, &task, Change::Claim));
    let other = NewTask { execute_at: LATER, ..numbered(9, 1) };
    let again = now(store.insert(vec![other], "test", NOW)).unwrap().remove(0);
    assert_eq!(again.decision, Decision::Replace);
    assert_eq!((again.task.place, again.task.due_at, again.task.attempt), (task.place, LATER, 0));
    assert_eq!((again.task.state, again.task.fence), (State::Scheduled, task.fence + 1));
    assert_eq!(again.task.history.len(), 3);
}

#[test]
fn a_scan_goes_on_inside_an_instant_that_has_many_tasks() {
    let store = memory();
    let ask = |nth: i64| NewTask { execute_at: NOW.plus(nth / 5), ..numbered(1, 0) };
    for nth in 0..20 {
        // One id, so one partition: each replaced by a higher version.
        now(one(&store, NewTask { task_version: nth, ..ask(nth) }));
    }
    let partition = punctual_domain::place::partition_of(&Name::default_namespace(), 1, store.partitions());
    for limit in [1, 2, 3, 7, 100] {
        let mut after = None;
        let mut seen = Vec::new();
        loop {
            let page = now(store.scan(Scan { partition, until: NOW.plus(2), after, limit })).unwrap();
            let Some(last) = page.last() else { break };
            assert!(page.len() <= limit);
            after = Some(last.key());
            seen.extend(page.iter().map(HotEntry::key));
        }
        assert_eq!(seen.len(), 15, "what is due at the last instant is in, what comes after is not");
        assert!(seen.is_sorted());
    }
}

#[test]
fn what_arrives_too_late_is_not_stored() {
    let store = memory();
    let late = NewTask { insert_by: Some(Millis(1)), ..numbered(1, 0) };
    let refused = now(store.insert_each(vec![late], "test", NOW)).unwrap_err();
    assert_eq!(refused.happened, punctual_contract::Happened::No);
    assert!(refused.to_string().contains("may be inserted was over"), "{refused}");
    assert_eq!(now(store.versions(&Name::default_namespace(), 1, None, 1)).unwrap(), []);
    let in_time = NewTask { insert_by: Some(Millis(i64::MAX)), ..numbered(1, 0) };
    assert_eq!(now(one(&store, in_time)).ask.insert_by, None);
}
