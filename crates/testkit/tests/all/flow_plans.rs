//! The rows that a MySQL or MariaDB server reads for the statements of schedules and workflows, among many
//! that wait: exact look-ups, or ranges with a limit. Among a million waiting ones, only the due ones cost.

use crate::statements;
use punctual_store::{MysqlOptions, MysqlStore};
use punctual_testkit::servers;

const NOW: i64 = 1_900_000_000_000;
/// Of each kind; a hundred of them are due.
const WAITING: i64 = 20_000;
const DUE: i64 = 100;

struct Filled {
    database: String,
}

impl Filled {
    async fn new() -> Self {
        let url = servers::migrated_database().await;
        let store = MysqlStore::open(std::slice::from_ref(&url), MysqlOptions::default()).await.unwrap();
        store.close().await;
        let filled = Self { database: url.rsplit('/').next().unwrap().to_owned() };
        let wake_at = format!("{NOW} + (CAST(seq AS SIGNED) - {DUE}) * 1000");
        filled.sql(&format!(
            "INSERT INTO schedule (namespace, name, slot, revision, step, body, progress, wake_at, created_at, updated_at, updated_by) \
             SELECT 'default', CONCAT('s', LPAD(seq, 6, '0')), seq % 32, seq, 1, '{{}}', '{{}}', {wake_at}, {NOW}, {NOW}, '' FROM seq_1_to_{WAITING}; \
             INSERT INTO schedule_run (schedule_id, at, kind, revision, outcome, execute_at, run_number, task_ref, unsettled_at, created_at) \
             SELECT 1 + seq % 500, seq, 0, 1, 1, seq, 1, IF(seq > 50, 't', NULL), IF(seq > 50, NULL, seq), {NOW} + seq FROM seq_1_to_50000; \
             INSERT INTO workflow_definition (id, namespace, name, version, hash, body, created_at, used_at) \
             SELECT seq, 'default', '', seq, CONCAT('h', seq), '{{}}', {NOW}, {NOW} FROM seq_1_to_1000; \
             INSERT INTO workflow (namespace, name, version, definition_id, slot, dedup_key, step, state, progress, input, wake_at, \
                 created_at, updated_at, finished_at, created_by) \
             SELECT 'default', '', 1, 1 + seq % 1000, seq % 32, CONCAT('k', seq), 1, 1, '{{}}', 'null', {wake_at}, {NOW}, {NOW}, NULL, '' \
             FROM seq_1_to_{WAITING}; \
             INSERT INTO workflow (namespace, name, version, definition_id, slot, step, state, progress, input, created_at, updated_at, finished_at, created_by) \
             SELECT 'default', '', 1, 1 + seq % 1000, seq % 32, 1, 3, '{{}}', 'null', {NOW}, {NOW}, {NOW} + seq, '' FROM seq_1_to_{WAITING}; \
             INSERT INTO workflow_node (workflow_id, node, item, role, state, attempt, begun_at) \
             SELECT 1 + seq DIV 10, seq % 10, -1, 0, 1, 1, {NOW} FROM seq_0_to_59999; \
             INSERT INTO workflow_mark (id, workflow_id, slot, marked_at) SELECT seq, seq, seq % 32, {NOW} + seq FROM seq_1_to_10000; \
             ANALYZE TABLE schedule, schedule_run, workflow, workflow_definition, workflow_node, workflow_mark"
        ))
        .await;
        filled
    }

    async fn sql(&self, text: &str) -> String {
        servers::mariadb().await.sql(&self.database, text).await
    }

    /// Table, type, key and the rest of each line of the plan.
    async fn plan(&self, text: &str) -> Vec<[String; 4]> {
        let plan = self.sql(&format!("EXPLAIN {text}")).await;
        let line = |text: &str| {
            let columns: Vec<&str> = text.split('\t').collect();
            [2, 3, 5, 9].map(|nth| columns.get(nth).copied().unwrap_or_default().to_owned())
        };
        plan.lines().map(line).collect()
    }

    /// Rows that the server reads and changes for a statement, which is undone.
    async fn touched(&self, text: &str) -> i64 {
        let answer = self
            .sql(&format!(
                "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; SET autocommit = 0; FLUSH STATUS; {text}; \
                 SELECT 'touched', SUM(variable_value) FROM information_schema.session_status \
                 WHERE variable_name LIKE 'Handler_read%' OR variable_name LIKE 'Handler_%e'; ROLLBACK"
            ))
            .await;
        answer.lines().find_map(|line| line.strip_prefix("touched\t")).unwrap().parse().unwrap()
    }
}

/// A script with its parameters filled in.
fn with(name: &str, values: &[&str]) -> String {
    let body = statements::text("mysql", name);
    assert_eq!(body.matches('?').count(), values.len(), "{name}");
    let mut values = values.iter();
    body.split('?')
        .enumerate()
        .map(
            |(nth, part)| {
                if nth == 0 { part.to_owned() } else { format!("{}{part}", values.next().unwrap()) }
            },
        )
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looks_and_pages_read_what_they_answer_however_many_wait() {
    let database = Filled::new().await;
    let now = NOW.to_string();
    let (all, one) = ("4294967295", "1");
    let after = (NOW + 500).to_string();
    // Statement, its values, table and key, and the rows that it answers.
    let statements: [(&str, &[&str], &str, &str, i64); 16] = [
        ("schedules/list_due", &[&now, all, "1000"], "schedule", "schedule_wake", DUE),
        ("schedules/list_due", &[&now, one, "1000"], "schedule", "schedule_wake", DUE / 32),
        ("schedules/list_due", &[&now, all, "20"], "schedule", "schedule_wake", 20),
        ("schedules/find_next_wake", &[], "schedule", "schedule_wake", 1),
        ("schedules/list", &["'default'", "'s000500'", "50"], "schedule", "schedule_named", 50),
        ("schedules/read", &["'default'", "'s000500'"], "schedule", "schedule_named", 1),
        ("schedules/list_runs", &["7", "0", "40000", "20"], "schedule_run", "PRIMARY", 20),
        (
            "schedules/list_unsettled",
            &["40", "NULL", "NULL", "NULL", "20"],
            "schedule_run",
            "schedule_run_unsettled",
            40,
        ),
        ("schedules/delete_old_runs", &[&after, "100"], "schedule_run", "schedule_run_created", 100),
        ("workflows/list_due", &[&now, all, "1000"], "workflow", "workflow_wake", DUE),
        ("workflows/list_due", &[&now, one, "1000"], "workflow", "workflow_wake", DUE / 32),
        ("workflows/find_next_wake", &[], "workflow", "workflow_wake", 1),
        ("workflows/list_finished", &[&after, "100"], "workflow", "workflow_finished", 100),
        ("workflows/list", &["'default'", "9000", "50"], "workflow", "workflow_listed", 50),
        ("workflows/list_marks", &[&after, all, "200"], "workflow_mark", "workflow_mark_age", 200),
        ("workflows/list_rows", &["77"], "workflow_node", "PRIMARY", 10),
    ];
    for (name, values, table, key, rows) in statements {
        let text = with(name, values);
        if !text.starts_with("DELETE") {
            let plan = database.plan(&text).await;
            assert_eq!((plan[0][0].as_str(), plan[0][2].as_str()), (table, key), "{name}: {plan:?}");
            let sorts = |row: &[String; 4]| row[3].contains("filesort") || row[3].contains("temporary");
            assert!(!plan.iter().any(sorts), "{name}: {plan:?}");
        }
        let touched = database.touched(&text).await;
        assert!((rows..=rows * 4 + 60).contains(&touched), "{name}: {touched} rows for {rows}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_over_many_look_each_up_in_its_key() {
    let database = Filled::new().await;
    let list =
        |of: &dyn Fn(i64) -> String| format!("'[{}]'", (1..=500).map(of).collect::<Vec<_>>().join(","));
    // Each has one run whose number is its schedule's less one, on the second round.
    let runs = list(&|number| format!("[{}, {}, 0, 1, \"t\"]", 1 + (number + 500) % 500, number + 500));
    let schedules = list(&|number| format!("[{number}, 1]"));
    let moved = list(&|number| format!("[{number}, \"{{}}\", 5]"));
    let nodes = list(&|number| format!("[{}, -1, 0, 1, \"t\"]", number % 10));
    let marks = list(&|number| number.to_string());
    let statements: [(&str, Vec<&str>, &str, i64); 8] = [
        ("schedules/lock_steps", vec![&schedules], "schedule", 500),
        ("schedules/advance", vec![&moved], "schedule", 500),
        ("schedules/read_run_tasks", vec![&runs], "schedule_run", 500),
        ("schedules/record_runs", vec![&runs], "schedule_run", 500),
        ("schedules/postpone_runs", vec![&runs, "5"], "schedule_run", 500),
        ("schedules/withdraw_runs", vec![&runs, "5", "'x'"], "schedule_run", 500),
        ("workflows/set_tasks", vec![&nodes, "77"], "workflow_node", 10),
        ("workflows/delete_marks", vec![&marks], "workflow_mark", 500),
    ];
    for (name, values, table, rows) in statements {
        let text = with(name, &values);
        let plan = database.plan(&text).await;
        let line = plan.iter().find(|line| line[0] == table).unwrap_or_else(|| panic!("{name}: {plan:?}"));
        assert!(["eq_ref", "ref"].contains(&line[1].as_str()), "{name}: {plan:?}");
        assert_eq!(line[2], "PRIMARY", "{name}: {plan:?}");
        let touched = database.touched(&text).await;
        assert!((rows..=500 * 10 + 200).contains(&touched), "{name}: {touched} rows for 500");
    }
}
