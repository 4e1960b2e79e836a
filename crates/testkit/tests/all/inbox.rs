//! Rows that a user's own transaction has written become tasks, each exactly once (D13, N11): what is committed, refused, put
//! off, late; and what a relay leaves that dies. On both back ends.

mod rig;
mod table;

use punctual_domain::time::Millis;
use punctual_testkit::{
    faults::{Dials, StoreGroup},
    patience::until,
};
use rig::{InboxRig, on_each_store};
use serde_json::json;

async fn committed_rows_are_tasks_once_and_rolled_back_rows_are_none(rig: InboxRig) {
    rig.sql(
        "START TRANSACTION;
         INSERT INTO punctual_inbox (`key`, queue, kind, name, priority, delay_ms, payload, labels, max_attempts, retry)
         VALUES ('order-7', 'q', 'bill', 'A bill', 1, 60000, '{\"b\": 1.50, \"a\":2}', '{\"team\":\"a\"}', 3,
             '{\"strategy\":\"fixed\",\"delay_ms\":300}');
         COMMIT;
         START TRANSACTION; INSERT INTO punctual_inbox (`key`, queue) VALUES ('order-8', 'q'); ROLLBACK;
         INSERT INTO punctual_inbox (queue, execute_at_ms, payload_bytes) VALUES ('q', 1900000900000, x'00ff');
         INSERT INTO punctual_inbox (queue, namespace) VALUES ('q', 'other');",
    )
    .await;
    rig.all_moved().await;
    let tasks = rig.tasks("q").await;
    assert_eq!(tasks.len(), 2, "{tasks:?}");
    let billed = rig.get("/v1/tasks/key:order-7").await;
    for (field, value) in [
        ("kind", json!("bill")),
        ("name", json!("A bill")),
        ("priority", json!(1)),
        ("max_attempts", json!(3)),
        ("labels", json!({"team": "a"})),
        ("payload", json!({"b": 1.50, "a": 2})),
    ] {
        assert_eq!(billed[field], value, "{field}");
    }
    assert_eq!(billed["history"][0]["by"], "inbox:shop");
    let due_ms = billed["execute_at_ms"].as_i64().unwrap() - rig.engine.now().0;
    assert!(due_ms > 0 && due_ms <= 60_000, "{due_ms}");
    let bytes = tasks.iter().find(|task| task["key"] != "order-7").unwrap();
    assert_eq!(
        (&bytes["payload_base64"], &bytes["execute_at_ms"]),
        (&json!("AP8="), &json!(1_900_000_900_000_i64))
    );
    assert_eq!(rig.relay.report().numbers.inserted, 3, "one is in the other namespace");
}

async fn a_relay_that_dies_before_the_removal_doubles_no_row(rig: InboxRig) {
    rig.sql("INSERT INTO punctual_inbox (`key`, queue) VALUES ('a', 'q'), (NULL, 'q'), ('b', 'q')").await;
    let dying = rig.dying_relay();
    rig.run(&dying).await;
    assert_eq!((rig.tasks("q").await.len(), rig.waiting().await), (3, 3));
    dying.let_go().await;
    // One of them has been cancelled meanwhile, and does not come back.
    let (status, _) = rig.call("POST", "/v1/tasks/key:a/cancel", "{}").await;
    assert_eq!(status, 200);
    rig.all_moved().await;
    assert_eq!(rig.tasks("q").await.len(), 3);
    assert_eq!(rig.get("/v1/tasks/key:a").await["state"], "cancelled");
    let numbers = rig.relay.report().numbers;
    assert_eq!((numbers.inserted, numbers.existing), (0, 3));
}

async fn of_two_relays_one_moves_and_the_other_takes_over(rig: InboxRig) {
    let other = rig.other_relay();
    rig.sql("INSERT INTO punctual_inbox (queue) VALUES ('q'), ('q')").await;
    assert_eq!((rig.run(&rig.relay).await, rig.run(&other).await), (2, 0));
    rig.sql("INSERT INTO punctual_inbox (queue) VALUES ('q')").await;
    assert_eq!(rig.run(&other).await, 0, "it stands by");
    assert_eq!(other.report().counts.unwrap().waiting, 1, "and counts");
    // The connection of the holder is cut, as when its engine is killed; both run at once.
    rig.way.connections().into_iter().take(1).for_each(|connection| {
        rig.way.set_one(connection, punctual_testkit::servers::Way::Cut);
    });
    until("another one moves it", || async {
        let (one, two) = tokio::join!(rig.run(&rig.relay), rig.run(&other));
        one + two > 0 || rig.waiting().await == 0
    })
    .await;
    assert_eq!(rig.tasks("q").await.len(), 3);
}

async fn a_row_that_is_refused_blocks_no_other_and_moves_when_it_is_mended(rig: InboxRig) {
    rig.sql(
        "INSERT INTO punctual_inbox (`key`, queue, retry) VALUES ('bad', 'q', '{\"strategy\":\"never\"}');
         INSERT INTO punctual_inbox (`key`, queue, payload_bytes) VALUES ('long', 'q', REPEAT('x', 2000000));
         INSERT INTO punctual_inbox (`key`, queue, handler_versions) VALUES ('odd', 'q', 'not a range');
         INSERT INTO punctual_inbox (`key`, queue) VALUES ('good', 'q');",
    )
    .await;
    rig.all_moved().await;
    assert_eq!((rig.tasks("q").await.len(), rig.count("refused_at_ms IS NOT NULL").await), (1, 3));
    for (key, part) in [("bad", "retry"), ("long", "payload"), ("odd", "handler_versions")] {
        let why = rig.sql(&format!("SELECT refused_why FROM punctual_inbox WHERE `key` = '{key}'")).await;
        assert!(why.contains(part), "{why}");
    }
    rig.run(&rig.relay).await;
    rig.engine.look_for_alerts().await.unwrap();
    let alerts = rig.get("/v1/alerts").await;
    assert_eq!(alerts["items"][0]["name"], "inbox_refused", "{alerts}");
    let shown = rig.get("/v1/inboxes").await["items"][0].clone();
    assert_eq!(
        (&shown["state"], &shown["refused"], &shown["waiting"]),
        (&json!("moving"), &json!(3), &json!(0))
    );
    rig.sql("UPDATE punctual_inbox SET retry = NULL, refused_at_ms = NULL WHERE `key` = 'bad'").await;
    rig.all_moved().await;
    assert_eq!(rig.get("/v1/tasks/key:bad").await["queue"], "q");
    let metrics = rig.get("/metrics").await;
    let metrics = metrics.as_str().unwrap();
    for line in [
        "punctual_inbox_rows_total{inbox=\"shop\",outcome=\"refused\"} 3",
        "punctual_inbox_rows_waiting{inbox=\"shop\"} 0",
    ] {
        assert!(metrics.contains(line), "{line}");
    }
}

async fn a_full_queue_holds_back_no_other_queue(rig: InboxRig) {
    let (status, _) = rig.call("PUT", "/v1/queues/full", r#"{"max_waiting": 1}"#).await;
    assert!(status < 300, "{status}");
    let rows = "('full', 3600000), ".repeat(600);
    rig.sql(&format!("INSERT INTO punctual_inbox (queue, delay_ms) VALUES {rows} ('q', 3600000)")).await;
    until("the other queue's row is a task", || async {
        rig.run(&rig.relay).await;
        rig.tasks("q").await.len() == 1
    })
    .await;
    assert!(rig.waiting().await > 0);
    assert_eq!(rig.count("offered_at_ms IS NOT NULL").await, 0, "what was not taken is not in doubt");
    let said = rig.get("/v1/inboxes").await["items"][0]["last_error"].clone();
    assert!(said.as_str().unwrap().contains("queue.full"), "{said}");
    let (status, _) = rig.call("PUT", "/v1/queues/full", r#"{"max_waiting": 1000}"#).await;
    assert!(status < 300, "{status}");
    rig.all_moved().await;
    assert_eq!(rig.tasks("full").await.len(), 600);
}

async fn versions_of_one_key_are_taken_in_the_order_of_their_commits(rig: InboxRig) {
    rig.sql("CREATE TABLE account (id INT PRIMARY KEY, version INT); INSERT INTO account VALUES (1, 0)")
        .await;
    let transfer = "START TRANSACTION; UPDATE account SET version = version + 1 WHERE id = 1;
        INSERT INTO punctual_inbox (`key`, task_version, queue, delay_ms)
        SELECT 'account-1', version, 'q', 3600000 FROM account WHERE id = 1; COMMIT;";
    let some = transfer.repeat(10);
    let writing = async { tokio::join!(rig.sql(&some), rig.sql(&some), rig.sql(&some), rig.sql(&some)) };
    let mut writing = std::pin::pin!(writing);
    loop {
        tokio::select! {
            _ = &mut writing => break,
            _ = rig.run(&rig.relay) => {}
        }
    }
    rig.all_moved().await;
    let numbers = rig.relay.report().numbers;
    assert_eq!(
        (numbers.superseded, numbers.inserted + numbers.existing),
        (0, 40),
        "none came after a higher one"
    );
    assert_eq!(rig.get("/v1/tasks/key:account-1").await["task_version"], 40);
}

async fn a_row_that_commits_late_with_a_low_number_is_moved(rig: InboxRig) {
    let holder = rig.try_sql("SELECT GET_LOCK(CONCAT(DATABASE(), '/go'), 0), SLEEP(600)");
    let late = async {
        until("the lock is held", || async { rig.sql(HOLDER).await.trim() != "NULL" }).await;
        let open = "START TRANSACTION; INSERT INTO punctual_inbox (`key`, queue) VALUES ('late', 'q');
            SELECT GET_LOCK(CONCAT(DATABASE(), '/go'), 600); COMMIT;";
        rig.sql(open).await;
    };
    let others = async {
        let waits = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE 'SELECT GET_LOCK%600)'";
        until("the open transaction has its number", || async { rig.sql(waits).await.trim() == "1" }).await;
        rig.sql("INSERT INTO punctual_inbox (`key`, queue) VALUES ('early', 'q')").await;
        rig.all_moved().await;
        assert_eq!(rig.tasks("q").await.len(), 1);
        let holder = rig.sql(HOLDER).await;
        rig.sql(&format!("KILL {holder}")).await;
    };
    let (killed, (), ()) = tokio::join!(holder, late, others);
    assert!(killed.is_err());
    rig.all_moved().await;
    assert_eq!(rig.tasks("q").await.len(), 2);
    assert_eq!(rig.get("/v1/tasks/key:late").await["queue"], "q");
}

/// Its connection.
const HOLDER: &str = "SELECT IS_USED_LOCK(CONCAT(DATABASE(), '/go'))";

async fn rows_wait_while_the_users_database_is_away_and_an_alert_says_so(rig: InboxRig) {
    rig.sql("INSERT INTO punctual_inbox (`key`, queue) VALUES ('a', 'q')").await;
    rig.way.set(punctual_testkit::servers::Way::Cut);
    for _ in 0..12 {
        assert_eq!(rig.run(&rig.relay).await, 0);
    }
    let shown = rig.get("/v1/inboxes").await["items"][0].clone();
    assert_eq!(shown["state"], "away");
    assert!(shown["last_error"].is_string(), "{shown}");
    rig.engine.look_for_alerts().await.unwrap();
    let alerts = rig.get("/v1/alerts").await;
    assert_eq!(alerts["items"][0]["name"], "inbox_behind", "{alerts}");
    rig.way.set(punctual_testkit::servers::Way::Open);
    rig.all_moved().await;
    assert_eq!(rig.tasks("q").await.len(), 1);
    assert_eq!(rig.get("/v1/inboxes").await["items"][0]["last_error"], json!(null));
}

async fn rows_wait_while_the_engines_store_is_away_and_none_is_lost_or_doubled(rig: InboxRig) {
    rig.sql("INSERT INTO punctual_inbox (`key`, queue) VALUES ('a', 'q'), (NULL, 'q')").await;
    for dials in [Dials::REFUSES, Dials::SILENT, Dials::ANSWERS_LOST] {
        rig.store.faults.set(StoreGroup::Insert, dials);
        rig.run(&rig.relay).await;
        assert_eq!(rig.waiting().await, 2, "{dials:?}");
        assert!(rig.relay.report().last_error.is_some(), "{dials:?}");
    }
    rig.store.faults.heal();
    rig.all_moved().await;
    assert_eq!(rig.tasks("q").await.len(), 2);
    assert_eq!(rig.relay.report().numbers.existing, 2, "the last try had stored them");
}

async fn a_row_whose_task_may_have_been_forgotten_is_refused(rig: InboxRig) {
    rig.sql("INSERT INTO punctual_inbox (`key`, queue, delay_ms) VALUES ('known', 'q', 3600000)").await;
    rig.run(&rig.dying_relay()).await;
    rig.sql("INSERT INTO punctual_inbox (`key`, queue) VALUES ('gone', 'q')").await;
    // A day ago, which is as long as a success is kept.
    rig.sql("UPDATE punctual_inbox SET offered_at_ms = created_at_ms - 86400000").await;
    until("both are decided", || async {
        rig.run(&rig.relay).await;
        rig.waiting().await == 0
    })
    .await;
    assert_eq!(rig.tasks("q").await.len(), 1);
    let left = rig.sql("SELECT `key`, refused_why, offered_at_ms IS NULL FROM punctual_inbox").await;
    assert!(left.starts_with("gone\ta relay was stopped") && left.trim().ends_with('0'), "{left}");
}

/// The relay was frozen between its own look at the clock and the commit: what it sends, it would have sent a minute ago. Its
/// engine's clock is set so, and the database's goes on.
async fn what_a_frozen_engine_sends_when_it_wakes_is_not_inserted(rig: InboxRig) {
    rig.sql("INSERT INTO punctual_inbox (`key`, queue) VALUES ('a', 'q')").await;
    let now = rig.sql("SELECT CAST(ROUND(UNIX_TIMESTAMP(SYSDATE(3)) * 1000) AS SIGNED)").await;
    let now = Millis(now.trim().parse().unwrap());
    rig.clock.set(now.plus(-120_000));
    assert_eq!(rig.run(&rig.relay).await, 0);
    assert_eq!((rig.tasks("q").await.len(), rig.waiting().await), (0, 1));
    assert_eq!(rig.count("offered_at_ms IS NOT NULL").await, 0, "it was not inserted, for certain");
    let said = rig.relay.report().last_error.unwrap().1;
    assert!(said.contains("store"), "{said}");
    rig.clock.set(now);
    rig.all_moved().await;
    assert_eq!(rig.tasks("q").await.len(), 1);
}

on_each_store!(
    what_a_frozen_engine_sends_when_it_wakes_is_not_inserted,
    committed_rows_are_tasks_once_and_rolled_back_rows_are_none,
    a_relay_that_dies_before_the_removal_doubles_no_row,
    of_two_relays_one_moves_and_the_other_takes_over,
    a_row_that_is_refused_blocks_no_other_and_moves_when_it_is_mended,
    a_full_queue_holds_back_no_other_queue,
    versions_of_one_key_are_taken_in_the_order_of_their_commits,
    a_row_that_commits_late_with_a_low_number_is_moved,
    rows_wait_while_the_users_database_is_away_and_an_alert_says_so,
    rows_wait_while_the_engines_store_is_away_and_none_is_lost_or_doubled,
    a_row_whose_task_may_have_been_forgotten_is_refused,
);
