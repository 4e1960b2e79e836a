//! What waiting workflows cost due ones: `cargo run -p punctual-testkit --example waiting_workflows --
//! [waiting]`, on a private MariaDB. Measures looks, starts, steps and marks without waiting workflows, and
//! then among this many (1,000,000 unless given), which wait for a month. The server makes the rows.
#![expect(clippy::print_stdout, reason = "its purpose")]

use punctual_contract::{
    WorkflowStore,
    workflows::{
        AdvanceWorkflow, Carried, ChangedNode, NewWorkflow, StoredWorkflow, WorkflowId, WorkflowMark,
    },
};
use punctual_domain::{
    name::Name,
    schedule::TaskTemplate,
    time::Millis,
    workflow::{Definition, Node, NodeKey, NodeRow, NodeState, Progress, WorkflowState},
};
use punctual_store::{MysqlOptions, MysqlStore};
use punctual_testkit::servers;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

const NOW: Millis = Millis(1_900_000_000_000);
const MONTH_MS: i64 = 30 * 24 * 3_600_000;
const MEASURED: usize = 200;

fn name(text: &str) -> Name {
    Name::new(text).expect("a plain name")
}

fn request(nth: usize) -> NewWorkflow {
    let node = || Node::task(TaskTemplate::new(name("q"), name("k")));
    let nodes = [(name("a"), node()), (name("b"), Node { after: vec![name("a")], ..node() })];
    let definition = Definition { name: None, deadline_ms: None, nodes: nodes.into_iter().collect() };
    NewWorkflow {
        namespace: Name::default_namespace(),
        definition: Arc::new(definition),
        input: format!("{{\"nth\": {nth}}}"),
        key: None,
        progress: Progress::default(),
        wake_at: Some(NOW),
        by: "bench".to_owned(),
    }
}

fn step(of: &StoredWorkflow) -> AdvanceWorkflow {
    let row = NodeRow { state: NodeState::Open, attempt: 1, ..NodeRow::default() };
    let opened = ChangedNode { key: NodeKey::node(0), row, carried: Carried::default() };
    AdvanceWorkflow {
        id: of.id,
        step: of.step,
        state: WorkflowState::Running,
        progress: of.progress.clone(),
        wake_at: Some(NOW.plus(MONTH_MS)),
        rows: vec![opened],
        mark: None,
    }
}

/// The median and the longest of the measured times.
fn reported(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    let longest = times.last().copied().unwrap_or_default();
    println!("  {what}: median {median:?}, longest {longest:?}");
}

async fn timed<T>(times: &mut Vec<Duration>, work: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let done = work.await;
    times.push(began.elapsed());
    done
}

async fn measure(store: &MysqlStore) {
    let (mut begun, mut looks, mut steps, mut marks) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for nth in 0..MEASURED {
        timed(&mut begun, store.create_workflow(request(nth), NOW)).await.expect("it begins");
    }
    let due = store.due_workflows(u32::MAX, NOW, MEASURED).await.expect("a look");
    assert_eq!(due.len(), MEASURED, "those that have begun, and none that waits");
    for workflow in &due {
        timed(&mut looks, store.due_workflows(u32::MAX, NOW, MEASURED)).await.expect("a look");
        timed(&mut steps, store.advance_workflow(step(workflow), NOW)).await.expect("a step");
        let mark = WorkflowMark { id: workflow.id.0, workflow: workflow.id };
        timed(&mut marks, store.mark_workflows(vec![mark], NOW)).await.expect("a mark");
    }
    assert_eq!(store.due_workflows(u32::MAX, NOW, MEASURED).await.expect("a look"), []);
    let all = store.marked_workflows(u32::MAX, NOW.plus(1), MEASURED).await.expect("marks");
    store.unmark_workflows(all.iter().map(|mark| mark.id).collect()).await.expect("they are deleted");
    reported("to begin one", begun);
    reported("a look, at 100 on average", looks);
    reported("a step", steps);
    reported("a mark", marks);
}

/// Of this process, which does what an engine does for them.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map_or("?", str::trim);
    format!("{} now, {} at the most", of("VmRSS:"), of("VmHWM:"))
}

#[tokio::main]
async fn main() {
    let waiting: u64 = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(1_000_000);
    let server = servers::mariadb().await;
    let url = server.fresh_database().await;
    let database = url.rsplit('/').next().unwrap_or_default().to_owned();
    let store = MysqlStore::open(&[url], MysqlOptions::default()).await.expect("it was made a moment ago");
    let warm = store.create_workflow(request(0), NOW).await.expect("it begins").workflow;
    store.advance_workflow(step(&warm), NOW).await.expect("a step");
    println!("none waits");
    measure(&store).await;
    let wake_at = NOW.0 + MONTH_MS;
    let fill = format!(
        "INSERT INTO workflow (namespace, name, version, definition_id, slot, step, state, progress, input, wake_at, created_at, updated_at, created_by) \
         SELECT 'default', '', 1, {}, seq % 32, 1, 1, '{{}}', 'null', {wake_at} + seq, {}, {}, '' FROM seq_1_to_{waiting}; \
         INSERT INTO workflow_node (workflow_id, node, item, role, state, attempt, begun_at) \
         SELECT id, 0, -1, 0, 1, 1, {} FROM workflow WHERE wake_at > {wake_at}; ANALYZE TABLE workflow, workflow_node",
        warm.definition, NOW.0, NOW.0, NOW.0
    );
    server.sql(&database, &fill).await;
    assert!(store.workflow(WorkflowId(warm.id.0)).await.expect("a read").is_some());
    println!("{waiting} wait for a month");
    measure(&store).await;
    println!("  memory of this process: {}", memory());
    store.close().await;
}
