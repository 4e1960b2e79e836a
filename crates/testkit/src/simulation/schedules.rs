//! Several planners on one store, each of which dies or pauses at any of its calls, under a clock that jumps, while
//! schedules are changed, paused and resumed. Each instant runs at most once, none is missed, and none runs that a
//! pause has revoked. Firing is not under test here: one sound engine runs beside them.

use super::{
    mortal::{Life, LifeEnd, Mortal},
    nodes::{NodeWork, Nodes, engine_on, queue},
    stores,
};
use crate::clock::ManualClock;
use punctual_contract::{
    Clock as _, IdentityStore as _, ScheduleStore, Store as _,
    schedules::{Run, RunQuery, ScheduleKey},
    store::Query,
};
use punctual_domain::{
    identity::IdentitySecret,
    name::Name,
    outcome::Report,
    schedule::{Budget, Missed, Outcome, Overlap, RunKind, Schedule, TaskTemplate, Timing},
    state::State,
    task::{Task, TaskResult},
    time::Millis,
};
use punctual_engine::{Engine, LeaseRequest, OutcomeReport};
use punctual_schedules::Planner;
use punctual_store::sqlite::SqliteStore;
use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

const START: Millis = Millis(1_900_000_020_000);
const SCHEDULES: usize = 4;
const PLANNERS: usize = 2;
const ALL: usize = 100_000;
const CALENDAR_STEPS: u32 = 100_000;
/// Ids and with them partitions are the same in each run of a seed.
pub(super) const SECRET: IdentitySecret = IdentitySecret::new([7; IdentitySecret::BYTES]);

struct ScheduleStage {
    clock: ManualClock,
    rng: fastrand::Rng,
    store: Arc<SqliteStore>,
    /// Sound: it fires, and callers ask it.
    engine: Engine,
    asked: Planner,
    nodes: Nodes<Planner>,
    /// The furthest that the clock has been.
    latest: Millis,
    /// Schedules that are paused, and which of their tasks had fired by then.
    paused: BTreeMap<String, HashSet<i64>>,
    /// The number of times that each schedule's instant was handed to an executor.
    handed: BTreeMap<(String, i64), usize>,
}

fn key(nth: usize) -> ScheduleKey {
    let name = Name::new(&format!("s{nth}")).expect("a plain name");
    ScheduleKey { namespace: Name::default_namespace(), name }
}

pub(super) fn planner(engine: Engine, store: Arc<SqliteStore>, life: Arc<Life>) -> Planner {
    let inner: Arc<dyn ScheduleStore> = store;
    Planner::new(engine, Arc::new(Mortal { inner, life }), punctual_schedules::Options::default().in_place())
}

impl ScheduleStage {
    fn new(seed: u64) -> Self {
        let clock = ManualClock::at(START);
        let store = stores::fresh(4);
        let engine = engine_on(store.clone(), &clock);
        let asked =
            Planner::new(engine.clone(), store.clone(), punctual_schedules::Options::default().in_place());
        let nodes = Nodes::new(PLANNERS, &store, &clock, planner);
        Self {
            clock,
            rng: fastrand::Rng::with_seed(seed),
            store,
            engine,
            asked,
            nodes,
            latest: START,
            paused: BTreeMap::new(),
            handed: BTreeMap::new(),
        }
    }

    fn schedule(&mut self, overlap: Overlap) -> Schedule {
        let task = TaskTemplate::new(queue().queue, Name::new("k").expect("a plain name"));
        let cron = match self.rng.u8(..3) {
            0 => "* * * * *",
            1 => "*/2 * * * *",
            _ => "30 * * * * *",
        };
        let cron = cron.to_owned();
        let missed = if self.rng.bool() { Missed::All } else { Missed::Latest };
        Schedule { cron: vec![cron], overlap, missed, ..Schedule::new(task) }
    }

    async fn plan(&mut self, nth: usize) {
        let now = self.clock.now();
        let end = match self.rng.u8(..4) {
            0 => Some(LifeEnd::Death),
            1 => Some(LifeEnd::Sleep),
            _ => None,
        };
        let calls = self.rng.usize(..12);
        let plan =
            |planner: Planner| -> NodeWork { Box::pin(async move { drop(planner.run_once(now).await) }) };
        self.nodes.work(nth, end, calls, plan).await;
    }

    async fn fire(&mut self) -> Result<(), String> {
        self.latest = self.latest.max(self.clock.now());
        let _ = self.engine.run_once().await;
        let asked = LeaseRequest {
            queue: Arc::new(queue()),
            max: 1_000,
            wait_ms: 0,
            lease_ms: 600_000,
            executor: "sim".to_owned(),
            version: None,
        };
        let leased = self.engine.lease(asked).await.unwrap_or_default();
        let mut reports = Vec::new();
        for lease in &leased {
            let label = |name: &str| lease.labels.get(name).cloned().unwrap_or_default();
            let at = label("scheduled_at_ms").parse().unwrap_or_default();
            let fired = self.paused.get(&label("schedule"));
            if fired.is_some_and(|ids| !ids.contains(&lease.place.id)) {
                let task = self.engine.read(lease.place).await;
                return Err(format!("{} at {at} runs and is paused: {task:?}", label("schedule")));
            }
            *self.handed.entry((label("schedule"), at)).or_default() += 1;
            let report = if self.rng.u8(..4) == 0 { Report::Reject } else { Report::Succeeded };
            let result = TaskResult::default();
            reports.push(OutcomeReport { place: lease.place, fence: lease.fence, report, result });
        }
        let _ = self.engine.record_outcomes(reports, "sim").await;
        Ok(())
    }

    async fn step(&mut self) -> Result<(), String> {
        let failed = |error: punctual_schedules::Error| error.to_string();
        let nth = self.rng.usize(..SCHEDULES);
        match self.rng.u8(..20) {
            0..8 => {
                let node = self.rng.usize(..PLANNERS);
                self.plan(node).await;
            }
            8..10 => {
                let node = self.rng.usize(..PLANNERS);
                self.nodes.go_on(node).await;
            }
            10..16 => {
                let ms = match self.rng.u8(..4) {
                    0 => 200,
                    1 => 1_000,
                    2 => 15_000,
                    _ => 61_000,
                };
                self.clock.advance(Duration::from_millis(ms));
                self.fire().await?;
            }
            16 => self.clock.go_back(Duration::from_millis(self.rng.u64(..2_000))),
            17 => self.pause(nth).await?,
            18 => {
                self.paused.remove(key(nth).name.as_str());
                self.asked.resume(&key(nth), "sim").await.map_err(failed)?;
            }
            _ => {
                let schedule = self.schedule(Overlap::Allow);
                self.asked.put(&key(nth), schedule, "sim", |_| true).await.map_err(failed)?;
            }
        }
        self.check()
    }

    /// Pauses a schedule. After the answer, no task of the schedule is left that could fire.
    async fn pause(&mut self, nth: usize) -> Result<(), String> {
        self.asked.pause(&key(nth), None, None, "sim").await.map_err(|error| error.to_string())?;
        let name = key(nth).name.as_str().to_owned();
        let (tasks, latest) = (self.tasks().await?, self.latest.max(self.clock.now()));
        let of_it = |task: &&Task| task.ask.labels.get("schedule") == Some(&name);
        if let Some(left) =
            tasks.iter().filter(of_it).find(|task| task.state.is_waiting() && task.due_at > latest)
        {
            return Err(format!("paused, and {:?} is left: {left:?}", left.place));
        }
        let fired = tasks.iter().filter(of_it).filter(|task| task.state != State::Cancelled);
        let fired = fired.map(|task| task.place.id).collect();
        self.paused.entry(name).or_insert(fired);
        Ok(())
    }

    async fn tasks(&self) -> Result<Vec<Task>, String> {
        let query = Query { limit: ALL, ..Query::default() };
        self.store.list(&query).await.map(|page| page.tasks).map_err(|error| error.to_string())
    }

    fn check(&self) -> Result<(), String> {
        match self.handed.iter().find(|pair| *pair.1 > 1) {
            Some(((name, at), times)) => Err(format!("{name} at {at} ran {times} times")),
            None => Ok(()),
        }
    }

    async fn history(&self, nth: usize) -> Result<Vec<Run>, String> {
        let stored = self.store.schedule(&key(nth)).await.map_err(|error| error.to_string())?;
        let stored = stored.ok_or("a schedule is gone")?;
        let query =
            RunQuery { schedule: stored.id, from: Millis(i64::MIN), before: Millis(i64::MAX), limit: ALL };
        self.store.runs(&query).await.map_err(|error| error.to_string())
    }

    /// Everybody wakes up; two quiet minutes later everything that was owed has run.
    async fn finish(&mut self) -> Result<(), String> {
        for nth in 0..PLANNERS {
            self.nodes.go_on(nth).await;
        }
        let failed = |error: punctual_schedules::Error| error.to_string();
        self.paused.clear();
        for nth in 0..SCHEDULES {
            self.asked.resume(&key(nth), "sim").await.map_err(failed)?;
        }
        let from = self.clock.now();
        for _ in 0..150 {
            self.clock.advance(Duration::from_secs(1));
            self.asked.run_once(self.clock.now()).await.map_err(|error| error.to_string())?;
            self.fire().await?;
            self.check()?;
        }
        for nth in 0..SCHEDULES {
            self.check_history(nth, from).await?;
        }
        Ok(())
    }

    async fn check_history(&self, nth: usize, from: Millis) -> Result<(), String> {
        let (name, runs) = (key(nth).name.as_str().to_owned(), self.history(nth).await?);
        if let Some(open) = runs.iter().find(|run| !run.is_recorded && run.execute_at < self.clock.now()) {
            return Err(format!("{name} at {:?} was never made", open.key.at));
        }
        for run in
            runs.iter().filter(|run| run.outcome == Outcome::Created && run.execute_at < self.clock.now())
        {
            if !self.handed.contains_key(&(name.clone(), run.key.at.0)) {
                return Err(format!("{name} at {:?} was made and never ran: {run:?}", run.key.at));
            }
        }
        let stored = self.store.schedule(&key(nth)).await.map_err(|error| error.to_string())?;
        let timing = Timing::of(&stored.ok_or("a schedule is gone")?.schedule)
            .map_err(|invalid| invalid.to_string())?;
        let unknown = |_| "the next instant was not found".to_owned();
        // In the quiet time each instant ran once.
        let mut next = timing.next_after(from, &mut Budget::of_steps(CALENDAR_STEPS)).map_err(unknown)?;
        while let Some(at) = next.filter(|at| at.plus(1_000) < self.clock.now()) {
            if !self.handed.contains_key(&(name.clone(), at.0)) {
                let reported: Vec<&Run> = runs.iter().filter(|run| run.key.at == at).collect();
                return Err(format!("{name} at {at:?} did not run: {reported:?}"));
            }
            next = timing.next_after(at, &mut Budget::of_steps(CALENDAR_STEPS)).map_err(unknown)?;
        }
        match runs.iter().any(|run| run.key.kind != RunKind::Planned) {
            true => Err("nobody asked for a run".to_owned()),
            false => Ok(()),
        }
    }
}

/// One life of several planners.
///
/// # Errors
/// The first promise that was broken, and the step that broke it.
pub async fn run_schedules(seed: u64, steps: usize) -> Result<(), String> {
    let mut stage = ScheduleStage::new(seed);
    stage.store.identity_secret(SECRET).await.map_err(|error| error.to_string())?;
    for nth in 0..SCHEDULES {
        let schedule = stage.schedule(Overlap::Allow);
        let put = stage.asked.put(&key(nth), schedule, "sim", |_| true).await;
        put.map_err(|error| error.to_string())?;
    }
    for nth in 0..steps {
        stage.step().await.map_err(|error| format!("step {nth}: {error}"))?;
    }
    stage.finish().await.map_err(|error| format!("at the end: {error}"))
}
