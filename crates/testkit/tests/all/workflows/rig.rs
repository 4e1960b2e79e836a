//! An engine with a runner of workflows, on either kind of back ends, and executors that a test plays.

use punctual_bus::MemoryBus;
use punctual_contract::{
    BulkStore, Hot, Store, WorkflowStore,
    store::{Assignment, Query},
    workflows::{StoredWorkflow, WorkflowId},
};
use punctual_domain::{
    name::{Name, QueueKey},
    outcome::Report,
    schedule::Payload,
    task::{Content, Task, TaskResult},
    time::Millis,
    workflow::{Definition, Node, NodeKey, NodeState, TaskTemplate},
};
use punctual_engine::{Backends, Engine, LeaseRequest, Options, OutcomeReport};
use punctual_hot::{NoHot, RedisHot, RedisOptions};
use punctual_store::{MysqlOptions, MysqlStore, SqliteStore};
use punctual_testkit::{
    clock::ManualClock,
    faults::{FaultyStore, FaultyWorkflows},
    servers,
};
use punctual_workflows::{Runner, Submission, View};
use std::sync::Arc;

pub(super) const START: Millis = Millis(1_900_000_020_000);

#[derive(Clone)]
pub(super) struct WorkflowsRig {
    pub(super) clock: ManualClock,
    pub(super) engine: Engine,
    pub(super) runner: Runner,
    /// Notifies `runner` of tasks that it ends.
    pub(super) bulk: punctual_bulk::Runner,
    bulks: Arc<dyn BulkStore>,
    pub(super) store: Arc<FaultyStore>,
    pub(super) workflows: Arc<dyn WorkflowStore>,
    /// The same, as this engine's runner sees it.
    pub(super) faulty: Arc<FaultyWorkflows>,
    hot: Arc<dyn Hot>,
}

/// Stamps a test of a rig for both kinds of back ends.
macro_rules! on_both {
    ($case:ident) => {
        mod $case {
            use crate::workflows::rig::WorkflowsRig;

            #[tokio::test]
            async fn on_sqlite() {
                super::$case(WorkflowsRig::sqlite()).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn on_mysql_and_redis() {
                super::$case(WorkflowsRig::mysql().await).await;
            }
        }
    };
}
pub(super) use on_both;

pub(super) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn template(kind: &str, payload: Option<&str>) -> TaskTemplate {
    let payload = payload.map(|payload| Payload::Json(payload.to_owned()));
    TaskTemplate { payload, max_attempts: Some(1), ..TaskTemplate::new(name("q"), name(kind)) }
}

/// A node whose task has its name as kind.
pub(super) fn node(kind: &str, after: &[&str]) -> Node {
    Node { after: after.iter().map(|text| name(text)).collect(), ..Node::task(template(kind, None)) }
}

pub(super) fn with_payload(kind: &str, after: &[&str], payload: &str) -> Node {
    Node { after: after.iter().map(|text| name(text)).collect(), ..Node::task(template(kind, Some(payload))) }
}

pub(super) fn undone_by(kind: &str, payload: Option<&str>) -> Option<TaskTemplate> {
    Some(template(kind, payload))
}

pub(super) fn document(nodes: Vec<(&str, Node)>) -> Definition {
    let nodes = nodes.into_iter().map(|(text, node)| (name(text), node)).collect();
    Definition { name: None, deadline_ms: None, nodes }
}

impl WorkflowsRig {
    pub(super) fn sqlite() -> Self {
        let store = SqliteStore::in_memory(&punctual_store::Options::default()).unwrap();
        let hot = NoHot;
        Self::over(Arc::new(store), Arc::new(hot))
    }

    pub(super) async fn mysql() -> Self {
        let url = servers::migrated_database().await;
        let options = MysqlOptions { partitions: 2, ..MysqlOptions::default() };
        let store = MysqlStore::open(&[url], options).await.unwrap();
        let redis = servers::redis().await;
        let options = RedisOptions {
            partitions: store.partitions(),
            prefix: redis.fresh_prefix(),
            ..RedisOptions::default()
        };
        let hot = RedisHot::connect(&redis.url(), options).await.unwrap();
        Self::over(Arc::new(store), Arc::new(hot))
    }

    fn over<S: Store + WorkflowStore + BulkStore>(store: Arc<S>, hot: Arc<dyn Hot>) -> Self {
        let (workflows, bulks): (Arc<dyn WorkflowStore>, Arc<dyn BulkStore>) = (store.clone(), store.clone());
        Self::on(ManualClock::at(START), Arc::new(FaultyStore::new(store, 7)), (workflows, bulks), hot)
    }

    fn on(
        clock: ManualClock,
        store: Arc<FaultyStore>,
        (workflows, bulks): (Arc<dyn WorkflowStore>, Arc<dyn BulkStore>),
        hot: Arc<dyn Hot>,
    ) -> Self {
        let backends = Backends {
            store: store.clone(),
            hot: hot.clone(),
            limiter: Arc::new(punctual_hot::MemoryLimiter::default()),
            bus: Arc::new(MemoryBus::new()),
            clock: Arc::new(clock.clone()),
            blobs: None,
            shared: None,
        };
        let engine = Engine::new(backends, Options::default());
        let faulty = Arc::new(FaultyWorkflows::new(workflows.clone(), 7));
        let runner = Runner::new(engine.clone(), faulty.clone(), punctual_workflows::Options::default());
        let bulk = punctual_bulk::Runner::new(
            engine.clone(),
            bulks.clone(),
            punctual_bulk::Options::default(),
            Some(runner.clone()),
        );
        Self { clock, engine, runner, bulk, bulks, store, workflows, faulty, hot }
    }

    /// Another engine on the same back ends: also the first one, started again.
    pub(super) fn beside(&self) -> Self {
        let stores = (self.workflows.clone(), self.bulks.clone());
        Self::on(self.clock.clone(), self.store.clone(), stores, self.hot.clone())
    }

    pub(super) fn now(&self) -> Millis {
        self.engine.now()
    }

    pub(super) async fn begin(&self, definition: Definition, input: &str) -> WorkflowId {
        let asked = Submission {
            namespace: Name::default_namespace(),
            definition: Arc::new(definition),
            input: input.to_owned(),
            key: None,
            by: "ada".to_owned(),
        };
        self.runner.create(asked).await.unwrap().0.id
    }

    /// One look of everything, without moving time.
    pub(super) async fn run_once(&self) {
        self.engine.run_once().await.unwrap();
        self.runner.run_once(self.now()).await.unwrap();
        self.engine.run_once().await.unwrap();
    }

    /// Moves time, and stops every second.
    pub(super) async fn pass(&self, seconds: u64) {
        for _ in 0..seconds {
            self.clock.advance_ms(1_000);
            self.run_once().await;
        }
    }

    /// The tasks that are ready now; each stays with its executor.
    pub(super) async fn leased(&self) -> Vec<Assignment> {
        let queue = QueueKey { namespace: Name::default_namespace(), queue: name("q") };
        let asked = LeaseRequest {
            queue: Arc::new(queue),
            max: 2_000,
            wait_ms: 0,
            lease_ms: 60_000,
            executor: "test".to_owned(),
            version: None,
        };
        self.engine.lease(asked).await.unwrap()
    }

    /// Reports; the runner learns of it, as from a server.
    pub(super) async fn report(&self, of: &Assignment, report: Report, result: Option<&str>) {
        self.report_holders(of, report, result).await;
        self.runner.ended([of.place]);
    }

    pub(super) async fn report_holders(&self, of: &Assignment, report: Report, result: Option<&str>) {
        let content = result.map(Content::json);
        let status_msg = if report == Report::Succeeded { String::new() } else { "it broke".to_owned() };
        let result = TaskResult { content, status_msg, ..TaskResult::default() };
        let report = OutcomeReport { place: of.place, fence: of.fence, report, result };
        self.engine.record_outcomes(vec![report], "test").await.unwrap();
    }

    /// As a server processes an outcome: the mark is written first, and the runner is notified last.
    pub(super) async fn report_expected(&self, of: &Assignment, heard: bool) {
        let id: WorkflowId = of.labels["workflow"].parse().unwrap();
        let expected = self.runner.expect([id]).await;
        self.report_holders(of, Report::Succeeded, None).await;
        if heard {
            expected.ended([(Some(id), of.place)]);
        }
    }

    /// Marks that are there.
    pub(super) async fn marks(&self) -> usize {
        self.workflows.marked_workflows(u32::MAX, Millis::MAX, 1_000).await.unwrap().len()
    }

    /// Plays executors until nothing is ready any more: `does` returns the outcome of each attempt, `Ok` with
    /// a result. Returns the kinds that ran, in order.
    pub(super) async fn work(
        &self,
        mut does: impl FnMut(&Assignment) -> Result<Option<String>, ()>,
    ) -> Vec<String> {
        let mut ran = Vec::new();
        loop {
            self.run_once().await;
            let mut leased = self.leased().await;
            if leased.is_empty() {
                return ran;
            }
            leased.sort_by_key(|lease| {
                lease.labels.get("workflow_item").map(|workflow_item| workflow_item.parse::<u32>().unwrap())
            });
            for lease in leased {
                ran.push(lease.kind.as_str().to_owned());
                match does(&lease) {
                    Ok(result) => self.report(&lease, Report::Succeeded, result.as_deref()).await,
                    Err(()) => self.report(&lease, Report::Reject, None).await,
                }
            }
        }
    }

    pub(super) async fn view(&self, id: WorkflowId) -> View {
        self.runner.view(&Name::default_namespace(), id).await.unwrap()
    }

    pub(super) async fn current(&self, id: WorkflowId) -> StoredWorkflow {
        self.workflows.workflow(id).await.unwrap().unwrap()
    }

    pub(super) async fn state(&self, id: WorkflowId, node: &str) -> NodeState {
        let view = self.view(id).await;
        view.run().state_of(view.plan.graph.number(&name(node)).unwrap())
    }

    pub(super) async fn error(&self, id: WorkflowId, node: &str) -> String {
        let view = self.view(id).await;
        let key = NodeKey::node(view.plan.graph.number(&name(node)).unwrap());
        let found = view.contents.unwrap().into_iter().find(|content| content.key == key).unwrap();
        found.carried.error.unwrap_or_default()
    }

    pub(super) async fn tasks(&self) -> Vec<Task> {
        let query = Query { limit: 5_000, ..Query::default() };
        self.engine.list(&query).await.unwrap().tasks
    }
}

/// The payload, as text.
pub(super) fn payload(of: &Assignment) -> String {
    String::from_utf8(of.payload.bytes.clone()).unwrap()
}

/// Each task succeeds, and returns its payload.
#[expect(clippy::unnecessary_wraps, reason = "others fail")]
pub(super) fn echo(of: &Assignment) -> Result<Option<String>, ()> {
    Ok(Some(payload(of)).filter(|payload| !payload.is_empty()))
}
