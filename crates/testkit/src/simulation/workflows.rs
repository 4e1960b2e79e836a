//! Several runners on one store, each of which dies or pauses at any of its calls, under a clock that jumps, while
//! workflows are started, cancelled and retried. Each node runs as its edges require and has one task, none is
//! missed, and completed work is undone in reverse order. Firing is not under test here: one sound engine runs beside
//! them.

mod plan;

use super::{
    mortal::{Life, LifeEnd, Mortal},
    nodes::{NodeWork, Nodes, engine_on, queue},
    stores,
};
use crate::clock::ManualClock;
use plan::{NodeKind, Plan, node_name};
use punctual_contract::{
    Clock as _, Store as _, WorkflowStore,
    store::{Assignment, Query},
    workflows::{StoredNode, WorkflowId, WorkflowQuery},
};
use punctual_domain::{
    name::Name,
    outcome::Report,
    task::TaskResult,
    time::Millis,
    workflow::{NodeKey, NodeState, Role, WorkflowState},
};
use punctual_engine::{Engine, LeaseRequest, OutcomeReport, Reported};
use punctual_store::sqlite::SqliteStore;
use punctual_workflows::{Runner, Submission};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

const START: Millis = Millis(1_900_000_020_000);
const RUNNERS: usize = 2;
const WORKFLOWS_MAX: usize = 6;
const ALL: usize = 100_000;
const LEASE_MS: i64 = 20_000;
/// The seconds in which everything ends once no engine dies any more. Lost ends are found at the end of a lease at
/// the latest, and a node waits for 3 s at most.
const QUIET_S: usize = 300;

/// A task, as its labels say.
type Identity = (WorkflowId, String, Option<u32>, bool, u32);

#[derive(Clone, Debug)]
struct BegunWorkflow {
    plan: Plan,
    /// It was cancelled or retried: then its end is not known beforehand.
    is_changed: bool,
}

struct WorkflowStage {
    clock: ManualClock,
    rng: fastrand::Rng,
    store: Arc<SqliteStore>,
    /// Sound: it fires, and callers ask it.
    engine: Engine,
    asked: Runner,
    nodes: Nodes<(Engine, Runner)>,
    begun: BTreeMap<WorkflowId, BegunWorkflow>,
    /// The plans by the key of their creation.
    asked_for: Vec<(String, Plan)>,
    held: Vec<Assignment>,
    /// Identities whose outcome may have been reported, from the sending of the report on.
    reported: HashMap<Identity, bool>,
    /// The task of each.
    tasks: HashMap<Identity, i64>,
}

fn runner(engine: Engine, store: Arc<SqliteStore>, life: Arc<Life>) -> (Engine, Runner) {
    let inner: Arc<dyn WorkflowStore> = store;
    let workflows = Arc::new(Mortal { inner, life });
    let runner = Runner::new(engine.clone(), workflows, punctual_workflows::Options::default().in_place());
    (engine, runner)
}

fn identity(lease: &Assignment) -> Option<Identity> {
    let label = |name: &str| lease.labels.get(name);
    let item = label("workflow_item").and_then(|label| label.parse().ok());
    let is_undoing = label("workflow_role").is_some();
    let attempt = label("workflow_attempt")?.parse().ok()?;
    Some((label("workflow")?.parse().ok()?, label("workflow_node")?.clone(), item, is_undoing, attempt))
}

fn number(node: &str) -> Option<usize> {
    node.strip_prefix('n')?.parse().ok()
}

fn key_of(node: usize, item: Option<u32>) -> NodeKey {
    NodeKey { node: u32::try_from(node).unwrap_or(u32::MAX), item, role: Role::Action }
}

impl WorkflowStage {
    fn new(seed: u64) -> Self {
        let clock = ManualClock::at(START);
        let store = stores::fresh(4);
        let engine = engine_on(store.clone(), &clock);
        let asked =
            Runner::new(engine.clone(), store.clone(), punctual_workflows::Options::default().in_place());
        let nodes = Nodes::new(RUNNERS, &store, &clock, runner);
        Self {
            clock,
            rng: fastrand::Rng::with_seed(seed),
            store,
            engine,
            asked,
            nodes,
            begun: BTreeMap::new(),
            asked_for: Vec::new(),
            held: Vec::new(),
            reported: HashMap::new(),
            tasks: HashMap::new(),
        }
    }

    /// One runner does something, and may die or fall asleep at one of its calls.
    async fn work<W>(&mut self, work: impl FnOnce(Engine, Runner) -> W)
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let nth = self.rng.usize(..self.nodes.len());
        let end = match self.rng.u8(..4) {
            0 => Some(LifeEnd::Death),
            1 => Some(LifeEnd::Sleep),
            _ => None,
        };
        let calls = self.rng.usize(..14);
        let work = |(engine, runner)| -> NodeWork { Box::pin(work(engine, runner)) };
        self.nodes.work(nth, end, calls, work).await;
    }

    async fn begin(&mut self) {
        let again = self.rng.bool().then(|| self.asked_for.last().cloned()).flatten();
        let (key, plan) = match again {
            Some(asked) => asked,
            None if self.asked_for.len() >= WORKFLOWS_MAX => return,
            None => {
                let asked = (format!("k{}", self.asked_for.len()), Plan::random(&mut self.rng));
                self.asked_for.push(asked.clone());
                asked
            }
        };
        let asked = Submission {
            namespace: Name::default_namespace(),
            definition: Arc::new(plan.definition()),
            input: "null".to_owned(),
            key: Some(key),
            by: "sim".to_owned(),
        };
        self.work(|_, runner| async move { drop(runner.create(asked).await) }).await;
    }

    /// Learns the existing workflows by the keys of their requests; other workflows stay unknown.
    async fn learn(&mut self) -> Result<(), String> {
        for (key, plan) in self.asked_for.clone() {
            let asked = Submission {
                namespace: Name::default_namespace(),
                definition: Arc::new(plan.definition()),
                input: "null".to_owned(),
                key: Some(key),
                by: "sim".to_owned(),
            };
            let (stored, _) = self.asked.create(asked).await.map_err(|error| error.to_string())?;
            self.begun.entry(stored.id).or_insert(BegunWorkflow { plan, is_changed: false });
        }
        Ok(())
    }

    async fn fire(&mut self) -> Result<(), String> {
        let _ = self.engine.run_once().await;
        let asked = LeaseRequest {
            queue: Arc::new(queue()),
            max: 1_000,
            wait_ms: 0,
            lease_ms: LEASE_MS,
            executor: "sim".to_owned(),
            version: None,
        };
        for lease in self.engine.lease(asked).await.unwrap_or_default() {
            self.check_begin(&lease).await?;
            self.held.retain(|held| held.place.id != lease.place.id);
            self.held.push(lease);
        }
        Ok(())
    }

    /// An executor reports to an engine, which may die or sleep meanwhile; then it reports again to another.
    async fn report(&mut self, count: usize) {
        let mut some = Vec::new();
        for _ in 0..count.min(self.held.len()) {
            let nth = self.rng.usize(..self.held.len());
            some.extend(self.held.get(nth).cloned());
        }
        some.dedup_by_key(|lease| lease.place.id);
        let (reports, of) = self.reports(&some);
        let places: Vec<_> = some.iter().map(|lease| lease.place).collect();
        let told = Arc::new(parking_lot::Mutex::new(None));
        let answers = Arc::clone(&told);
        self.work(|engine, runner| async move {
            let expected = runner.expect(of.clone()).await;
            let Ok(recorded) = engine.record_outcomes(reports, "sim").await else { return };
            let ended = of.into_iter().zip(places).zip(&recorded);
            let ended: Vec<_> = ended
                .filter(|pair| *pair.1 == Reported::Accepted)
                .map(|pair| (Some(pair.0.0), pair.0.1))
                .collect();
            expected.ended(ended);
            *answers.lock() = Some(());
        })
        .await;
        if told.lock().is_some() {
            self.held.retain(|lease| !some.iter().any(|told| told.place.id == lease.place.id));
        }
    }

    fn reports(&mut self, some: &[Assignment]) -> (Vec<OutcomeReport>, Vec<WorkflowId>) {
        let (mut reports, mut of) = (Vec::new(), Vec::new());
        for lease in some {
            let Some(identity) = identity(lease) else { continue };
            let plan = self.begun.get(&identity.0).map(|begun| &begun.plan);
            let fails = !identity.3
                && identity.4 == 1
                && number(&identity.1).zip(plan).is_some_and(|(node, plan)| plan.fails(node, identity.2));
            let report = if fails { Report::Reject } else { Report::Succeeded };
            of.push(identity.0);
            self.reported.insert(identity, !fails);
            let result = TaskResult::default();
            reports.push(OutcomeReport { place: lease.place, fence: lease.fence, report, result });
        }
        (reports, of)
    }

    /// Checks a task that is handed over: its node has no other, and its parents hold.
    async fn check_begin(&mut self, lease: &Assignment) -> Result<(), String> {
        let identity = identity(lease).ok_or("a task of no workflow")?;
        if *self.tasks.entry(identity.clone()).or_insert(lease.place.id) != lease.place.id {
            return Err(format!("{identity:?} has two tasks"));
        }
        self.learn().await?;
        let Some(begun) = self.begun.get(&identity.0) else { return Ok(()) };
        let Some(node) = number(&identity.1) else { return Ok(()) };
        if identity.3 {
            return self.check_undoing(identity.0, node, identity.2).await;
        }
        let Some(planned) = begun.plan.nodes.get(node) else { return Err("an unknown node".to_owned()) };
        let held = planned.parents.iter().filter(|parent| self.may_hold(identity.0, begun, **parent)).count();
        match held >= planned.need {
            true => Ok(()),
            false => Err(format!("{identity:?} runs, and {held} of {} parents hold", planned.need)),
        }
    }

    /// True if the parent may hold, as far as reports were sent.
    fn may_hold(&self, id: WorkflowId, begun: &BegunWorkflow, parent: usize) -> bool {
        let Some(planned) = begun.plan.nodes.get(parent) else { return false };
        let ended = |item| {
            let of_it =
                |row: &&Identity| row.0 == id && row.1 == node_name(parent) && row.2 == item && !row.3;
            self.reported.iter().any(|pair| of_it(&pair.0) && (*pair.1 || planned.goes_on))
        };
        match planned.kind {
            NodeKind::Task => ended(None),
            NodeKind::Each(items) => (0..items).all(|nth| ended(Some(nth))),
            // What its executors have is not seen from here.
            NodeKind::Workflow => true,
        }
    }

    async fn rows(&self, id: WorkflowId) -> Result<BTreeMap<NodeKey, StoredNode>, String> {
        let rows = self.store.node_rows(id).await.map_err(|error| error.to_string())?;
        Ok(rows.into_iter().map(|node| (node.key, node)).collect())
    }

    /// A compensation runs: nothing else does, and later work is already undone.
    async fn check_undoing(&self, id: WorkflowId, node: usize, item: Option<u32>) -> Result<(), String> {
        let Some(begun) = self.begun.get(&id) else { return Ok(()) };
        let rows = self.rows(id).await?;
        let key = key_of(node, item);
        let order = |key: &NodeKey| rows.get(key).and_then(|node| node.row.order);
        let own = order(&key).ok_or_else(|| format!("{id}: {key:?} is undone and was not done"))?;
        for (other, row) in &rows {
            let is_open = row.row.state.is_open() && row.row.items.is_none();
            if is_open && *other != key.undoing() {
                return Err(format!("{id}: {key:?} is undone, and {other:?} runs"));
            }
            let nth = usize::try_from(other.node).unwrap_or(usize::MAX);
            let compensates = begun.plan.nodes.get(nth).is_some_and(|node| node.compensates);
            let was_later = other.role == Role::Action
                && row.row.items.is_none()
                && row.row.state == NodeState::Succeeded
                && row.row.order > Some(own);
            let is_undone = rows.get(&other.undoing()).is_some_and(|node| node.row.state.has_ended());
            if compensates && was_later && !is_undone {
                return Err(format!("{id}: {key:?} is undone before {other:?}, which was done after it"));
            }
        }
        Ok(())
    }

    async fn step(&mut self) -> Result<(), String> {
        match self.rng.u8(..24) {
            0..3 => self.begin().await,
            3..8 => {
                let now = self.clock.now();
                self.work(|_, runner| async move { drop(runner.run_once(now).await) }).await;
            }
            8..11 => self.work(|_, runner| async move { drop(runner.go_on().await) }).await,
            11..13 => {
                let nth = self.rng.usize(..self.nodes.len());
                self.nodes.go_on(nth).await;
            }
            13..17 => {
                let count = self.rng.usize(1..5);
                self.report(count).await;
            }
            17..22 => {
                let ms = self.rng.choice([200, 1_000, 3_100, 6_000]).unwrap_or(200);
                self.clock.advance(Duration::from_millis(ms));
                self.fire().await?;
            }
            22 => self.clock.go_back(Duration::from_millis(self.rng.u64(..2_000))),
            _ => self.command().await?,
        }
        self.check_tasks().await
    }

    /// Cancels a workflow, or retries one.
    async fn command(&mut self) -> Result<(), String> {
        self.learn().await?;
        let all: Vec<WorkflowId> = self.begun.keys().copied().collect();
        let Some(id) = self.rng.choice(all) else { return Ok(()) };
        let done =
            if self.rng.bool() { self.asked.cancel(id, "sim").await } else { self.asked.retry(id).await };
        match done {
            Ok(_) => {
                self.begun.entry(id).and_modify(|begun| begun.is_changed = true);
                Ok(())
            }
            Err(punctual_workflows::Error::Refused(_)) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Checks that no node has two tasks, handed over or not.
    async fn check_tasks(&self) -> Result<(), String> {
        let query = Query { limit: ALL, ..Query::default() };
        let tasks = self.store.list(&query).await.map_err(|error| error.to_string())?.tasks;
        let mut seen = BTreeSet::new();
        match tasks.iter().find(|task| !seen.insert(task.ask.labels.clone())) {
            Some(twice) => Err(format!("two tasks with {:?}", twice.ask.labels)),
            None => Ok(()),
        }
    }

    /// All nodes wake up, and none dies any more: every workflow reaches its correct end.
    async fn finish(&mut self) -> Result<(), String> {
        for nth in 0..self.nodes.len() {
            self.nodes.go_on(nth).await;
        }
        self.learn().await?;
        for _ in 0..QUIET_S {
            if self.all_are_over().await? {
                return self.check_ends().await;
            }
            self.clock.advance(Duration::from_secs(1));
            self.asked.run_once(self.clock.now()).await.map_err(|error| error.to_string())?;
            self.fire().await?;
            let held = std::mem::take(&mut self.held);
            let (reports, _) = self.reports(&held);
            self.engine.record_outcomes(reports, "sim").await.map_err(|error| error.to_string())?;
            self.asked.ended(held.iter().map(|lease| lease.place));
            self.asked.go_on().await.map_err(|error| error.to_string())?;
        }
        let waits = self.all().await?.into_iter().find(|workflow| !workflow.state.is_finished());
        Err(format!("{QUIET_S} s later it is not over: {waits:?}"))
    }

    async fn all(&self) -> Result<Vec<punctual_contract::workflows::StoredWorkflow>, String> {
        let query = WorkflowQuery {
            namespace: Name::default_namespace(),
            name: None,
            state: None,
            before: None,
            limit: ALL,
        };
        self.store.workflows(&query).await.map_err(|error| error.to_string())
    }

    async fn all_are_over(&self) -> Result<bool, String> {
        Ok(self.all().await?.iter().all(|workflow| workflow.state.is_finished()))
    }

    async fn check_ends(&self) -> Result<(), String> {
        self.check_tasks().await?;
        if let Err(error) = self.asked.reconcile().await {
            return Err(format!("something does not add up: {error}"));
        }
        for stored in self.all().await? {
            let Some(begun) = self.begun.get(&stored.id).filter(|begun| !begun.is_changed) else { continue };
            let rows = self.rows(stored.id).await?;
            let failed = matches!(stored.state, WorkflowState::Failed | WorkflowState::Compensated);
            if begun.plan.fails_for_good() {
                if !failed {
                    return Err(format!("{} is {:?}, and should have failed", stored.id, stored.state));
                }
                continue;
            }
            if stored.state != WorkflowState::Succeeded {
                return Err(format!("{} is {:?}: {:?}", stored.id, stored.state, stored.progress));
            }
            for (nth, fate) in begun.plan.fates().into_iter().enumerate() {
                let state = rows.get(&key_of(nth, None)).map_or(NodeState::Blocked, |node| node.row.state);
                if state != fate {
                    return Err(format!("{}: n{nth} is {state:?}, and should be {fate:?}", stored.id));
                }
            }
        }
        Ok(())
    }
}

/// One life of several runners.
///
/// # Errors
/// The first promise that was broken, and the step that broke it.
pub async fn run_workflows(seed: u64, steps: usize) -> Result<(), String> {
    let mut stage = WorkflowStage::new(seed);
    for nth in 0..steps {
        stage.step().await.map_err(|error| format!("step {nth}: {error}"))?;
    }
    stage.finish().await.map_err(|error| format!("at the end: {error}"))
}
