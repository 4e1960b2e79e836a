//! Compares the scripts of the MySQL store's moves, leases, scans and retention with the domain's table, with
//! their SQLite twins, and with the server's real reads. A read is an exact look-up in the clustered key, or
//! a range that a limit bounds, even where a hundred thousand tasks are due at one instant.

mod chunks;

use crate::statements::{self, statement};
use punctual_domain::{
    history::HISTORY_LEN_MAX,
    state::{Event, State, TRANSITIONS},
};
use punctual_store::{MysqlOptions, MysqlStore};
use punctual_testkit::servers;

const NOW: i64 = 1_900_000_000_000;
/// Where many tasks are due at once.
const INSTANT: i64 = NOW + 50_000;
const CROWD: usize = 100_000;

fn mysql(name: &str) -> String {
    statement("mysql", name)
}

/// The one replacement is made by an insert.
fn of_event(event: Event) -> String {
    let file = if event == Event::Replace { "insert" } else { "moves" };
    mysql(&format!("{file}/{}", event.word()))
}

fn header(event: Event) -> String {
    let row = TRANSITIONS.iter().find(|transition| transition.event == event).unwrap();
    let mut from: Vec<u8> = row.from.iter().map(|state| state.code()).collect();
    from.sort_unstable();
    let from: Vec<String> = from.iter().map(u8::to_string).collect();
    format!("-- moves: {} from ({}) to {}", event.word(), from.join(", "), row.to.code())
}

#[test]
fn every_move_says_what_the_table_says_and_so_does_its_twin() {
    for row in TRANSITIONS {
        let (text, twin) = (of_event(row.event), statement("sqlite", &format!("moves/{}", row.event.word())));
        let header = header(row.event);
        for (dialect, text) in [("mysql", &text), ("sqlite", &twin)] {
            let said: Vec<&str> = text.lines().filter(|line| line.starts_with("-- moves: ")).collect();
            assert_eq!(said, [header.as_str()], "{dialect} {:?}", row.event);
        }
    }
}

/// Moves that have scripts for rows that are alike.
const ALIKE: [&str; 4] = ["claim", "dispatch", "start", "succeed"];

/// The scripts of each event.
fn scripts() -> Vec<(Event, String)> {
    let alike = ALIKE.map(|word| (Event::from_word(word).unwrap(), mysql(&format!("moves/{word}_by_key"))));
    let general = TRANSITIONS.iter().map(|transition| (transition.event, of_event(transition.event)));
    general.chain(alike).collect()
}

#[test]
fn every_guard_and_target_is_the_one_of_its_header() {
    for (event, text) in scripts() {
        let row = TRANSITIONS.iter().find(|transition| transition.event == event).unwrap();
        assert_eq!(text.matches(&header(event)).count(), 1, "{event:?}");
        let states = header(row.event);
        let from = states.split_once("from ").unwrap().1.split_once(" to").unwrap().0;
        assert_eq!(text.matches(&format!("state IN {from}")).count(), 1, "{:?}", row.event);
        assert_eq!(text.matches("state IN").count(), 1, "{:?}", row.event);
        assert_eq!(text.matches(&format!("state = {}", row.to.code())).count(), 1, "{:?}", row.event);
    }
}

#[test]
fn every_move_writes_one_history_line_within_the_domains_bound() {
    for (event, text) in scripts() {
        assert_eq!(text.matches("history = CONCAT(").count(), 1, "{event:?}");
        assert_eq!(text.matches(&format!("> {HISTORY_LEN_MAX}")).count(), 1, "{event:?}");
        assert!(text.contains("updated_at = ?"), "{event:?}");
    }
}

/// Statements of the file that move nothing from one state to another.
const OTHERS: [&str; 5] = ["lock_places", "read_labels", "move_in_time", "save_places", "read_moved_places"];

#[test]
fn there_is_no_move_that_the_table_does_not_have() {
    let names = statements::all("mysql", "moves").into_iter().map(|(name, _)| name);
    let mut found: Vec<String> =
        names.filter(|name| !OTHERS.contains(&name.as_str()) && !name.ends_with("_by_key")).collect();
    found.sort();
    let mut wanted: Vec<&str> = TRANSITIONS
        .iter()
        .map(|transition| transition.event.word())
        .filter(|text| *text != "replace")
        .collect();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
}

/// A database with a crowd at one instant of partition 3, and 10,000 tasks in the minutes around it in 16 partitions.
struct Filled {
    database: String,
    /// A server of its own, where it had to be started again.
    own: Option<servers::MariaDb>,
}

/// The table statistics that the server uses when it chooses a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Statistics {
    OfTheRows,
    /// As after a table was rebuilt while it had no rows: they are kept over a restart until the server counts again.
    OfEmptyTables,
}

const BOTH: [Statistics; 2] = [Statistics::OfTheRows, Statistics::OfEmptyTables];

const COLUMNS: &str = "partition_no, due_at, id, namespace, task_id, task_version, queue, kind, priority, state, fence, \
     attempt, max_attempts, execute_at, created_at, updated_at, place_due_at, cancel_requested, payload_is_json, \
     payload, history";

impl Filled {
    async fn new(statistics: Statistics) -> Self {
        let is_own = statistics == Statistics::OfEmptyTables;
        let own = if is_own { Some(servers::MariaDb::own().await) } else { None };
        let url = match &own {
            Some(mariadb) => mariadb.fresh_database().await,
            None => servers::mariadb().await.fresh_database().await,
        };
        let store = MysqlStore::open(std::slice::from_ref(&url), MysqlOptions::default()).await.unwrap();
        store.close().await;
        let filled = Self { database: url.rsplit('/').next().unwrap().to_owned(), own };
        let row = |partition: &str, due_at: &str, id: &str| {
            format!(
                "{partition}, {due_at}, {id}, 'default', {id}, 0, 'mail', 'send', 3, 1, 1, 0, 5, {due_at}, {NOW}, \
                 {NOW}, {due_at}, 0, 1, '{{}}', '' "
            )
        };
        let spread = row("seq % 16", &format!("{NOW} + seq * 10"), "seq");
        filled.sql(&format!("INSERT INTO task ({COLUMNS}) SELECT {spread} FROM seq_1_to_10000")).await;
        let crowd = row("3", &INSTANT.to_string(), "1000000 + seq");
        filled.sql(&format!("INSERT INTO task ({COLUMNS}) SELECT {crowd} FROM seq_1_to_{CROWD}")).await;
        filled.sql("INSERT INTO lease_batch (lease_until, entries) SELECT seq, '' FROM seq_1_to_10000").await;
        filled
            .sql("INSERT INTO moved (partition_no, id, due_at) SELECT seq % 16, seq, seq FROM seq_1_to_10000")
            .await;
        filled
            .sql(
                "INSERT INTO registry (partition_no, namespace, task_id, task_version, id, due_at) \
             SELECT partition_no, namespace, task_id, 0, id, due_at FROM task",
            )
            .await;
        filled.sql("ANALYZE TABLE task, lease_batch, moved, registry").await;
        if let Some(server) = &filled.own {
            filled.forget_the_rows(server).await;
        }
        filled
    }

    async fn forget_the_rows(&self, server: &servers::MariaDb) {
        let of_this = format!("WHERE database_name = '{}'", self.database);
        self.sql(&format!(
            "SET GLOBAL innodb_stats_auto_recalc = 0; \
             UPDATE mysql.innodb_table_stats SET n_rows = 0, clustered_index_size = 1, sum_of_other_index_sizes = 0 {of_this}; \
             UPDATE mysql.innodb_index_stats SET stat_value = IF(stat_name LIKE 'n_diff%', 0, 1) {of_this}"
        ))
        .await;
        // What it has opened it does not read again.
        server.kill();
        server.start_again().await;
        self.sql("SET GLOBAL innodb_stats_auto_recalc = 0").await;
        let known = "SELECT table_rows FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'task'";
        let known: u64 = self.sql(known).await.trim().parse().unwrap();
        assert!(known < 100, "the server believes in {known} rows");
    }

    async fn sql(&self, text: &str) -> String {
        match &self.own {
            Some(mariadb) => mariadb.sql(&self.database, text).await,
            None => servers::mariadb().await.sql(&self.database, text).await,
        }
    }

    /// The lines of the plan: table, type, key, and the rest.
    async fn plan(&self, text: &str) -> Vec<[String; 4]> {
        let plan = self.sql(&format!("EXPLAIN {text}")).await;
        let line = |text: &str| {
            let columns: Vec<&str> = text.split('\t').collect();
            [2, 3, 5, 9].map(|nth| columns.get(nth).copied().unwrap_or_default().to_owned())
        };
        plan.lines().map(line).collect()
    }

    /// Rows that the server reads and changes for a statement, which is rolled back. The statements before it
    /// stay: resetting the counters commits.
    async fn rows_touched(&self, before: &str, text: &str) -> u64 {
        let script = format!(
            "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; SET autocommit = 0; {before}; FLUSH STATUS; {text}; \
             SELECT 'touched', SUM(variable_value) FROM information_schema.session_status \
             WHERE variable_name LIKE 'Handler_read%' OR variable_name LIKE 'Handler_%e'; ROLLBACK"
        );
        let answer = self.sql(&script).await;
        let touched = answer.lines().find_map(|line| line.strip_prefix("touched\t")).unwrap();
        touched.parse().unwrap()
    }
}

/// How the instants of rows that are alike are written where each has its own.
const BY_ID: &str = "CAST(ELT(INTERVAL(id, ?), ?) AS SIGNED)";

/// A script with its parameters filled in.
fn with(name: &str, values: &[String]) -> String {
    let body = statements::text("mysql", name).replace("{fired_at}", BY_ID);
    assert_eq!(body.matches('?').count(), values.len(), "{name}");
    let mut values = values.iter();
    body.split('?')
        .enumerate()
        .map(|(nth, part)| if nth == 0 { part.to_owned() } else { values.next().unwrap().clone() + part })
        .collect()
}

fn json(rows: &[String]) -> String {
    format!("'[{}]'", rows.join(","))
}

fn places(of: impl Iterator<Item = (i64, i64, i64)>) -> Vec<String> {
    of.enumerate()
        .map(|(nth, (partition, due_at, id))| format!("[{nth},{partition},{due_at},{id}]"))
        .collect()
}

/// Five hundred tasks in a few seconds, over all partitions.
fn spread() -> impl Iterator<Item = (i64, i64, i64)> {
    (4_000..4_500).map(|id| (id % 16, NOW + id * 10, id))
}

/// Five hundred of the crowd.
fn crowd() -> impl Iterator<Item = (i64, i64, i64)> {
    (0..500).map(|nth| (3, INSTANT, 1_000_001 + nth * 199))
}

/// Rows of an update, with as many further values as any of them takes.
fn rows(of: impl Iterator<Item = (i64, i64, i64)>) -> String {
    rows_with(0, of)
}

/// The same, with another number as all of these values.
fn rows_with(number: u8, of: impl Iterator<Item = (i64, i64, i64)>) -> String {
    // As a number, and three bytes in base 64.
    let values = vec![format!("\"{number:04}\""); 7].join(",");
    let row =
        |(partition, due_at, id): (i64, i64, i64)| format!("[{partition},{due_at},{id},1,\"x\",{values}]");
    json(&of.map(row).collect::<Vec<_>>())
}

/// Moves tasks to a state, with the columns that the table requires.
fn put_into(places: &str, state: State) -> String {
    let code = state.code();
    format!(
        "UPDATE JSON_TABLE({places}, '$[*]' COLUMNS (p INT PATH '$[0]', d BIGINT PATH '$[1]', i BIGINT PATH '$[2]')) AS it \
         STRAIGHT_JOIN task FORCE INDEX (PRIMARY) ON partition_no = p AND due_at = d AND id = i \
         SET state = {code}, lease_until = IF({code} IN (4, 5), 1, NULL), keep_until = IF({code} IN (8, 9, 10, 11), 1, NULL)"
    )
}

/// How many rows a statement over five hundred may touch: each is read, found again by its id, changed, perhaps
/// deleted with others that belong to it; the rows of the parameter and of the server's notes count too.
const TOUCHED_MAX: u64 = 500 * 16 + 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn moves_look_each_row_up_in_the_key_however_crowded_its_instant_is() {
    for statistics in BOTH {
        check_moves(Filled::new(statistics).await).await;
    }
}

async fn check_moves(database: Filled) {
    for row in TRANSITIONS.iter().filter(|transition| transition.event != Event::Replace) {
        let name = format!("moves/{}", row.event.word());
        let nows = mysql(&name).matches("= ?").count();
        // These say in which state each row has to be.
        let names_state = matches!(row.event, Event::Dispatch | Event::Succeed);
        let number = if names_state { row.from[0].code() } else { 0 };
        for rows in [rows_with(number, spread()), rows_with(number, crowd())] {
            let values: Vec<String> =
                std::iter::once(rows.clone()).chain(vec![NOW.to_string(); nows]).collect();
            let text = with(&name, &values);
            let plan = database.plan(&text).await;
            let task = plan.iter().find(|task| task[0] == "task").unwrap();
            assert_eq!(&task[1..3], ["eq_ref", "PRIMARY"], "{name}: {plan:?}");
            let touched = database.rows_touched(&put_into(&rows, row.from[0]), &text).await;
            assert!((2_000..=TOUCHED_MAX).contains(&touched), "{name}: {touched} rows for 500");
        }
    }
}

/// As many rows as one statement names, and as many places as one condition.
const NAMED: i64 = 1_000;
const NAMED_TO_READ: i64 = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_are_alike_are_named_by_their_keys_in_one_statement() {
    for statistics in BOTH {
        check_rows(Filled::new(statistics).await).await;
    }
}

async fn check_rows(database: Filled) {
    let list = |ids: Vec<i64>| ids.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    let ids = list((4_000..4_000 + NAMED).collect());
    let tables = [
        ("claim", State::Scheduled, vec!["'x'"]),
        ("dispatch", State::Ready, vec![&ids, &ids, "5", "'x'", "'e'", "5"]),
        ("start", State::Dispatched, vec!["'x'", "5", "NULL"]),
        ("succeed", State::Running, vec![&ids, &ids, "'x'", "5", "0", "''", "1", "'{}'"]),
    ];
    for (event, state, said) in tables {
        let mut values: Vec<String> = said.iter().map(|value| (*value).to_owned()).collect();
        values.push(NOW.to_string());
        values.extend(["3", "7", "9"].map(str::to_owned));
        values.extend([state.code().to_string(), "1".to_owned()]);
        let one = with(&format!("moves/{event}_by_key"), &values);
        let name_all = |places: &[String]| {
            assert!(one.contains("((3, 7, 9))"), "{one}");
            one.replace("((3, 7, 9))", &format!("({})", places.join(", ")))
        };
        let key = |id: i64| format!("({}, {}, {id})", id % 16, NOW + id * 10);
        let wide: Vec<String> = (4_000..4_000 + NAMED).map(key).collect();
        let narrow: Vec<String> =
            spread().map(|(partition, due_at, id)| format!("({partition}, {due_at}, {id})")).collect();
        let crowded: Vec<String> =
            crowd().map(|(partition, due_at, id)| format!("({partition}, {due_at}, {id})")).collect();
        // One row is named twice: for a list of one, MariaDB reads the whole table.
        for places in [wide.clone(), vec![wide[0].clone(); 2]] {
            let plan = database.plan(&name_all(&places)).await;
            assert_eq!(&plan[0][..3], ["task", "range", "PRIMARY"], "{event}");
        }
        for (name, places, rows) in [("spread", &narrow, rows(spread())), ("crowd", &crowded, rows(crowd()))]
        {
            let text = name_all(places);
            let plan = database.plan(&text).await;
            assert_eq!(&plan[0][..3], ["task", "range", "PRIMARY"], "{event}: {plan:?}");
            let touched = database.rows_touched(&put_into(&rows, state), &text).await;
            assert!((1_000..=500 * 4).contains(&touched), "{event}, {name}: {touched} rows for 500");
        }
    }
    check_reads(&database).await;
}

async fn check_reads(database: &Filled) {
    let key = |id: i64| format!("({},{},{id})", id % 16, NOW + id * 10);
    let keys: Vec<String> = (4_000..4_000 + NAMED_TO_READ).map(key).collect();
    let places = format!("(task.partition_no, task.due_at, task.id) IN ({})", keys.join(","));
    for name in ["lease/read_for_grant", "lease/read_in_flight_by_key"] {
        let text = mysql(name).replace("{places}", &places);
        let plan = database.plan(&text).await;
        assert_eq!(&plan[0][..3], ["task", "range", "PRIMARY"], "{name}: {plan:?}");
        let touched = database.rows_touched("DO 0", &text).await;
        assert!((300..=640).contains(&touched), "{name}: {touched} rows for {NAMED_TO_READ}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_statements_over_places_look_each_up_in_the_key() {
    for statistics in BOTH {
        check_other(Filled::new(statistics).await).await;
    }
}

async fn check_other(database: Filled) {
    let mut statements: Vec<(&str, Vec<String>)> = Vec::new();
    for name in [
        "moves/lock_places",
        "lease/lock_for_grant",
        "lease/lock_held",
        "retention/lock_expired",
        "lease/read_in_flight",
        "scan/read_unfinished",
    ] {
        for places in [places(spread()), places(crowd())] {
            statements.push((name, vec![json(&places)]));
        }
    }
    for rows in [rows(spread()), rows(crowd())] {
        statements.push(("retention/delete_finished", vec![rows.clone()]));
        statements.push(("namespaces/delete_tasks", vec![rows.clone()]));
        statements.push(("lease/extend", vec![rows, NOW.to_string()]));
    }
    for (name, values) in statements {
        let text = with(name, &values);
        let plan = database.plan(&text).await;
        assert!(plan.iter().any(|row| row[0] == "task"), "{name}: {plan:?}");
        for row in plan.iter().filter(|row| row[0] != "wanted") {
            // The only table of which a task has several rows.
            let wanted = if row[0] == "lookup" { ["ref", "lookup_of"] } else { ["eq_ref", "PRIMARY"] };
            assert_eq!(&row[1..3], wanted, "{name}: {plan:?}");
        }
        let state = if name == "retention/delete_finished" { State::Dead } else { State::Running };
        let before =
            if values[0].contains("\"x\"") { put_into(&values[0], state) } else { "DO 0".to_owned() };
        let touched = database.rows_touched(&before, &text).await;
        assert!((500..=TOUCHED_MAX).contains(&touched), "{name}: {touched} rows for 500");
    }
    for name in ["moves/read_moved_places", "moves/save_places"] {
        let text = with(name, &[json(&places(spread()))]);
        assert!(database.rows_touched("DO 0", &text).await <= 500 * 4 + 50, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scans_and_walks_read_what_they_answer_and_no_more() {
    for statistics in BOTH {
        check_scans(Filled::new(statistics).await).await;
    }
}

async fn check_scans(database: Filled) {
    let values = |numbers: &[i64]| numbers.iter().map(i64::to_string).collect::<Vec<_>>();
    let late = NOW + 1_000_000;
    let statements = [
        ("scan/scan", values(&[5, NOW, late, 100]), "range", 100),
        ("scan/scan", values(&[3, INSTANT - 1, INSTANT, 100]), "range", 100),
        ("scan/scan_instant", values(&[3, INSTANT, 1_050_000, 100]), "range", 100),
        ("scan/find_first", values(&[3, INSTANT - 1, INSTANT]), "range", 1),
        ("scan/walk_unfinished", values(&[3, INSTANT, late, 3, INSTANT, 1_050_000, 1_000]), "range", 1_000),
        ("scan/walk", values(&[3, INSTANT, late, 3, INSTANT, 1_050_000, 1_000]), "range", 1_000),
        ("scan/find_overdue_bound", values(&[3, INSTANT, late, 3, INSTANT, 1_050_000, 999]), "range", 1_000),
        ("scan/list_overdue", values(&[3, INSTANT, late, 3, INSTANT, 1_050_000, 1_000]), "range", 1_000),
        (
            "retention/walk",
            values(&[i64::MIN, NOW, 3, INSTANT, 3, INSTANT, 1_050_000, 1_000]),
            "range",
            1_000,
        ),
        ("retention/walk_next_partition", values(&[i64::MIN, NOW, -1, 1_000]), "range", 1_000),
        ("retention/walk_next_partition", values(&[i64::MIN, NOW, 2, 1_000]), "range", 1_000),
        (
            "retention/list_span_rows",
            values(&[3, INSTANT, late, 3, INSTANT, 1_050_000, 1_000]),
            "range",
            1_000,
        ),
    ];
    for (name, values, kind, rows) in statements {
        let text = with(name, &values);
        let plan = database.plan(&text).await;
        let [line] = plan.as_slice() else { panic!("{name}: {plan:?}") };
        assert_eq!(&line[..3], ["task", kind, "PRIMARY"], "{name}: {plan:?}");
        assert!(!line[3].contains("filesort") && !line[3].contains("temporary"), "{name}: {plan:?}");
        let touched = database.rows_touched("DO 0", &text).await;
        assert!((rows..=rows + 100).contains(&touched), "{name}: {touched} rows for {rows}");
    }
    let partitions = (0..16).map(|nth| nth.to_string()).collect::<Vec<_>>().join(", ");
    for (from, most, there) in [(500_000, 400, 0), (4_000, 400, 400), (4_000, i64::MAX, 500)] {
        let ids = values(&[from, from + 499, most]);
        let text =
            with("insert/list_between", &[&[partitions.clone(), "'default'".to_owned()], &ids[..]].concat());
        let plan = database.plan(&text).await;
        let [line] = plan.as_slice() else { panic!("{plan:?}") };
        assert_eq!(&line[..3], ["registry", "range", "PRIMARY"], "{plan:?}");
        assert!(!line[3].contains("filesort") && !line[3].contains("temporary"), "{plan:?}");
        let touched = database.rows_touched("DO 0", &text).await;
        assert!((there..=there + 100).contains(&touched), "{touched} rows for {there}");
    }
    let of_namespace = ["3", "'default'", "1050000", "1050000", "0", "100"].map(str::to_owned);
    let text = with("namespaces/list_tasks", &of_namespace);
    let plan = database.plan(&text).await;
    let [line] = plan.as_slice() else { panic!("{plan:?}") };
    assert_eq!(&line[..3], ["registry", "range", "PRIMARY"], "{plan:?}");
    assert!(!line[3].contains("filesort") && !line[3].contains("temporary"), "{plan:?}");
    let touched = database.rows_touched("DO 0", &text).await;
    assert!((100..=200).contains(&touched), "{touched} rows for 100");
    let text = with("lease/list_batches", &values(&[5_000, 9_000, 5_000, 5_000, 100]));
    let plan = database.plan(&text).await;
    assert_eq!(&plan[0][..3], ["lease_batch", "range", "lease_batch_until"], "{plan:?}");
    assert!(!plan[0][3].contains("filesort"), "{plan:?}");
    let text = with("lease/delete_batches", &["'[1,2,3]'".to_owned()]);
    assert!(database.rows_touched("DO 0", &text).await < 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_touches_what_its_key_says_and_a_walk_what_bounds_it() {
    for statistics in BOTH {
        check_searches(Filled::new(statistics).await).await;
    }
}

async fn check_searches(database: Filled) {
    // Under one term a hundredth of the crowd, under another half of it.
    database
        .sql(
            "INSERT INTO lookup (term, id, partition_no) \
             SELECT 7, id, partition_no FROM registry WHERE id > 1000000 AND id % 100 = 0 \
             UNION ALL SELECT 8, id, partition_no FROM registry WHERE id > 1000000 AND id % 2 = 0",
        )
        .await;
    let all = |parts: &[&[&str]]| parts.concat().into_iter().map(str::to_owned).collect::<Vec<_>>();
    let (none, of_queue): (&[&str], &[&str]) =
        (&["NULL", "NULL"], &["'default'", "'default'", "'mail'", "'mail'"]);
    let (term, ids): (&[&str], &[&str]) = (&["7"], &["2000000", "1"]);
    // Nothing matches: all that a look may pass over.
    let (label, nobody): (&[&str], &[&str]) = (&["'x'", "'x'"], &["'nobody'", "'nobody'"]);
    let page: &[&str] = &["20"];
    let walked: &[&str] = &["1100001", "1080001"];
    let instant = INSTANT.to_string();
    let from = [instant.as_str(), instant.as_str(), "1050000"];
    let before = (INSTANT + 1).to_string();
    let range = ["3", from[0], from[1], from[2], before.as_str(), before.as_str(), "0"];
    let bound = ["3", instant.as_str(), before.as_str(), before.as_str(), "0", "1249"];
    let states: &[&str] = &["-1"];
    // Each found by five look-ups; where the server knows of no rows, it reads the few partitions from end to end.
    let of_found = |rows: u64| rows * 25;
    let statements = [
        (
            "query/list_by_term",
            all(&[term, ids, of_queue, none, none, none, none, none, none, none, page]),
            of_found(20),
        ),
        (
            "bulk/list_matching_by_term",
            all(&[&["1"], none, term, ids, states, of_queue, none, none, none, none, none, none, page]),
            of_found(20),
        ),
        (
            "bulk/list_matching_by_term",
            all(&[&["1"], none, term, ids, states, of_queue, nobody, none, none, none, none, none, page]),
            of_found(1_000),
        ),
        (
            "query/list",
            all(&[walked, of_queue, none, nobody, none, none, none, none, none, page]),
            of_found(20_000),
        ),
        (
            "bulk/list_matching",
            all(&[&["1"], none, walked, states, of_queue, none, none, none, label, none, none, page]),
            of_found(20_000),
        ),
        ("query/list_by_due", all(&[&range, of_queue, none, none, none, none, none, page]), 100),
        ("query/list_by_due_rising", all(&[&range, of_queue, none, none, none, none, none, page]), 100),
        ("query/find_due_bound", all(&[&bound]), 1_300),
        ("query/find_due_bound_rising", all(&[&range, &bound[bound.len() - 1..]]), 1_300),
        ("labels/find_newest", all(&[term, &["1050000"]]), 50),
        ("labels/find_term_bound", all(&[&["8"], &["1090000"], &["4999"]]), 5_050),
        ("labels/lock_range", all(&[&["1050000", "1050999"]]), 1_050),
        (
            "labels/list_earlier",
            all(&[&["1050000", "1050999"], &["'default'", "'mail'", "'mail'"]]),
            of_found(1_000),
        ),
        ("labels/list_earlier_dead", all(&[&["1050000", "1050999"]]), of_found(1_000)),
    ];
    for (name, values, most) in statements {
        check_search(&database, name, &values, most).await;
    }
    check_oldest_first(&database).await;
    chunks::check(&database).await;
}

async fn check_search(database: &Filled, name: &str, values: &[String], most: u64) {
    let text = with(name, values);
    let plan = database.plan(&text).await;
    let sorts = |row: &[String; 4]| row[3].contains("filesort") || row[3].contains("temporary");
    assert!(!plan.iter().any(sorts), "{name}: {plan:?}");
    let touched = database.rows_touched("DO 0", &text).await;
    assert!(touched <= most, "{name}: {touched} rows, {most} at the most: {plan:?}");
}

/// In ascending order along all ids, and for tasks with a few callers' ids.
async fn check_oldest_first(database: &Filled) {
    let text = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
    let (walked, unset) = (["1100001", "1080001"], ["NULL"; 10]);
    let of_queue = ["'default'", "'default'", "'mail'", "'mail'", "NULL", "NULL"];
    let page = |kind: &[&str]| text(&[&walked[..], &of_queue, kind, &unset, &["20"]].concat());
    // Each found by five look-ups; what matches is found as it comes.
    check_search(database, "query/list_rising", &page(&["'nobody'", "'nobody'"]), 20_000 * 25).await;
    check_search(database, "query/list_rising", &page(&["NULL", "NULL"]), 20 * 25).await;
    check_search(database, "query/find_oldest_above", &text(&["1050000"]), 50).await;
    let ids = text(&["'[[3,1000500],[4,20],[5,21]]'", "'default'"]);
    check_search(database, "query/read_latest_versions", &ids, 100).await;
}
