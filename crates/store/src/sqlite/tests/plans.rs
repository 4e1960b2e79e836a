//! Holds the scripts against the indexes, against the domain's classes of states, and against its constants.

use super::super::open;
use crate::Options;
use punctual_domain::{history::HISTORY_LEN_MAX, state::State};
use std::{fs, path::Path};

const MIGRATION: &str = include_str!("../../../../../migrations/sqlite/0001_tasks.sql");

/// Each script with what its plan must say; the rest of the plan may only search.
const PLANS: &[(&str, &str)] = &[
    ("insert/find_highest_version", "SEARCH task USING INDEX task_of_caller (namespace=? AND task_id=?)"),
    ("query/scan", "SEARCH task USING INDEX task_waiting (partition=? AND wait_at>? AND wait_at<?)"),
    ("query/scan_instant", "SEARCH task USING INDEX task_waiting (partition=? AND wait_at=? AND rowid>?)"),
    ("query/list_expired_leases", "SEARCH task USING INDEX task_in_flight (lease_until<?)"),
    ("query/list_in_flight", "SEARCH task USING INDEX task_in_flight (lease_until>?)"),
    ("query/list_versions", "SEARCH task USING INDEX task_of_caller (namespace=? AND task_id=?)"),
    (
        "query/read_version",
        "SEARCH task USING INDEX task_of_caller (namespace=? AND task_id=? AND task_version=?)",
    ),
    ("query/read_latest_versions", "SEARCH task USING INDEX task_of_caller (namespace=? AND task_id=?)"),
    ("query/list", "SEARCH task USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
    ("query/list_rising", "SEARCH task USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
    ("query/find_oldest_above", "SEARCH task USING INTEGER PRIMARY KEY (rowid>?)"),
    ("bulk/list_matching", "SEARCH task USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
    (
        "query/list_by_label",
        "SEARCH task_label USING PRIMARY KEY (namespace=? AND label=? AND id>? AND id<?)",
    ),
    (
        "bulk/list_matching_by_label",
        "SEARCH task_label USING PRIMARY KEY (namespace=? AND label=? AND id>? AND id<?)",
    ),
    ("labels/find_newest", "SEARCH task_label USING PRIMARY KEY (namespace=? AND label=? AND id<?)"),
    ("labels/find_label_bound", "SEARCH task_label USING PRIMARY KEY (namespace=? AND label=? AND id<?)"),
    ("labels/enter_earlier", "SEARCH task USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
    (
        "labels/list_newest_chunks",
        "SEARCH task_chunk USING PRIMARY KEY (namespace=? AND queue=? AND chunk<?)",
    ),
    ("labels/enter_earlier_chunks", "SEARCH task USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
    ("labels/delete_empty_chunk", "SEARCH task_chunk USING COVERING INDEX task_chunk_of (chunk=?)"),
    ("query/list_by_due", "SEARCH task USING INDEX task_waiting (partition=? AND wait_at>? AND wait_at<?)"),
    (
        "query/find_due_bound",
        "SEARCH task USING COVERING INDEX task_waiting (partition=? AND wait_at>? AND wait_at<?)",
    ),
    (
        "query/list_by_due_rising",
        "SEARCH task USING INDEX task_waiting (partition=? AND wait_at>? AND wait_at<?)",
    ),
    (
        "query/find_due_bound_rising",
        "SEARCH task USING COVERING INDEX task_waiting (partition=? AND wait_at>? AND wait_at<?)",
    ),
    ("query/list_dead", "SEARCH task USING INDEX task_dead (namespace=? AND rowid>? AND rowid<?)"),
    ("bulk/list_matching_dead", "SEARCH task USING INDEX task_dead (namespace=? AND rowid>? AND rowid<?)"),
    ("retention/list_expired", "SEARCH task USING INDEX task_finished (keep_until<?)"),
    (
        "retention/list_expired_successes",
        "SEARCH task USING INDEX task_finished (keep_until>? AND keep_until<?)",
    ),
    ("retention/find_waiting_since", "SEARCH task USING INDEX task_finished (keep_until<?)"),
    ("retention/list_whole_expired_at", "SEARCH task USING INDEX task_finished (keep_until=? AND rowid>?)"),
    ("retention/list_whole_expired", "SEARCH task USING INDEX task_finished (keep_until>? AND keep_until<?)"),
    ("retention/delete_archived", "SEARCH task USING INTEGER PRIMARY KEY (rowid=?)"),
    ("retention/delete_expired_replies", "SEARCH reply USING COVERING INDEX reply_kept (keep_until<?)"),
    ("reply/load", "SEARCH reply USING PRIMARY KEY (namespace=? AND key=?)"),
    ("settings/list_paused", "SCAN setting USING COVERING INDEX setting_paused"),
    ("settings/read_revision", "SEARCH setting USING PRIMARY KEY (namespace=? AND queue=?)"),
    ("namespaces/list_tasks", "SEARCH task USING INDEX task_of_caller (namespace=? AND task_id>?)"),
    ("namespaces/delete_task", "SEARCH task USING INTEGER PRIMARY KEY (rowid=?)"),
    ("namespaces/delete_replies", "SEARCH reply USING PRIMARY KEY (namespace=? AND key=?)"),
    ("namespaces/delete_executors", "SEARCH executor USING PRIMARY KEY (namespace=? AND name=?)"),
    ("namespaces/delete_setting_changes", "SEARCH setting_change USING INTEGER PRIMARY KEY (rowid=?)"),
    ("access/read_revision", "SEARCH token USING PRIMARY KEY (id=?)"),
    ("access/record_use", "SEARCH token USING PRIMARY KEY (id=?)"),
    ("audit/find_since", "SEARCH audit USING COVERING INDEX audit_at (at>?)"),
    ("audit/list_page", "SEARCH audit USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
    ("audit/complete", "SEARCH audit USING INTEGER PRIMARY KEY (rowid=?)"),
    ("audit/delete_oldest", "SEARCH audit USING COVERING INDEX audit_at (at<?)"),
    ("schedules/list_due", "SEARCH schedule USING INDEX schedule_wake (wake_at>? AND wake_at<?)"),
    ("schedules/list", "SEARCH schedule USING INDEX schedule_named (namespace=? AND name>?)"),
    ("schedules/list_runs", "SEARCH schedule_run USING PRIMARY KEY (schedule_id=? AND at>? AND at<?)"),
    (
        "schedules/list_unsettled",
        "SEARCH schedule_run USING INDEX schedule_run_unsettled (unsettled_at>? AND unsettled_at<?)",
    ),
    ("cluster/list_events", "SEARCH event USING INTEGER PRIMARY KEY (rowid<?)"),
    ("cluster/list_samples", "SEARCH engine_sample USING PRIMARY KEY (step_at>?)"),
    ("cluster/list_queue_samples", "SEARCH queue_sample USING PRIMARY KEY (step_at>?)"),
    ("cluster/list_samples_of_queue", "SEARCH queue_sample USING PRIMARY KEY (step_at>?)"),
    ("ledger/read_meta", "SEARCH meta USING PRIMARY KEY (key=?)"),
    ("ledger/add_to_counter", "SEARCH meta USING PRIMARY KEY (key=?)"),
];

/// These statements read every row on purpose: counts read all rows, declared labels are few, books and settings are as
/// short as the list of queues, tokens are few, running evaluations are few, requests about executors read their
/// list, and the index of paused queues has nothing else. For a cluster, steps are grouped from the few rows of a
/// bounded range, and events are ten thousand at most. The reset of a store in memory reads all of it.
const SCANS: &[&str] = &[
    "cluster/count_due_by_step",
    "cluster/delete_events_beyond",
    "evaluations/list_ended",
    "evaluations/delete_marks_of_engine",
    "evaluations/list_set_aside",
    "executors/delete_silent",
    "executors/count_by_state",
    "executors/list_desired_states",
    "labels/list_progress",
    "ledger/count_books",
    "ledger/fill_books",
    "ledger/fill_register",
    "ledger/empty_partitions",
    "ledger/fill_partitions",
    "ledger/list_partitions",
    "ledger/list_registered",
    "ledger/list_reports",
    "ledger/list_rows",
    "ledger/read_books",
    "ledger/correct_accepted",
    "open/count_objects",
    "namespaces/delete_evaluations",
    "open/list_rows",
    "open/list_tables",
    "settings/list_all",
    "settings/list_paused",
    "access/list_all",
    "access/delete_expired",
];

fn scripts() -> Vec<(String, String)> {
    let statements = crate::subject::tests::for_one("sqlite");
    // Some are for any table.
    let of_meta = |text: String| text.replace("{table}", "meta").replace("{columns}", "?, ?");
    statements.into_iter().map(|(name, text)| (name, of_meta(text))).collect()
}

fn plan(text: &str) -> Vec<String> {
    let (conn, _) = open::memory(&Options::default()).unwrap();
    let mut explain = conn.prepare(&format!("EXPLAIN QUERY PLAN {text}")).unwrap();
    let lines = explain.raw_query().mapped(|row| row.get(3)).collect::<rusqlite::Result<_>>();
    lines.unwrap()
}

#[test]
fn no_statement_reads_a_table_from_end_to_end_or_sorts() {
    for (name, text) in scripts() {
        let plan = plan(&text);
        let whole = |text: &String| {
            text.starts_with("SCAN") && !text.contains("VIRTUAL TABLE") && !text.contains("CONSTANT")
        };
        let bad = plan.iter().any(|text| whole(text) || text.contains("TEMP B-TREE"));
        let subquery = name == "retention/delete_expired_replies";
        assert_eq!(bad && !subquery, SCANS.contains(&name.as_str()), "{name}: {plan:#?}");
    }
}

#[test]
fn every_statement_that_looks_for_something_uses_the_index_made_for_it() {
    let scripts = scripts();
    for (name, want) in PLANS {
        let (_, text) = scripts.iter().find(|script| script.0 == *name).unwrap();
        let plan = plan(text);
        assert!(plan.iter().any(|text| text == want), "{name}: {plan:#?}");
    }
}

#[test]
fn every_move_finds_its_row_by_id() {
    let moves: Vec<_> = scripts().into_iter().filter(|script| script.0.starts_with("moves/")).collect();
    assert!(moves.len() > 20);
    for (name, text) in moves {
        assert_eq!(plan(&text), ["SEARCH task USING INTEGER PRIMARY KEY (rowid=?)"], "{name}");
    }
}

#[test]
fn a_row_is_in_an_index_exactly_in_the_states_of_the_domains_class() {
    type Class = fn(State) -> bool;
    let classes = [
        ("CONSTRAINT waits CHECK ((wait_at IS NOT NULL) = (", State::is_waiting as Class),
        ("CONSTRAINT flies CHECK ((lease_until IS NOT NULL) = (", State::is_in_flight),
        ("CONSTRAINT rests CHECK ((keep_until IS NOT NULL) = (", State::is_finished),
    ];
    for (constraint, class) in classes {
        let mut codes: Vec<u8> =
            State::ALL.into_iter().filter(|state| class(*state)).map(State::code).collect();
        codes.sort_unstable();
        let chain: Vec<String> = codes.iter().map(|code| format!("state = {code}")).collect();
        let want = format!("{constraint}{}))", chain.join(" OR "));
        assert!(MIGRATION.contains(&want), "{want}");
    }
    for index in [
        "(partition, wait_at) WHERE wait_at",
        "(lease_until) WHERE lease_until",
        "(keep_until) WHERE keep_until",
    ] {
        assert!(MIGRATION.contains(&format!("ON task {index} IS NOT NULL;")), "{index}");
    }
}

#[test]
fn every_move_writes_one_history_line_within_the_domains_bound() {
    for (name, text) in scripts() {
        if text.contains("-- moves: ") {
            assert!(text.contains(&format!("octet_length(history) > {HISTORY_LEN_MAX}")), "{name}");
            assert_eq!(text.matches("(?4 || state || ',' || ").count(), 1, "{name}");
            assert!(text.contains("updated_at = ?3"), "{name}");
        }
    }
}

#[test]
fn every_migration_file_is_known_in_order() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations/sqlite");
    let mut files: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    files.sort();
    assert_eq!(files, open::migrations());
    for (nth, name) in files.iter().enumerate() {
        assert!(name.starts_with(&format!("{:04}_", nth + 1)), "{name}");
    }
}
