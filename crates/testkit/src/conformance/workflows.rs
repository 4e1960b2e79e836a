//! Workflows: their documents, their steps, and the rows of their nodes.

use punctual_contract::{
    WorkflowStore,
    store::Applied,
    workflows::{
        AdvanceWorkflow, Carried, ChangedNode, CreatedWorkflow, MadeNode, NewWorkflow, StoredNode,
        StoredWorkflow, WorkflowId, WorkflowMark, WorkflowQuery,
    },
};
use punctual_domain::{
    name::Name,
    schedule::TaskTemplate,
    time::Millis,
    workflow::{Definition, Ending, Node, NodeKey, NodeRow, NodeState, ParentNode, Progress, WorkflowState},
};
use std::sync::Arc;
use tokio::task::JoinSet;

const NOW: Millis = Millis(1_800_000_000_000);
const ALL_SLOTS: u32 = u32::MAX;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// A document that differs with the kind of its task.
fn document(of: Option<&str>, kind: &str) -> Arc<Definition> {
    let node = Node::task(TaskTemplate::new(name("q"), name(kind)));
    let nodes = [(name("a"), node)].into_iter().collect();
    Arc::new(Definition { name: of.map(name), deadline_ms: Some(9), nodes })
}

fn request(kind: &str) -> NewWorkflow {
    NewWorkflow {
        namespace: Name::default_namespace(),
        definition: document(None, kind),
        input: "{\"n\": 1.0, \"t\": \"\u{1f600} 'x' \\\\ \"}".to_owned(),
        key: None,
        progress: Progress::default(),
        wake_at: Some(NOW),
        by: "ada".to_owned(),
    }
}

async fn created(store: &dyn WorkflowStore, new: NewWorkflow) -> StoredWorkflow {
    store.create_workflow(new, NOW).await.unwrap().workflow
}

fn open(node: u32) -> ChangedNode {
    let row = NodeRow { state: NodeState::Open, attempt: 1, ..NodeRow::default() };
    ChangedNode { key: NodeKey::node(node), row, carried: Carried::default() }
}

fn step(of: &StoredWorkflow, rows: Vec<ChangedNode>) -> AdvanceWorkflow {
    AdvanceWorkflow {
        id: of.id,
        step: of.step,
        state: WorkflowState::Running,
        progress: of.progress.clone(),
        wake_at: Some(NOW),
        rows,
        mark: None,
    }
}

async fn advanced(store: &dyn WorkflowStore, of: &StoredWorkflow, rows: Vec<ChangedNode>) -> StoredWorkflow {
    assert_eq!(store.advance_workflow(step(of, rows), NOW).await.unwrap(), Applied::Moved);
    store.workflow(of.id).await.unwrap().unwrap()
}

async fn rows(store: &dyn WorkflowStore, id: WorkflowId) -> Vec<StoredNode> {
    let mut all = store.node_rows(id).await.unwrap();
    all.sort_unstable_by_key(|node| node.key);
    all
}

pub async fn a_workflow_comes_back_as_it_was_created(store: Arc<dyn WorkflowStore>) {
    assert_eq!(store.workflow(WorkflowId(1)).await.unwrap(), None);
    let parent = ParentNode { workflow: 7, node: 3, item: Some(2), attempt: 4 };
    let progress = Progress {
        ending: Some(Ending::Cancelled),
        reason: Some("é \u{1f600}".to_owned()),
        completed: 5,
        deadline_at: Some(Millis::MAX),
        parent: Some(parent),
        is_keyed: true,
    };
    let asked =
        NewWorkflow { definition: document(Some("order"), "k"), progress: progress.clone(), ..request("k") };
    let CreatedWorkflow { workflow, is_new } = store.create_workflow(asked.clone(), NOW).await.unwrap();
    assert!(is_new);
    assert_eq!(
        (workflow.name.clone(), workflow.version, workflow.state),
        (Some(name("order")), 1, WorkflowState::Running)
    );
    assert_eq!((&workflow.progress, &workflow.input, workflow.wake_at), (&progress, &asked.input, Some(NOW)));
    assert_eq!((workflow.created_at, workflow.finished_at, workflow.created_by.as_str()), (NOW, None, "ada"));
    let definition = store.definition(workflow.definition).await.unwrap().unwrap();
    assert_eq!((&definition.definition, definition.version), (&*asked.definition, 1));
    assert_eq!(store.workflow(workflow.id).await.unwrap(), Some(workflow.clone()));
    assert_eq!(rows(&*store, workflow.id).await, []);
}

pub async fn documents_that_are_alike_are_one_and_others_are_the_next_version(store: Arc<dyn WorkflowStore>) {
    let of = |kind: &str| NewWorkflow { definition: document(Some("order"), kind), ..request(kind) };
    let mut all = Vec::new();
    for kind in ["x", "x", "y", "x", "z"] {
        all.push(created(&*store, of(kind)).await);
    }
    assert_eq!(all.iter().map(|workflow| workflow.version).collect::<Vec<_>>(), [1, 1, 2, 1, 3]);
    assert!(all[0].definition == all[1].definition && all[0].definition == all[3].definition);
    let other = NewWorkflow { namespace: name("other"), ..of("y") };
    assert_eq!(created(&*store, other).await.version, 1);
}

pub async fn of_two_creations_with_one_key_one_is_made(store: Arc<dyn WorkflowStore>) {
    let asked = NewWorkflow { key: Some("k".repeat(40)), ..request("k") };
    let mut asking = JoinSet::new();
    for _ in 0..8 {
        let (store, asked) = (Arc::clone(&store), asked.clone());
        asking.spawn(async move { store.create_workflow(asked, NOW).await.unwrap() });
    }
    let all = asking.join_all().await;
    assert_eq!(all.iter().filter(|created| created.is_new).count(), 1);
    assert!(all.iter().all(|created| created.workflow.id == all[0].workflow.id));
    let elsewhere = NewWorkflow { namespace: name("other"), ..asked };
    assert!(store.create_workflow(elsewhere, NOW).await.unwrap().is_new);
}

pub async fn of_many_who_decide_on_one_step_one_is_applied_with_its_rows(store: Arc<dyn WorkflowStore>) {
    let workflow = created(&*store, request("k")).await;
    let mut deciding = JoinSet::new();
    for node in 0..8 {
        let (store, asked) = (Arc::clone(&store), step(&workflow, vec![open(node)]));
        deciding.spawn(async move { (node, store.advance_workflow(asked, NOW).await.unwrap()) });
    }
    let all = deciding.join_all().await;
    let moved: Vec<u32> = all.iter().filter(|pair| pair.1 == Applied::Moved).map(|pair| pair.0).collect();
    assert_eq!(moved.len(), 1, "{all:?}");
    assert_eq!(rows(&*store, workflow.id).await.iter().map(|node| node.key.node).collect::<Vec<_>>(), moved);
    assert_eq!(store.workflow(workflow.id).await.unwrap().unwrap().step, workflow.step + 1);
}

pub async fn rows_are_written_again_and_keep_what_they_must(store: Arc<dyn WorkflowStore>) {
    let workflow = created(&*store, request("k")).await;
    let items = Carried { items: Some("[1, 2]".to_owned()), ..Carried::default() };
    let fan_out = NodeRow { items: Some(2), ..open(0).row };
    let opened = vec![
        ChangedNode { key: NodeKey::node(0), row: fan_out, carried: items },
        ChangedNode { key: NodeKey::item(0, 1), ..open(0) },
        ChangedNode { key: NodeKey::node(3).undoing(), ..open(0) },
    ];
    let stored_workflow = advanced(&*store, &workflow, opened).await;
    let key = NodeKey::item(0, 1);
    store
        .nodes_made(stored_workflow.id, vec![MadeNode { key, attempt: 1, task_ref: "t1".to_owned() }])
        .await
        .unwrap();
    let later = NOW.plus(5);
    let result =
        Carried { result: Some("\"\u{1f600} '\\\\\"".to_owned()), error: Some("é".to_owned()), items: None };
    let done = NodeRow { state: NodeState::Succeeded, order: Some(7), ..open(0).row };
    let ended = vec![
        ChangedNode {
            key: NodeKey::node(0),
            row: NodeRow { items: Some(2), ..done },
            carried: Carried::default(),
        },
        ChangedNode { key, row: done, carried: result.clone() },
    ];
    assert_eq!(store.advance_workflow(step(&stored_workflow, ended), later).await.unwrap(), Applied::Moved);
    let all = rows(&*store, stored_workflow.id).await;
    assert_eq!(all.len(), 3);
    assert_eq!((all[0].row.items, all[0].row.state), (Some(2), NodeState::Succeeded));
    assert_eq!((all[1].key, all[1].row.order, all[1].row.is_made), (key, Some(7), true));
    assert_eq!(
        (all[1].begun_at, all[1].ended_at, all[1].task_ref.as_deref()),
        (NOW, Some(later), Some("t1"))
    );
    assert_eq!((all[2].key, all[2].ended_at), (NodeKey::node(3).undoing(), None));
    let contents = store.node_contents(stored_workflow.id, vec![0]).await.unwrap();
    let of = |wanted: NodeKey| contents.iter().find(|content| content.key == wanted).unwrap().carried.clone();
    assert_eq!(of(key), result);
    assert_eq!(of(NodeKey::node(0)).items.as_deref(), Some("[1, 2]"), "as it was written first");
    assert_eq!(contents.len(), 2);
    // A new attempt has another task.
    let this_workflow = store.workflow(stored_workflow.id).await.unwrap().unwrap();
    let again = ChangedNode { key, row: NodeRow { attempt: 2, ..open(0).row }, carried: Carried::default() };
    advanced(&*store, &this_workflow, vec![again]).await;
    let all = rows(&*store, this_workflow.id).await;
    assert_eq!((all[1].task_ref.as_deref(), all[1].row.attempt, all[1].ended_at), (None, 2, None));
}

pub async fn a_reference_is_noted_once_and_for_its_attempt(store: Arc<dyn WorkflowStore>) {
    let workflow = created(&*store, request("k")).await;
    advanced(&*store, &workflow, vec![open(0), open(1)]).await;
    let made = |node, attempt, task: &str| {
        let (store, task_ref) = (Arc::clone(&store), task.to_owned());
        async move {
            store
                .nodes_made(workflow.id, vec![MadeNode { key: NodeKey::node(node), attempt, task_ref }])
                .await
        }
    };
    made(0, 2, "t-other").await.unwrap();
    made(0, 1, "t-first").await.unwrap();
    made(0, 1, "t-second").await.unwrap();
    let all = rows(&*store, workflow.id).await;
    assert_eq!((all[0].task_ref.as_deref(), all[1].task_ref.as_deref()), (Some("t-first"), None));
}

pub async fn ten_thousand_rows_are_one_step(store: Arc<dyn WorkflowStore>) {
    let workflow = created(&*store, request("k")).await;
    let items: Vec<ChangedNode> =
        (0..10_000).map(|nth| ChangedNode { key: NodeKey::item(0, nth), ..open(0) }).collect();
    let stored_workflow = advanced(&*store, &workflow, items).await;
    assert_eq!(rows(&*store, stored_workflow.id).await.len(), 10_000);
    let made = |nth| MadeNode { key: NodeKey::item(0, nth), attempt: 1, task_ref: format!("t{nth}") };
    store.nodes_made(stored_workflow.id, (0..10_000).map(made).collect()).await.unwrap();
    let all = rows(&*store, stored_workflow.id).await;
    assert!(all.iter().all(|node| node.row.is_made));
    assert_eq!(all[9_999].task_ref.as_deref(), Some("t9999"));
}

pub async fn only_what_is_to_be_looked_at_and_of_the_asked_slots_is_found(store: Arc<dyn WorkflowStore>) {
    assert_eq!(store.next_workflow_wake().await.unwrap(), None);
    let mut all = Vec::new();
    for nth in 0..40_i64 {
        let asked = NewWorkflow { wake_at: Some(NOW.plus(nth)), input: nth.to_string(), ..request("k") };
        all.push(created(&*store, asked).await);
    }
    assert_eq!(store.next_workflow_wake().await.unwrap(), Some(NOW));
    let due = store.due_workflows(ALL_SLOTS, NOW.plus(9), 100).await.unwrap();
    assert_eq!(
        due.iter().map(|workflow| workflow.id).collect::<Vec<_>>(),
        all[..10].iter().map(|workflow| workflow.id).collect::<Vec<_>>()
    );
    assert_eq!(store.due_workflows(ALL_SLOTS, NOW.plus(99), 7).await.unwrap().len(), 7);
    let mut by_slot = Vec::new();
    for slot in 0..32 {
        by_slot.extend(store.due_workflows(1 << slot, NOW.plus(99), 100).await.unwrap());
    }
    assert_eq!(by_slot.len(), 40, "each in one slot");
    assert!(store.due_workflows(1, NOW.plus(99), 100).await.unwrap().len() < 20, "spread");
    // An ended workflow is not looked at.
    let over =
        AdvanceWorkflow { state: WorkflowState::Succeeded, wake_at: None, ..step(&all[0], Vec::new()) };
    assert_eq!(store.advance_workflow(over, NOW).await.unwrap(), Applied::Moved);
    assert_eq!(store.due_workflows(ALL_SLOTS, NOW, 100).await.unwrap(), []);
    assert_eq!(store.workflow(all[0].id).await.unwrap().unwrap().finished_at, Some(NOW));
}

pub async fn marks_are_found_by_age_and_slot_until_they_are_deleted(store: Arc<dyn WorkflowStore>) {
    let mark = |id: i64, of: i64| WorkflowMark { id, workflow: WorkflowId(of) };
    let mut all: Vec<WorkflowMark> = (0..70).map(|nth| mark(i64::MAX - nth, nth + 1)).collect();
    for (nth, mark) in (0..).zip(&all) {
        store.mark_workflows(vec![*mark], NOW.plus(nth)).await.unwrap();
    }
    // A repeated mark keeps its age.
    store.mark_workflows(all[..2].to_vec(), NOW.plus(100)).await.unwrap();
    let found = |slots, before, limit| {
        let store = Arc::clone(&store);
        async move { store.marked_workflows(slots, before, limit).await.unwrap() }
    };
    assert_eq!(found(ALL_SLOTS, NOW.plus(10), 100).await, all[..10]);
    assert_eq!(found(ALL_SLOTS, NOW.plus(99), 3).await, all[..3]);
    let mut by_slot = Vec::new();
    for slot in 0..32 {
        by_slot.extend(found(1 << slot, NOW.plus(99), 100).await);
    }
    assert_eq!(by_slot.len(), 70, "each in one slot");
    let gone: Vec<i64> = all.drain(..60).map(|mark| mark.id).collect();
    store.unmark_workflows(gone).await.unwrap();
    store.unmark_workflows(vec![1]).await.unwrap();
    assert_eq!(found(ALL_SLOTS, NOW.plus(99), 100).await, all);
}

pub async fn a_mark_is_made_with_the_step_that_it_is_of_or_not_at_all(store: Arc<dyn WorkflowStore>) {
    let workflow = created(&*store, request("k")).await;
    let with = |id| AdvanceWorkflow {
        mark: Some(WorkflowMark { id, workflow: WorkflowId(9) }),
        ..step(&workflow, Vec::new())
    };
    assert_eq!(store.advance_workflow(with(1), NOW).await.unwrap(), Applied::Moved);
    assert_eq!(store.advance_workflow(with(2), NOW).await.unwrap(), Applied::Lost);
    let marks = store.marked_workflows(ALL_SLOTS, NOW.plus(1), 9).await.unwrap();
    assert_eq!(marks, [WorkflowMark { id: 1, workflow: WorkflowId(9) }]);
}

pub async fn workflows_are_listed_newest_first_page_by_page(store: Arc<dyn WorkflowStore>) {
    for nth in 0..10 {
        let of = if nth % 2 == 0 { "even" } else { "odd" };
        let asked = NewWorkflow { definition: document(Some(of), "k"), ..request("k") };
        let workflow = created(&*store, asked).await;
        if nth < 5 {
            let state = WorkflowState::Failed;
            let over = AdvanceWorkflow { state, wake_at: None, ..step(&workflow, Vec::new()) };
            store.advance_workflow(over, NOW).await.unwrap();
        }
    }
    created(&*store, NewWorkflow { namespace: name("other"), ..request("k") }).await;
    let query = |of: Option<&str>, state| WorkflowQuery {
        namespace: Name::default_namespace(),
        name: of.map(name),
        state,
        before: None,
        limit: 100,
    };
    let count = |query: WorkflowQuery| {
        let store = Arc::clone(&store);
        async move { store.workflows(&query).await.unwrap().len() }
    };
    assert_eq!(count(query(None, None)).await, 10);
    assert_eq!(count(query(Some("even"), None)).await, 5);
    assert_eq!(count(query(None, Some(WorkflowState::Failed))).await, 5);
    assert_eq!(count(query(Some("even"), Some(WorkflowState::Failed))).await, 3);
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let page = store.workflows(&WorkflowQuery { before, limit: 3, ..query(None, None) }).await.unwrap();
        let Some(last) = page.last() else { break };
        before = Some(last.id);
        seen.extend(page.into_iter().map(|workflow| workflow.id.0));
    }
    assert_eq!(seen.len(), 10);
    assert!(seen.windows(2).all(|pair| pair[0] > pair[1]), "{seen:?}");
}

pub async fn what_is_over_is_forgotten_with_its_rows_and_what_runs_stays(store: Arc<dyn WorkflowStore>) {
    let runs = created(&*store, request("runs")).await;
    let mut over = Vec::new();
    for kind in ["x", "x", "y"] {
        let workflow = created(&*store, request(kind)).await;
        let rows = (0..3).map(|nth| ChangedNode { key: NodeKey::item(0, nth), ..open(0) }).collect();
        let end = AdvanceWorkflow { state: WorkflowState::Succeeded, wake_at: None, ..step(&workflow, rows) };
        store.advance_workflow(end, NOW).await.unwrap();
        over.push(workflow);
    }
    assert_eq!(store.forget_workflows(NOW, 100).await.unwrap(), 0, "not before their time");
    let before = NOW.plus(3_600_000 * 3);
    assert_eq!(store.forget_workflows(before, 2).await.unwrap(), 2);
    assert_eq!(store.forget_workflows(before, 100).await.unwrap(), 1);
    for workflow in over {
        assert_eq!(store.workflow(workflow.id).await.unwrap(), None);
        assert_eq!(rows(&*store, workflow.id).await, []);
        assert_eq!(store.definition(workflow.definition).await.unwrap(), None);
    }
    assert!(store.definition(runs.definition).await.unwrap().is_some());
    assert!(store.workflow(runs.id).await.unwrap().is_some());
}
