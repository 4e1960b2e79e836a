//! No engine evaluates a subject a third time after two engines died of it: schedules, workflows, bulk
//! operations. An engine dies here as a process does. Nothing continues from the instant at which the engine
//! evaluates the poison, and its marks stay.

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use punctual_bulk::Runner as Bulks;
use punctual_bus::MemoryBus;
use punctual_contract::{
    BulkStore, EvaluationStore, Hot, ScheduleStore, Store, WorkflowStore,
    evaluations::{Crowd, DEATHS_MAX, EvaluationKind, EvaluationPass, Subject, SubjectMarks},
    ownership::{Ownership as _, Says},
    schedules::{RunQuery, ScheduleKey},
    workflows::WorkflowId,
};
use punctual_domain::{
    bulk::{Action, Bulk, BulkState, Filter},
    name::{Name, QueueKey},
    schedule::{Outcome, Payload, Schedule, TaskTemplate},
    task::NewTask,
    time::Millis,
    workflow::{Definition, Node, WorkflowState},
};
use punctual_engine::{AlertKind, Backends, Engine, Options, Probe};
use punctual_hot::NoHot;
use punctual_schedules::Planner;
use punctual_store::{MysqlOptions, MysqlStore, SqliteStore};
use punctual_testkit::{clock::ManualClock, servers};
use punctual_workflows::{Runner as Workflows, Submission};
use std::{sync::Arc, time::Duration};
use tokio::sync::Notify;

/// A full minute.
const START: Millis = Millis(1_900_000_020_000);

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn acme(text: &str) -> ScheduleKey {
    ScheduleKey { namespace: name("acme"), name: name(text) }
}

/// The parts that survive the engines.
struct EvaluationsWorld {
    clock: ManualClock,
    store: Arc<dyn Store>,
    schedules: Arc<dyn ScheduleStore>,
    workflows: Arc<dyn WorkflowStore>,
    bulks: Arc<dyn BulkStore>,
    hot: Arc<dyn Hot>,
    /// An engine that evaluates one of these dies.
    poisons: Arc<Mutex<Vec<(EvaluationKind, String)>>>,
    evaluated: Arc<Mutex<Vec<(EvaluationKind, String)>>>,
    /// Evaluating these panics.
    panics: Arc<Mutex<Vec<String>>>,
}

/// One life of an engine.
struct Process {
    engine: Engine,
    planner: Planner,
    workflows: Workflows,
    bulks: Bulks,
    died: Arc<Notify>,
}

/// Stamps a test for both kinds of back ends.
macro_rules! on_both {
    ($($case:ident),* $(,)?) => {$(
        mod $case {
            #[tokio::test]
            async fn on_sqlite() {
                super::$case(super::EvaluationsWorld::sqlite()).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn on_mysql() {
                super::$case(super::EvaluationsWorld::mysql().await).await;
            }
        }
    )*};
}

mod ended;

on_both!(
    a_schedule_that_kills_is_evaluated_twice_and_all_others_run_on,
    a_schedule_whose_planning_panics_is_planned_twice_and_all_others_each_time,
    what_was_only_in_flight_with_a_poison_is_cleared,
    a_workflow_that_kills_is_evaluated_twice_and_all_others_run_on,
    a_bulk_operation_that_kills_is_carried_on_twice_and_all_others_go_on,
    an_error_and_a_caller_that_goes_away_are_no_deaths,
    without_marks_every_engine_dies_and_nothing_behind_the_poison_runs,
);

impl EvaluationsWorld {
    fn sqlite() -> Self {
        Self::over(Arc::new(SqliteStore::in_memory(&punctual_store::Options::default()).unwrap()))
    }

    async fn mysql() -> Self {
        let url = servers::migrated_database().await;
        let options = MysqlOptions { partitions: 2, ..MysqlOptions::default() };
        Self::over(Arc::new(MysqlStore::open(&[url], options).await.unwrap()))
    }

    fn over<S: Store + ScheduleStore + WorkflowStore + BulkStore>(store: Arc<S>) -> Self {
        let hot = NoHot;
        Self {
            clock: ManualClock::at(START),
            store: store.clone(),
            schedules: store.clone(),
            workflows: store.clone(),
            bulks: store,
            hot: Arc::new(hot),
            poisons: Arc::default(),
            evaluated: Arc::default(),
            panics: Arc::default(),
        }
    }

    /// A process that begins: an engine that no other knows.
    fn begins(&self) -> Process {
        let (poisons, evaluated, died) =
            (self.poisons.clone(), self.evaluated.clone(), Arc::new(Notify::new()));
        let dies = died.clone();
        let probe = Probe::new(move |kind, name| {
            evaluated.lock().push((kind, name.to_owned()));
            if !poisons.lock().iter().any(|poison| *poison == (kind, name.to_owned())) {
                return std::future::ready(()).boxed();
            }
            dies.notify_one();
            std::future::pending().boxed()
        });
        let panics = self.panics.clone();
        let probe = probe.on_thread(move |_, name| {
            assert!(!panics.lock().iter().any(|panic| panic == name), "as this test wants it");
        });
        let backends = Backends {
            store: self.store.clone(),
            hot: self.hot.clone(),
            limiter: Arc::new(punctual_hot::MemoryLimiter::default()),
            bus: Arc::new(MemoryBus::new()),
            clock: Arc::new(self.clock.clone()),
            blobs: None,
            shared: None,
        };
        let engine = Engine::new(backends, Options { probe: Some(probe), ..Options::default() });
        let planner =
            Planner::new(engine.clone(), self.schedules.clone(), punctual_schedules::Options::default());
        let workflows =
            Workflows::new(engine.clone(), self.workflows.clone(), punctual_workflows::Options::default());
        let bulks = Bulks::new(engine.clone(), self.bulks.clone(), punctual_bulk::Options::default(), None);
        Process { engine, planner, workflows, bulks, died }
    }

    fn is_deadly(&self, kind: EvaluationKind, name: &str) {
        self.poisons.lock().push((kind, name.to_owned()));
    }

    fn is_mended(&self) {
        self.poisons.lock().clear();
        self.panics.lock().clear();
    }

    fn times_evaluated(&self, kind: EvaluationKind, name: &str) -> usize {
        self.evaluated.lock().iter().filter(|pair| pair.0 == kind && pair.1 == name).count()
    }

    /// Processes that begin one after the other, each for some minutes or until it dies. How many died.
    async fn restarts(&self, processes: usize) -> usize {
        let mut deaths = 0;
        for _ in 0..processes {
            let process = self.begins();
            for _ in 0..4 {
                self.clock.advance_ms(20_000);
                if process.lives().await.is_none() {
                    deaths += 1;
                    break;
                }
            }
        }
        deaths
    }

    async fn created_runs(&self, key: &ScheduleKey) -> usize {
        let stored = self.schedules.schedule(key).await.unwrap().unwrap();
        let query = RunQuery { schedule: stored.id, from: START, before: Millis(i64::MAX), limit: 1_000 };
        let runs = self.schedules.runs(&query).await.unwrap();
        runs.iter().filter(|run| run.outcome == Outcome::Created && run.is_recorded).count()
    }
}

impl Process {
    /// Everything once. None: it died, and nothing of it continues.
    async fn lives(&self) -> Option<()> {
        let now = self.engine.now();
        let all = async {
            self.planner.run_once(now).await.unwrap();
            self.workflows.run_once(now).await.unwrap();
            self.bulks.run_once(now).await.unwrap();
        };
        self.unless_it_dies(all).await
    }

    async fn unless_it_dies<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.died.notified() => None,
            done = work => Some(done),
        }
    }

    async fn alert(&self) -> Option<String> {
        let alerts = self.engine.alerts().await.unwrap();
        alerts.into_iter().find(|alert| alert.kind == AlertKind::EvaluationSetAside).map(|alert| alert.text)
    }
}

fn every_minute() -> Schedule {
    let task = TaskTemplate::new(name("mail"), name("digest"));
    Schedule { cron: vec!["* * * * *".to_owned()], ..Schedule::new(task) }
}

async fn a_schedule_that_kills_is_evaluated_twice_and_all_others_run_on(world: EvaluationsWorld) {
    let first = world.begins();
    let others =
        ["a", "m", "z"].map(|text| ScheduleKey { namespace: name(&format!("t{text}")), name: name(text) });
    for key in others.iter().chain([&acme("poison")]) {
        first.planner.put(key, every_minute(), "ada", |_| true).await.unwrap();
    }
    drop(first);
    world.is_deadly(EvaluationKind::Schedule, "poison");
    assert_eq!(world.restarts(8).await, DEATHS_MAX);
    assert_eq!(world.times_evaluated(EvaluationKind::Schedule, "poison"), DEATHS_MAX);
    for key in &others {
        assert!(world.created_runs(key).await >= 5, "{key:?} runs on");
    }
    let process = world.begins();
    process.lives().await.unwrap();
    let alert = process.alert().await.unwrap();
    assert!(alert.ends_with("schedule acme/poison"), "{alert}");
    let all = process.planner.set_aside().await.unwrap();
    assert_eq!(all.iter().map(|set_aside| set_aside.name.as_str()).collect::<Vec<_>>(), ["poison"]);

    // Mended, and resumed: nothing of the document has changed.
    world.is_mended();
    process.planner.resume(&acme("poison"), "ada").await.unwrap();
    assert!(process.planner.set_aside().await.unwrap().is_empty());
    process.lives().await.unwrap();
    assert!(world.times_evaluated(EvaluationKind::Schedule, "poison") > DEATHS_MAX);
    assert!(world.created_runs(&acme("poison")).await >= 1);
    world.clock.advance_ms(20_000);
    process.lives().await.unwrap();
    process.engine.alerts().await.unwrap();
}

async fn a_schedule_whose_planning_panics_is_planned_twice_and_all_others_each_time(world: EvaluationsWorld) {
    let process = world.begins();
    let others = ["a", "m", "z"].map(acme);
    for key in others.iter().chain([&acme("poison")]) {
        process.planner.put(key, every_minute(), "ada", |_| true).await.unwrap();
    }
    world.panics.lock().push("poison".to_owned());
    // No pass fails, and no schedule of the same batch waits for another.
    for minute in 1..=6 {
        world.clock.advance_ms(60_000);
        process.lives().await.unwrap();
        for key in &others {
            assert_eq!(world.created_runs(key).await, minute + 1, "{key:?}: the next is made ahead");
        }
    }
    assert_eq!(world.times_evaluated(EvaluationKind::Schedule, "poison"), DEATHS_MAX);
    assert_eq!(world.created_runs(&acme("poison")).await, 0);
    let alert = process.alert().await.unwrap();
    assert!(alert.ends_with("schedule acme/poison"), "{alert}");
    // Also of an engine that begins later, and after a clean stop of the one that has panicked.
    process.planner.leave().await.unwrap();
    let next = world.begins();
    world.clock.advance_ms(60_000);
    next.lives().await.unwrap();
    assert_eq!(world.times_evaluated(EvaluationKind::Schedule, "poison"), DEATHS_MAX);

    world.is_mended();
    next.planner.resume(&acme("poison"), "ada").await.unwrap();
    next.lives().await.unwrap();
    assert!(next.planner.set_aside().await.unwrap().is_empty());
    assert!(world.created_runs(&acme("poison")).await >= 1);
}

/// The result without marks: the test drops the marks after each death.
async fn without_marks_every_engine_dies_and_nothing_behind_the_poison_runs(world: EvaluationsWorld) {
    let first = world.begins();
    let poison = first.planner.put(&acme("poison"), every_minute(), "ada", |_| true).await.unwrap();
    world.clock.advance_ms(1);
    let behind = first.planner.put(&acme("z"), every_minute(), "ada", |_| true).await.unwrap();
    drop(first);
    world.is_deadly(EvaluationKind::Schedule, "poison");
    let ids = [poison.schedule.id, behind.schedule.id];
    for _ in 0..6 {
        assert_eq!(world.restarts(1).await, 1);
        world.schedules.release_evaluations(EvaluationKind::Schedule, &ids, "nobody").await.unwrap();
    }
    assert_eq!(world.created_runs(&acme("z")).await, 0);
}

async fn what_was_only_in_flight_with_a_poison_is_cleared(world: EvaluationsWorld) {
    let first = world.begins();
    for nth in 0..6 {
        first.planner.put(&acme(&format!("s{nth}")), every_minute(), "ada", |_| true).await.unwrap();
    }
    drop(first);
    world.is_deadly(EvaluationKind::Schedule, "s2");
    world.is_deadly(EvaluationKind::Schedule, "s4");
    // All six were in flight at the first death, and those behind the first poison wait for the second.
    assert_eq!(world.restarts(8).await, 3);
    for nth in 0..6 {
        let text = format!("s{nth}");
        let times = world.times_evaluated(EvaluationKind::Schedule, &text);
        let made = world.created_runs(&acme(&text)).await;
        match nth {
            // Of the second the first death was before its turn.
            2 | 4 => assert!(times <= DEATHS_MAX && made == 0, "{text}: {times} {made}"),
            _ => assert!(made >= 5, "{text}: {made}"),
        }
    }
    let process = world.begins();
    let mut names: Vec<String> =
        process.planner.set_aside().await.unwrap().into_iter().map(|set_aside| set_aside.name).collect();
    names.sort();
    assert_eq!(names, ["s2", "s4"]);
}

fn with_expression(namespace: &str) -> Submission {
    let payload = Some(Payload::Json(r#"{"n": {"$expr": "input.n + 1"}}"#.to_owned()));
    let task = TaskTemplate { payload, ..TaskTemplate::new(name("q"), name("k")) };
    let node = Node { when: Some("input.n == 1".to_owned()), ..Node::task(task) };
    let definition =
        Definition { name: None, deadline_ms: None, nodes: [(name("only"), node)].into_iter().collect() };
    Submission {
        namespace: name(namespace),
        definition: Arc::new(definition),
        input: r#"{"n": 1}"#.to_owned(),
        key: None,
        by: "ada".to_owned(),
    }
}

async fn has_begun(process: &Process, namespace: &str, id: WorkflowId) -> bool {
    let view = process.workflows.view(&name(namespace), id).await.unwrap();
    view.nodes.iter().any(|node| node.task_ref.is_some())
}

async fn a_workflow_that_kills_is_evaluated_twice_and_all_others_run_on(world: EvaluationsWorld) {
    let first = world.begins();
    // The next one gets the next id: the first evaluation is that of its creation, and it kills.
    let before = first.workflows.create(with_expression("other")).await.unwrap().0.id;
    let poison = WorkflowId(before.0 + 1);
    let deadly = poison.to_string();
    world.is_deadly(EvaluationKind::Workflow, &deadly);
    assert!(first.unless_it_dies(first.workflows.create(with_expression("acme"))).await.is_none());
    assert_eq!(world.times_evaluated(EvaluationKind::Workflow, &deadly), 1);
    drop(first);
    assert_eq!(world.restarts(6).await, DEATHS_MAX - 1);
    assert_eq!(world.times_evaluated(EvaluationKind::Workflow, &deadly), DEATHS_MAX);

    let process = world.begins();
    let after = process.workflows.create(with_expression("other")).await.unwrap().0.id;
    process.lives().await.unwrap();
    for id in [before, after] {
        assert!(has_begun(&process, "other", id).await, "{id}");
    }
    assert!(!has_begun(&process, "acme", poison).await);
    let alert = process.alert().await.unwrap();
    assert!(alert.ends_with(&format!("workflow acme/{deadly}")), "{alert}");

    world.is_mended();
    process.workflows.retry(poison).await.unwrap();
    assert!(process.workflows.set_aside().await.unwrap().is_empty());
    assert!(has_begun(&process, "acme", poison).await);
    let cancelled = process.workflows.cancel(poison, "enough").await.unwrap();
    assert_eq!(cancelled.before, WorkflowState::Running);
}

async fn a_bulk_operation_that_kills_is_carried_on_twice_and_all_others_go_on(world: EvaluationsWorld) {
    let first = world.begins();
    let mut all = Vec::new();
    for queue in ["q1", "q2", "q3"] {
        let key = QueueKey { namespace: name("acme"), queue: name(queue) };
        let tasks = (0..3).map(|_| NewTask::new(key.clone(), name("k"), START.plus(36_000_000))).collect();
        first.engine.insert(tasks, "test").await.unwrap();
        let filter = Filter { queue: Some(name(queue)), ..Filter::default() };
        let action = Action::Cancel { stop_if_fired: false };
        let bulk = Bulk { action, filter, rate: 1_000, reason: None };
        let previewed = first.bulks.preview(&name("acme"), bulk, "ada").await.unwrap().stored;
        let begun = first.bulks.confirm(&name("acme"), previewed.id, |_| true, "ada").await.unwrap();
        all.push(begun.after.id);
    }
    drop(first);
    let deadly = all[1].to_string();
    world.is_deadly(EvaluationKind::Bulk, &deadly);
    assert_eq!(world.restarts(6).await, DEATHS_MAX);
    assert_eq!(world.times_evaluated(EvaluationKind::Bulk, &deadly), DEATHS_MAX);
    let process = world.begins();
    process.lives().await.unwrap();
    let state = async |nth: usize| process.bulks.get(&name("acme"), all[nth]).await.unwrap().state;
    assert_eq!(
        [state(0).await, state(1).await, state(2).await].map(|state| state == BulkState::Done),
        [true, false, true]
    );
    let alert = process.alert().await.unwrap();
    assert!(alert.ends_with(&format!("bulk operation acme/{deadly}")), "{alert}");

    world.is_mended();
    process.bulks.resume(&name("acme"), all[1]).await.unwrap();
    process.lives().await.unwrap();
    assert_eq!(state(1).await, BulkState::Done);
    assert!(process.bulks.set_aside().await.unwrap().is_empty());
}

async fn an_error_and_a_caller_that_goes_away_are_no_deaths(world: EvaluationsWorld) {
    let process = world.begins();
    // No array: an answer, and the end of its node.
    let mut asked = with_expression("acme");
    let mut definition = (*asked.definition).clone();
    definition.nodes.values_mut().for_each(|node| node.when = Some("input.nothing > 1".to_owned()));
    asked.definition = Arc::new(definition);
    process.workflows.create(asked).await.unwrap();
    process.planner.put(&acme("s"), every_minute(), "ada", |_| true).await.unwrap();
    // A caller that hangs up in the middle of an evaluation.
    world.is_deadly(EvaluationKind::Schedule, "s");
    assert!(process.lives().await.is_none());
    world.is_mended();
    process.lives().await.unwrap();
    process.planner.leave().await.unwrap();
    let pass = EvaluationPass { kind: EvaluationKind::Schedule, engine: "after".to_owned(), number: 1 };
    let subject = Subject { id: 1, namespace: name("acme"), name: "s".to_owned() };
    let marked = world.schedules.begin_evaluations(&pass, &[subject], Crowd::Together, START).await.unwrap();
    assert_eq!(marked, [SubjectMarks { is_marked: true, died: 0, at_work: 0 }]);
    assert!(world.schedules.set_aside("after", 10).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mark_of_an_engine_that_gives_signs_of_life_is_no_death() {
    let url = servers::migrated_database().await;
    let store = MysqlStore::open(&[url], MysqlOptions::default()).await.unwrap();
    let ownership = store.ownership();
    let long = Duration::from_secs(3_600);
    for engine in ["a", "b", "c", "d"] {
        ownership.beat(engine, long, &Says::default()).await.unwrap();
    }
    let begun = async |engine: &str, number: i64, crowd: Crowd| {
        let pass = EvaluationPass { kind: EvaluationKind::Workflow, engine: engine.to_owned(), number };
        let subject = Subject { id: 9, namespace: name("acme"), name: "w9".to_owned() };
        store.begin_evaluations(&pass, &[subject], crowd, START).await.unwrap()[0]
    };
    let marks_of_subject = |is_marked, died, at_work| SubjectMarks { is_marked, died, at_work };
    assert_eq!(begun("a", 1, Crowd::Together).await, marks_of_subject(true, 0, 0));
    assert_eq!(begun("b", 1, Crowd::Together).await, marks_of_subject(false, 0, 1));
    assert_eq!(begun("b", 2, Crowd::Alone).await, marks_of_subject(true, 0, 1));
    assert_eq!(begun("c", 1, Crowd::Alone).await, marks_of_subject(false, 0, 2), "it could be the third");
    assert!(store.set_aside("c", 10).await.unwrap().is_empty());
    assert_eq!(store.release_evaluations(EvaluationKind::Workflow, &[9], "c").await.unwrap(), 0);
    // One falls silent: its mark is a death, that of the other is not.
    ownership.leave("a").await.unwrap();
    assert_eq!(begun("c", 2, Crowd::Alone).await, marks_of_subject(false, 1, 1));
    let pass = EvaluationPass { kind: EvaluationKind::Workflow, engine: "b".to_owned(), number: 2 };
    store.end_evaluations(&pass, &[9]).await.unwrap();
    assert_eq!(begun("c", 3, Crowd::Alone).await, marks_of_subject(true, 1, 0));
    ownership.leave("c").await.unwrap();
    assert_eq!(begun("d", 1, Crowd::Alone).await, marks_of_subject(false, 2, 0));
    assert_eq!(store.set_aside("d", 10).await.unwrap().len(), 1);
    store.close().await;
}
