//! Changes of schedules against a model. Documents are stored, patched, paused, resumed, deleted, run and
//! backfilled, while planners and callers die or sleep at any call, and the clock steps. The model knows
//! which documents existed when, and which instants executors got. No instant runs twice; for an instant that
//! all documents have, the history says why it did not run.

use super::{
    mortal::LifeEnd,
    nodes::{NodeWork, Nodes, engine_on, queue},
    schedules::{SECRET, planner},
    stores,
};
use crate::clock::ManualClock;
use punctual_contract::{
    Clock as _, IdentityStore as _, ScheduleStore as _,
    schedules::{Run, RunQuery, ScheduleKey, StoredSchedule},
};
use punctual_domain::{
    name::Name,
    outcome::Report,
    schedule::{Missed, Outcome, Overlap, Payload, RunIdentity, RunKind, Schedule, TaskTemplate},
    task::TaskResult,
    time::Millis,
};
use punctual_engine::{Engine, LeaseRequest, OutcomeReport};
use punctual_schedules::{Error, Planner};
use punctual_store::sqlite::SqliteStore;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

const START: Millis = Millis(1_900_000_020_000);
const MINUTE_MS: i64 = 60_000;
const SCHEDULES: usize = 3;
const NODES: usize = 2;
const ALL: usize = 100_000;
/// The maximum jitter of a run of a minute, and so the time after which it is decided.
const JITTER_MAX_MS: i64 = 45_000;

/// One schedule from its creation to its end.
struct Lived {
    id: i64,
    created_at: Millis,
    /// The documents of the schedule and their instants, by the revisions that were read.
    revision: i64,
    documents: Vec<(Millis, Schedule)>,
}

#[derive(Clone)]
enum ScheduleChange {
    Put(Box<Schedule>),
    Patch(String),
    Pause,
    Resume,
    Delete,
    RunNow,
    Backfill(Millis),
}

struct ChangeStage {
    clock: ManualClock,
    rng: fastrand::Rng,
    store: Arc<SqliteStore>,
    /// Sound: it fires and hands over.
    engine: Engine,
    sound: Planner,
    /// They plan, and they carry out changes.
    nodes: Nodes<Planner>,
    standing: Vec<Option<Lived>>,
    /// Everything that ever existed, and since when.
    seen: Vec<(i64, Millis)>,
    /// The number of times that a planned instant of a schedule was handed over.
    handed: BTreeMap<(i64, i64), usize>,
    running: Vec<OutcomeReport>,
    changes: usize,
}

fn key(nth: usize) -> ScheduleKey {
    let name = Name::new(&format!("c{nth}")).expect("a plain name");
    ScheduleKey { namespace: Name::default_namespace(), name }
}

async fn carry_out(planner: &Planner, key: &ScheduleKey, change: ScheduleChange) -> Result<(), Error> {
    match change {
        ScheduleChange::Put(schedule) => planner.put(key, *schedule, "sim", |_| true).await.map(drop),
        ScheduleChange::Patch(text) => {
            let patched =
                move |current: &Schedule| Ok(Schedule { description: Some(text.clone()), ..current.clone() });
            planner.patch(key, "sim", |_| true, patched).await.map(drop)
        }
        ScheduleChange::Pause => planner.pause(key, None, None, "sim").await.map(drop),
        ScheduleChange::Resume => planner.resume(key, "sim").await.map(drop),
        ScheduleChange::Delete => planner.delete(key, "sim", |_| true).await.map(drop),
        ScheduleChange::RunNow => planner.run_now(key).await.map(drop),
        ScheduleChange::Backfill(from) => {
            planner.backfill(key, from, from.plus(2 * MINUTE_MS), None).await.map(drop)
        }
    }
}

impl ChangeStage {
    async fn new(seed: u64) -> Result<Self, String> {
        let clock = ManualClock::at(START);
        let store = stores::fresh(4);
        store.identity_secret(SECRET).await.map_err(|error| error.to_string())?;
        let engine = engine_on(store.clone(), &clock);
        let sound =
            Planner::new(engine.clone(), store.clone(), punctual_schedules::Options::default().in_place());
        let nodes = Nodes::new(NODES, &store, &clock, planner);
        Ok(Self {
            clock,
            rng: fastrand::Rng::with_seed(seed),
            store,
            engine,
            sound,
            nodes,
            standing: (0..SCHEDULES).map(|_| None).collect(),
            seen: Vec::new(),
            handed: BTreeMap::new(),
            running: Vec::new(),
            changes: 0,
        })
    }

    /// Every document has each full minute.
    fn document(&mut self) -> Schedule {
        let mut task = TaskTemplate::new(queue().queue, Name::new("k").expect("a plain name"));
        task.max_attempts = Some(1);
        if self.rng.u8(..6) == 0 {
            task.payload = Some(Payload::Json(r#"{"$expr": "1 / (run - 4)"}"#.to_owned()));
        }
        let plain = Schedule::new(task);
        let (cron, every_ms): (&[&str], Option<i64>) = match self.rng.u8(..5) {
            0 => (&["* * * * *"], None),
            1 => (&["* * * * *", "30 * * * * *"], None),
            2 => (&["*/20 * * * * *"], None),
            3 => (&[], Some(MINUTE_MS)),
            _ => (&[], Some(15_000)),
        };
        let exclude = if self.rng.u8(..4) == 0 { vec!["15,30 * * * * *".to_owned()] } else { Vec::new() };
        let overlap = match self.rng.u8(..8) {
            0 => Overlap::Skip,
            1 => Overlap::BufferOne,
            2 => Overlap::BufferAll,
            3 => Overlap::CancelOther,
            _ => Overlap::Allow,
        };
        Schedule {
            cron: cron.iter().map(|text| (*text).to_owned()).collect(),
            every_ms,
            exclude,
            overlap,
            jitter_ms: self.rng.choice([0, 0, 20_000, JITTER_MAX_MS]).unwrap_or_default(),
            missed: self.rng.choice([Missed::All, Missed::Latest, Missed::Skip]).unwrap_or_default(),
            enabled: self.rng.u8(..25) > 0,
            ..plain
        }
    }

    async fn stored(&self, nth: usize) -> Result<Option<StoredSchedule>, String> {
        self.store.schedule(&key(nth)).await.map_err(|error| error.to_string())
    }

    /// The model reads the stored schedules, including changes whose caller died.
    async fn learn(&mut self) -> Result<(), String> {
        for nth in 0..SCHEDULES {
            let found = self.stored(nth).await?;
            let Some(stored) = found else {
                if let Some(place) = self.standing.get_mut(nth) {
                    *place = None;
                }
                continue;
            };
            let document = (stored.updated_at, stored.schedule.clone());
            let Some(place) = self.standing.get_mut(nth) else { continue };
            match place {
                Some(lived) if lived.id == stored.id && lived.revision == stored.revision => {}
                Some(lived) if lived.id == stored.id => {
                    lived.revision = stored.revision;
                    lived.documents.push(document);
                }
                _ => {
                    let (id, created_at, revision) = (stored.id, stored.created_at, stored.revision);
                    *place = Some(Lived { id, created_at, revision, documents: vec![document] });
                    self.seen.push((id, created_at));
                }
            }
        }
        Ok(())
    }

    fn change(&mut self, nth: usize) -> ScheduleChange {
        let is_standing = self.standing.get(nth).is_some_and(Option::is_some);
        if !is_standing {
            return ScheduleChange::Put(Box::new(self.document()));
        }
        match self.rng.u8(..16) {
            0..6 => ScheduleChange::Put(Box::new(self.document())),
            6..9 => ScheduleChange::Patch(self.rng.u32(..4).to_string()),
            9..11 => ScheduleChange::Pause,
            11..14 => ScheduleChange::Resume,
            14 if self.rng.u8(..3) == 0 => ScheduleChange::Delete,
            14 => ScheduleChange::RunNow,
            _ => ScheduleChange::Backfill(self.clock.now().plus(-600_000)),
        }
    }

    /// Runs on a node that may die or pause on the way. Without `nth_change`, the node plans.
    async fn run_once(&mut self, of_node: usize, change: Option<(usize, ScheduleChange)>) {
        let end = match self.rng.u8(..5) {
            0 => Some(LifeEnd::Death),
            1 => Some(LifeEnd::Sleep),
            _ => None,
        };
        let calls = self.rng.usize(..14);
        let now = self.clock.now();
        let work = |planner: Planner| -> NodeWork {
            match change {
                Some((nth, change)) => {
                    Box::pin(async move { drop(carry_out(&planner, &key(nth), change).await) })
                }
                None => Box::pin(async move { drop(planner.run_once(now).await) }),
            }
        };
        self.nodes.work(of_node, end, calls, work).await;
    }

    async fn fire(&mut self) -> Result<(), String> {
        let _ = self.engine.run_once().await;
        let _ = self.engine.record_outcomes(std::mem::take(&mut self.running), "sim").await;
        let asked = LeaseRequest {
            queue: Arc::new(queue()),
            max: 1_000,
            wait_ms: 0,
            lease_ms: 100_000_000,
            executor: "sim".to_owned(),
            version: None,
        };
        let leased = self.engine.lease(asked).await.map_err(|error| error.to_string())?;
        let mut reports = Vec::new();
        for lease in &leased {
            let at = lease
                .labels
                .get("scheduled_at_ms")
                .and_then(|scheduled_at_ms| scheduled_at_ms.parse::<i64>().ok());
            let at = at.ok_or_else(|| format!("a task without its instant: {:?}", lease.labels))?;
            if let Some(schedule) = self.schedule_of(lease.task_id, at)? {
                if lease.fired_at.0 < at {
                    return Err(format!("schedule {schedule} at {at} fired early, at {}", lease.fired_at.0));
                }
                *self.handed.entry((schedule, at)).or_default() += 1;
            }
            let report = if self.rng.u8(..4) == 0 { Report::Reject } else { Report::Succeeded };
            let result = TaskResult::default();
            let report = OutcomeReport { place: lease.place, fence: lease.fence, report, result };
            // Some are not over yet at the next instant.
            if self.rng.u8(..4) == 0 { self.running.push(report) } else { reports.push(report) }
        }
        let _ = self.engine.record_outcomes(reports, "sim").await;
        match self.handed.iter().find(|pair| *pair.1 > 1) {
            Some(((schedule, at), times)) => Err(format!("schedule {schedule} at {at} ran {times} times")),
            None => Ok(()),
        }
    }

    /// The schedule of this planned run. `None` means a caller inserted the task.
    fn schedule_of(&self, task_id: i64, at: i64) -> Result<Option<i64>, String> {
        for (schedule, created_at) in &self.seen {
            for kind in RunKind::ALL {
                let identity =
                    RunIdentity { schedule: *schedule, created_at: *created_at, kind, at: Millis(at) };
                if identity.task_id(&SECRET, 0) == task_id {
                    return Ok((kind == RunKind::Planned).then_some(*schedule));
                }
            }
        }
        Err(format!("task {task_id} at {at} is of no schedule"))
    }

    async fn lines(&self, schedule: i64) -> Result<Vec<Run>, String> {
        let (from, before) = (Millis(i64::MIN), Millis(i64::MAX));
        let query = RunQuery { schedule, from, before, limit: ALL };
        self.store.runs(&query).await.map_err(|error| error.to_string())
    }

    async fn step(&mut self) -> Result<(), String> {
        let of_node = self.rng.usize(..NODES);
        match self.rng.u8(..20) {
            0..5 => self.run_once(of_node, None).await,
            5 => self.nodes.go_on(of_node).await,
            6..10 => {
                let ms = self.rng.choice([200, 1_000, 5_000, 15_000, 61_000]).unwrap_or_default();
                self.clock.advance(Duration::from_millis(ms));
                self.fire().await?;
            }
            10 => self.clock.go_back(Duration::from_millis(self.rng.u64(..3_000))),
            _ => {
                let nth = self.rng.usize(..SCHEDULES);
                let change = self.change(nth);
                self.changes += 1;
                self.run_once(of_node, Some((nth, change))).await;
            }
        }
        self.learn().await
    }

    /// All nodes wake up, all pauses end, and in two quiet minutes the owed runs are made.
    async fn finish(&mut self) -> Result<(), String> {
        for nth in 0..NODES {
            self.nodes.go_on(nth).await;
        }
        self.learn().await?;
        for nth in 0..SCHEDULES {
            if self.standing.get(nth).is_some_and(Option::is_some) {
                let resumed = self.sound.resume(&key(nth), "sim").await;
                resumed.map_err(|error| error.to_string())?;
            }
        }
        self.learn().await?;
        for _ in 0..130 {
            self.clock.advance(Duration::from_secs(1));
            self.sound.run_once(self.clock.now()).await.map_err(|error| error.to_string())?;
            self.fire().await?;
        }
        for lived in self.standing.iter().flatten() {
            self.check(lived)
                .await
                .map_err(|broken| format!("{broken}; documents {:#?}", lived.documents))?;
        }
        Ok(())
    }

    async fn check(&self, lived: &Lived) -> Result<(), String> {
        let (now, lines) = (self.clock.now(), self.lines(lived.id).await?);
        let was_handed = |at: i64| self.handed.contains_key(&(lived.id, at));
        let stopped: BTreeSet<i64> = lines.iter().filter_map(stopped_instant).collect();
        for line in lines.iter().filter(|line| line.key.kind == RunKind::Planned) {
            let is_over = line.execute_at.plus(2_000) < now && line.outcome == Outcome::Created;
            if is_over && !was_handed(line.key.at.0) && !stopped.contains(&line.key.at.0) {
                return Err(format!("{:?} was made and did not run: {line:?}", line.key.at));
            }
        }
        let explained: BTreeSet<i64> = lines
            .iter()
            .filter(|line| line.key.kind == RunKind::Planned && line.outcome != Outcome::Created)
            .filter(|line| line.reason.as_ref().is_some_and(|reason| !reason.is_empty()))
            .map(|line| line.key.at.0)
            .collect();
        let ranges: Vec<(i64, i64)> = lines.iter().filter_map(missed_range).collect();
        let first = lived.created_at.0.div_euclid(MINUTE_MS) + 1;
        let last = now.plus(-JITTER_MAX_MS - MINUTE_MS).0.div_euclid(MINUTE_MS);
        for minute in (first..=last).map(|number| number * MINUTE_MS) {
            let in_range = ranges.iter().any(|(from, to)| (*from..=*to).contains(&minute));
            let has_reason = explained.contains(&minute) || stopped.contains(&minute) || in_range;
            let is_known = was_handed(minute) || has_reason;
            if !is_known && !rests(lived, minute) {
                let reported: Vec<&Run> = lines.iter().filter(|line| line.key.at.0 == minute).collect();
                return Err(format!("the instant {minute} is gone: {reported:?}"));
            }
        }
        Ok(())
    }
}

/// The run that this one has taken the place of (`cancel_other`), before or after it fired.
fn stopped_instant(line: &Run) -> Option<i64> {
    let at = line.reason.as_ref()?.strip_prefix("the run of ")?.split_once(" was stopped")?.0;
    Some(at.parse::<jiff::Timestamp>().ok()?.as_millisecond())
}

/// One line that represents several instants: "..., from INSTANT to this one".
fn missed_range(line: &Run) -> Option<(i64, i64)> {
    let reason = line.reason.as_ref().filter(|_| line.outcome == Outcome::Missed)?;
    let from = reason.split_once("from ")?.1.split_once(" to")?.0;
    Some((from.parse::<jiff::Timestamp>().ok()?.as_millisecond(), line.key.at.0))
}

/// The schedule was disabled at this instant, or at a later one before which the instant was not decided yet.
fn rests(lived: &Lived, at: i64) -> bool {
    let until = lived.documents.iter().skip(1).map(|document| document.0.0).chain([i64::MAX]);
    let mut spans = lived.documents.iter().zip(until).filter(|((_, document), _)| !document.enabled);
    // Until then, no planner may have decided the instant, or its jitter was not over.
    spans.any(|((from, _), until)| at >= from.0 - 20 * MINUTE_MS && at <= until.saturating_add(3_000))
}

/// One life of several schedules. Returns how many changes were requested.
///
/// # Errors
/// The first promise that was broken, and the step that broke it.
pub async fn run_changes(seed: u64, steps: usize) -> Result<usize, String> {
    let mut stage = ChangeStage::new(seed).await?;
    for nth in 0..steps {
        stage.step().await.map_err(|broken| format!("step {nth}: {broken}"))?;
    }
    stage.finish().await.map_err(|broken| format!("at the end: {broken}"))?;
    Ok(stage.changes)
}
