//! The simulated world: engines on a real store, executors as lists of leases, and a record of the answers to
//! callers. It trusts only those answers; after an error it marks the task as uncertain.

use super::{
    back_ends::{PARTITIONS, TrueHot, back_ends},
    engines::EngineProcess,
    known::Known,
    limits::Losing,
    ops::{How, Op},
    order::ReadyOrder,
    recorder::{CallBegin, Recorder},
    setup::{Faults, Hands, Setup},
    stores,
};
use crate::{
    clock::ManualClock,
    faults::{Dials, FaultyBus, FaultyHot, FaultyStore},
    shared::{MemoryOwnership, SignalHub},
    twins::{Twin, TwinStore},
};
use punctual_bus::MemoryBus;
use punctual_contract::{
    Bus, Clock, Hot, Store,
    store::{Assignment, Beat, Extended},
};
use punctual_domain::{
    name::{Name, QueueKey},
    outcome::Report,
    place::TaskRef,
    state::State,
    task::{Task, TaskResult},
    time::Millis,
};
use punctual_engine::{Engine, Error, LeaseRequest, Options, OutcomeReport, Reported};
use punctual_linear::AttemptEnd;
use std::{collections::HashMap, sync::Arc, time::Duration};

#[derive(Debug)]
pub struct World {
    pub(super) setup: Setup,
    pub(super) clock: Arc<ManualClock>,
    /// The furthest that the clock has been.
    pub(super) latest: Millis,
    /// The store without faults, for the checks.
    pub(super) truth: Arc<dyn Store>,
    /// The same, or a broken twin of it, which engines get.
    served: Arc<dyn Store>,
    pub(super) twin: Option<Twin>,
    pub(super) true_hot: TrueHot,
    pub(super) limiter: Arc<Losing>,
    /// The instants at which executors received a task, since the limiter last began anew.
    pub(super) starts: Vec<Millis>,
    faulty_store: Arc<FaultyStore>,
    pub(super) faulty_hot: Arc<FaultyHot>,
    pub(super) true_bus: Arc<MemoryBus>,
    faulty_bus: Arc<FaultyBus>,
    bus_is_away: bool,
    pub(super) hot_is_away: bool,
    pub(super) ownership: Arc<MemoryOwnership>,
    pub(super) signals: SignalHub,
    owners_are_away: bool,
    pub(super) nodes: Vec<EngineProcess>,
    pub(super) started: usize,
    pub(super) calls: usize,
    faults: Faults,
    pub(super) tasks: Vec<Known>,
    pub(super) by_id: HashMap<i64, usize>,
    pub(super) held: Vec<Assignment>,
    pub(super) given_up: Vec<Assignment>,
    /// Inserts whose answer was an error that says they may have happened.
    pub(super) uncertain_inserts: usize,
    /// The beginning of the last complete turn of all engines, and of the one before, if nothing has happened to
    /// engines or to the clock since.
    pub(super) turns: (Option<Millis>, Option<Millis>),
    pub(super) order: ReadyOrder,
    pub(super) recorder: Recorder,
    gone_back_ms: i64,
}

pub(super) const START: Millis = Millis(1_700_000_000_000);
pub(super) const RETRY_GUESS: Option<Millis> = None;

pub(super) fn queue() -> QueueKey {
    QueueKey { namespace: Name::default_namespace(), queue: Name::new("sim").expect("a plain name") }
}

impl World {
    pub(super) fn new(setup: Setup, twin: Option<Twin>) -> Self {
        let clock = Arc::new(ManualClock::at(START));
        let truth: Arc<dyn Store> = stores::fresh(PARTITIONS);
        let served = match twin {
            Some(twin) => Arc::new(TwinStore::new(Arc::clone(&truth), twin)),
            None => Arc::clone(&truth),
        };
        let (faulty_store, true_hot, faulty_hot) = back_ends(&served, (setup.due, setup.faults), 0);
        let true_bus = Arc::new(MemoryBus::default());
        let faulty_bus = Arc::new(FaultyBus::new(true_bus.clone(), setup.faults.seed()));
        let ownership = Arc::new(MemoryOwnership::new(clock.clone()));
        let (nodes, tasks, by_id, held, given_up) = Default::default();
        let mut world = Self {
            setup,
            clock,
            latest: START,
            truth,
            served,
            twin,
            true_hot,
            limiter: Arc::default(),
            starts: Vec::new(),
            faulty_store,
            faulty_hot,
            true_bus,
            faulty_bus,
            bus_is_away: false,
            hot_is_away: false,
            ownership,
            signals: SignalHub::default(),
            owners_are_away: false,
            nodes,
            started: 0,
            calls: 0,
            faults: setup.faults,
            tasks,
            by_id,
            held,
            given_up,
            uncertain_inserts: 0,
            turns: (None, None),
            order: ReadyOrder::default(),
            recorder: Recorder::default(),
            gone_back_ms: 0,
        };
        if setup.hands == Hands::Push || setup.faults != Faults::None {
            world.recorder.loses_work();
        }
        world.dial_bus();
        (0..setup.engines).for_each(|_| world.start_engine());
        world
    }

    pub(super) fn is_shared(&self) -> bool {
        self.setup.engines > 1
    }

    pub(super) fn is_limited(&self) -> bool {
        self.setup.limits
    }

    /// True if no fault is active, so that promises about time hold.
    pub(super) fn is_sound(&self) -> bool {
        self.faults == Faults::None && !self.owners_are_away && !self.bus_is_away
    }

    pub(super) fn store(&self) -> Arc<dyn Store> {
        self.faulty_store.clone()
    }

    pub(super) fn hot(&self) -> Arc<dyn Hot> {
        self.faulty_hot.clone()
    }

    pub(super) fn bus(&self) -> Arc<dyn Bus> {
        self.faulty_bus.clone()
    }

    pub(super) fn options(&self, name: String) -> Options {
        let push_queues = if self.setup.hands == Hands::Push { vec![queue()] } else { Vec::new() };
        Options { push_queues, ..super::engines::options(name) }
    }

    /// A bus refuses far more often than a store or a hot set fails.
    fn dial_bus(&self) {
        self.faulty_bus.faults.set_all(match self.faults {
            _ if self.bus_is_away => Dials::REFUSES,
            Faults::None => Dials::SOUND,
            Faults::Some(_) => Dials { happens: 0.7, reported: 0.9 },
        });
    }

    pub(super) fn now(&self) -> Millis {
        self.clock.now()
    }

    /// A call begins.
    pub(super) fn begin(&mut self) -> CallBegin {
        let now = self.now();
        self.recorder.begin(now)
    }

    /// The furthest that the clock has been until now, or would have been: a lease keeps the time that is left of it when the
    /// clock is set back.
    pub(super) fn until(&self) -> Millis {
        self.latest.max(self.now()).plus(self.gone_back_ms)
    }

    /// Time passes, by the clock and by the timers of the runtime, which stand still otherwise.
    pub(super) async fn wait(&self, by: Duration) {
        self.clock.advance(by);
        tokio::time::sleep(by).await;
    }

    pub(super) async fn step(&mut self, op: &Op) -> Result<(), String> {
        self.latest = self.latest.max(self.now());
        match op {
            Op::Insert { .. } => self.insert(op).await,
            Op::Cancel { pick, stop_if_fired } => self.cancel(*pick, *stop_if_fired).await,
            Op::Reschedule { pick, delay_ms } => self.reschedule(*pick, Some(*delay_ms)).await,
            Op::ChangePayload { pick } => self.reschedule(*pick, None).await,
            Op::RunNow { pick } => self.reschedule(*pick, Some(0)).await,
            Op::Redrive { pick } => self.redrive(*pick).await,
            Op::Advance { ms } => {
                self.wait(milliseconds(*ms)).await;
                Ok(())
            }
            Op::SetBack { ms } => {
                self.turns = (None, None);
                self.gone_back_ms += *ms;
                self.clock.go_back(milliseconds(*ms));
                Ok(())
            }
            Op::Turn => {
                self.run_once().await;
                Ok(())
            }
            Op::Lease { max, lease_ms } => self.lease(*max, *lease_ms).await,
            Op::Report { pick, how } => self.report(*pick, *how).await,
            Op::ReportStale { pick } => self.report_stale(*pick).await,
            Op::Beat { pick } => self.beat(*pick).await,
            Op::ExecutorDies { pick } => {
                if !self.held.is_empty() {
                    let lease = self.held.swap_remove(pick % self.held.len());
                    self.given_up.push(lease);
                }
                Ok(())
            }
            Op::Restart => {
                self.restart();
                Ok(())
            }
            Op::OwnersAway { away } => {
                (self.owners_are_away, self.turns) = (*away, (None, None));
                self.ownership.set_away(*away);
                Ok(())
            }
            Op::HotAway { away } => {
                self.set_hot_away(*away);
                Ok(())
            }
            Op::BusAway { away } => {
                self.bus_is_away = *away;
                self.dial_bus();
                Ok(())
            }
            other => self.step_of_engines(other).await,
        }
    }

    async fn step_of_engines(&mut self, op: &Op) -> Result<(), String> {
        if !matches!(op, Op::TurnOne { .. }) {
            self.turns = (None, None);
        }
        match *op {
            Op::Start => self.start_engine(),
            Op::Stop { pick } => self.stop(pick).await,
            Op::TurnOne { pick } => {
                self.calls = pick;
                if let Some(engine) = self.engine() {
                    let _ = engine.run_once().await;
                }
            }
            Op::Kill { pick, calls, work } => return self.kill(pick, calls, work).await,
            Op::Pause { pick, calls, work } => return self.pause(pick, calls, work).await,
            Op::Continue { pick } => return self.go_on(pick).await,
            Op::TakeOver => return self.take_over().await,
            Op::LoseSlots { keep } => return self.lose_members(keep).await,
            _ => {}
        }
        Ok(())
    }

    /// Everything that is not the store begins anew.
    fn restart(&mut self) {
        self.turns = (None, None);
        self.nodes.drain(..).for_each(EngineProcess::die);
        let seed = u64::try_from(self.started).unwrap_or(0);
        (self.faulty_store, self.true_hot, self.faulty_hot) =
            back_ends(&self.served, (self.setup.due, self.faults), seed);
        self.limiter = Arc::default();
        self.starts.clear();
        (0..self.setup.engines).for_each(|_| self.start_engine());
    }

    /// Ends all faults. Paused engines continue.
    pub(super) async fn heal(&mut self) -> Result<(), String> {
        self.faults = Faults::None;
        self.faulty_store.faults.heal();
        self.set_hot_away(false);
        (self.owners_are_away, self.bus_is_away) = (false, false);
        self.dial_bus();
        self.ownership.set_away(false);
        self.all_go_on().await?;
        if self.nodes.is_empty() {
            self.start_engine();
        }
        Ok(())
    }

    pub(super) async fn truth_of(&self, place: TaskRef) -> Option<Task> {
        self.truth.read(&[place]).await.ok().and_then(|truth| truth.into_iter().next().flatten())
    }

    pub(super) fn known(&mut self, id: i64) -> Option<&mut Known> {
        let nth = self.by_id.get(&id)?;
        self.tasks.get_mut(*nth)
    }

    pub(super) fn pick(&self, pick: usize) -> Option<TaskRef> {
        (!self.tasks.is_empty())
            .then(|| self.tasks.get(pick % self.tasks.len()).map(|task| task.place))
            .flatten()
    }

    /// True if the task fired, as the store or this engine knows, and waits to be handed over. What another engine
    /// has fired, and the store does not know, a change at this one may meet before it is handed over.
    pub(super) async fn has_fired(&self, engine: &Engine, place: TaskRef) -> bool {
        let Some(task) = self.truth_of(place).await else { return false };
        let here = |(other, fence, _): &(TaskRef, i64, Millis)| other.id == place.id && *fence == task.fence;
        task.state == State::Ready || engine.fired().iter().any(here)
    }

    pub(super) async fn lease(&mut self, max: usize, lease_ms: i64) -> Result<(), String> {
        if self.setup.hands == Hands::Push {
            return self.receive(max).await;
        }
        let (queue, executor) = (Arc::new(queue()), "executor".into());
        let request = LeaseRequest { queue, max, wait_ms: 0, lease_ms, executor, version: None };
        let Some(engine) = self.engine() else { return Ok(()) };
        let waiting = self.waiting(&engine, max).await;
        let call = self.begin();
        let Ok(leased) = self.call(engine.lease(request)).await else {
            self.recorder.unanswered_work(self.now());
            return Ok(());
        };
        if let Some(waiting) = waiting {
            self.check_order(waiting, &leased)?;
        }
        if leased.len() > max {
            return Err(format!("{} tasks were leased to one who asked for {max}", leased.len()));
        }
        self.note_earlier_attempts(&leased).await;
        leased.into_iter().try_for_each(|lease| self.got(lease, call))
    }

    /// Records a task that an executor received.
    pub(super) fn got(&mut self, lease: Assignment, call: CallBegin) -> Result<(), String> {
        let until = self.until();
        self.recorder.handed_over(&lease, Some(call), until);
        self.check_lease(&lease)?;
        self.given_up.extend(self.held.extract_if(.., |held| held.place.id == lease.place.id));
        self.held.push(lease);
        Ok(())
    }

    async fn report(&mut self, pick: usize, how: How) -> Result<(), String> {
        if self.held.is_empty() {
            return Ok(());
        }
        let held = self.held.swap_remove(pick % self.held.len());
        let now = self.now();
        let answer = self.record_outcomes(&held, how).await;
        let faulty = self.faults != Faults::None;
        let Some(known) = self.known(held.place.id) else { return Ok(()) };
        match answer {
            Ok(Reported::Accepted) => {
                if known.succeeded && !known.uncertain {
                    return Err("an outcome was accepted after a success".into());
                }
                known.succeeded = how == How::Succeed;
                known.due_at = if how == How::Snooze { Some(now.plus(SNOOZE_MS)) } else { RETRY_GUESS };
            }
            Ok(Reported::Stale | Reported::ForLater) => {}
            Err(Error::Stopping) => {}
            Err(_) if faulty => known.uncertain = true,
            Err(error) => return Err(format!("an outcome failed: {error}")),
        }
        self.given_up.push(held);
        Ok(())
    }

    pub(super) async fn record_outcomes(&mut self, held: &Assignment, how: How) -> Result<Reported, Error> {
        let report = match how {
            How::Succeed => Report::Succeeded,
            How::Fail => Report::Failed { after_ms: None },
            How::Snooze => Report::Snooze { after_ms: SNOOZE_MS },
            How::Reject => Report::Reject,
        };
        let result = TaskResult { status_msg: "said".into(), ..TaskResult::default() };
        let report = OutcomeReport { place: held.place, fence: held.fence, report, result };
        let engine = self.engine().ok_or(Error::Stopping)?;
        let call = self.begin();
        let answers = engine.record_outcomes(vec![report], "executor").await;
        let answer = answers.map(|answers| answers.first().copied().unwrap_or(Reported::Stale));
        let end = match how {
            How::Succeed => AttemptEnd::Succeeded,
            How::Fail => AttemptEnd::Failed { retry_after_us: 0 },
            How::Snooze => AttemptEnd::Snoozed { after_us: SNOOZE_MS * 1_000 },
            How::Reject => AttemptEnd::Rejected,
        };
        let until = self.until();
        self.recorder.reported((held, end), call, until, &answer);
        answer
    }

    /// An outcome of a given-up attempt may be accepted only while no later attempt and no end has replaced that attempt.
    async fn report_stale(&mut self, pick: usize) -> Result<(), String> {
        if self.given_up.is_empty() {
            return Ok(());
        }
        let stale = self.given_up.swap_remove(pick % self.given_up.len());
        let before =
            self.truth.read(&[stale.place]).await.map_err(|error| error.to_string())?.pop().flatten();
        let holds = |task: &Task| task.fence == stale.fence && task.state.is_in_flight();
        let still_holds = before.as_ref().is_some_and(holds);
        let answer = self.record_outcomes(&stale, How::Succeed).await;
        match answer {
            Ok(Reported::Accepted) if !still_holds => {
                Err(format!("a stale outcome was accepted; it was {before:?}"))
            }
            Ok(Reported::Stale) if still_holds && self.faults == Faults::None => {
                Err("the outcome of the attempt that holds the task was refused".into())
            }
            Ok(Reported::Accepted) => {
                if let Some(known) = self.known(stale.place.id) {
                    known.succeeded = true;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn beat(&mut self, pick: usize) -> Result<(), String> {
        if self.held.is_empty() {
            return Ok(());
        }
        let held = self.held.swap_remove(pick % self.held.len());
        let beat = Beat {
            place: held.place,
            fence: held.fence,
            lease_until: self.now().plus(5_000),
            progress: None,
            log: None,
            executor: "executor".into(),
            handed_over_at: None,
        };
        let Some(engine) = self.engine() else {
            self.held.push(held);
            return Ok(());
        };
        let call = self.begin();
        let answer = engine.extend(vec![beat]).await.map(|list| list.first().copied());
        let until = self.until();
        self.recorder.extended(&held, call, until, answer.as_ref().ok().copied().flatten());
        match answer {
            Ok(Some(Extended::Lost)) => self.given_up.push(held),
            _ => self.held.push(held),
        }
        Ok(())
    }
}

const SNOOZE_MS: i64 = 700;

fn milliseconds(ms: i64) -> Duration {
    Duration::from_millis(ms.unsigned_abs())
}
