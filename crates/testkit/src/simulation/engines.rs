//! The engines of a world: how they start, die at any of their steps, sleep at any of them and continue
//! later, and what must have happened a while after one has ended.

use super::{
    known::Known,
    mortal::{Life, LifeEnd, Mortal},
    ops::EngineWork,
    recorder::Inserting,
    setup::Due,
    world::{World, queue},
};
use crate::{
    faults::Dials,
    twins::{TwinLimiter, TwinOwnership},
};
use futures_util::future::{join, join_all};
use punctual_contract::{
    Bus, Hot, Limiter, Ownership, Store,
    store::{Assignment, Inserted, Query},
};
use punctual_domain::{insert::Decision, name::Name, place::TaskRef, state::State, task::NewTask};
use punctual_engine::{Backends, Cancelled, Engine, Error, LeaseRequest, Options, SharedBackends};
use std::{fmt, pin::Pin, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// Engines at a time.
const ENGINES_MAX: usize = 3;
/// The number of steps that the others have to replace one that died: half of them are a lease.
const TAKE_OVER_STEPS: usize = 10;
const TAKE_OVER_STEP: Duration = Duration::from_millis(500);
/// More than there ever is.
const ALL: usize = 10_000;

#[derive(Debug)]
pub(super) struct EngineProcess {
    pub(super) engine: Engine,
    /// Includes the state that the engine keeps to itself.
    life: Arc<Life>,
    /// The work that was paused.
    asleep: Option<Asleep>,
}

struct Asleep {
    work: Pin<Box<dyn Future<Output = CallAnswer> + Send>>,
}

impl fmt::Debug for Asleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Asleep")
    }
}

/// A caller's answer from an engine that continued after a while, or died.
enum CallAnswer {
    Turned,
    Leased(Result<Vec<Assignment>, Error>),
    Inserted(Result<Vec<Inserted>, Error>),
    Cancelled(TaskRef, Result<Cancelled, Error>),
}

impl EngineProcess {
    pub(super) fn die(self) {
        self.life.die();
    }

    pub(super) fn is_awake(&self) -> bool {
        self.asleep.is_none()
    }
}

/// A call of an engine, and meanwhile the engines that it may ask.
async fn answered_by<T>(engines: &[Engine], call: impl Future<Output = T>) -> T {
    let end = CancellationToken::new();
    let call = async {
        let answer = call.await;
        end.cancel();
        answer
    };
    join(call, join_all(engines.iter().map(|engine| engine.listen(&end)))).await.0
}

impl World {
    pub(super) fn start_engine(&mut self) {
        if self.nodes.len() >= ENGINES_MAX {
            return;
        }
        self.started += 1;
        let life = Life::new();
        let store: Arc<dyn Store> = Arc::new(Mortal { inner: self.store(), life: Arc::clone(&life) });
        let hot: Arc<dyn Hot> = Arc::new(Mortal { inner: self.hot(), life: Arc::clone(&life) });
        let mut inner: Arc<dyn Ownership> = self.ownership.clone();
        if let Some(twin) = self.twin {
            inner = Arc::new(TwinOwnership::new(inner, twin));
        }
        let ownership = Arc::new(Mortal { inner, life: Arc::clone(&life) });
        let shared = self.is_shared().then(|| SharedBackends {
            ownership,
            signals: self.signals.join(),
            stored_limiter: None,
        });
        let mut inner: Arc<dyn Limiter> = self.limiter.clone();
        if let Some(twin) = self.twin {
            inner = Arc::new(TwinLimiter::new(inner, twin));
        }
        let limiter: Arc<dyn Limiter> = Arc::new(Mortal { inner, life: Arc::clone(&life) });
        let bus: Arc<dyn Bus> = Arc::new(Mortal { inner: self.bus(), life: Arc::clone(&life) });
        let backends = Backends { store, hot, limiter, bus, clock: self.clock.clone(), blobs: None, shared };
        let engine = Engine::new(backends, self.options(format!("e{}", self.started)));
        self.nodes.push(EngineProcess { engine, life, asleep: None });
    }

    /// A run that fails half-way is like a failing service: the next one continues.
    pub(super) async fn run_once(&mut self) {
        let (now, mut are_whole) = (self.now(), self.has_all_engines());
        for node in self.nodes.iter().filter(|node| node.is_awake()) {
            // Without the hot set a turn fires from the store, and fails after that.
            are_whole &= self.call(node.engine.run_once()).await.is_ok() || self.hot_is_away;
        }
        self.turns = if are_whole { (Some(now), self.turns.0) } else { (None, None) };
    }

    /// An engine's own memory is never unavailable.
    pub(super) fn set_hot_away(&mut self, away: bool) {
        if self.setup.due == Due::InStore {
            return;
        }
        (self.hot_is_away, self.turns) = (away, (None, None));
        self.faulty_hot.faults.set_all(if away { Dials::REFUSES } else { Dials::SOUND });
    }

    /// True if the world has as many engines as at its beginning, all running; if they share the queue, none has died
    /// or started since.
    pub(super) fn has_all_engines(&self) -> bool {
        let are_first = !self.is_shared() || self.started == self.setup.engines;
        are_first && self.nodes.len() == self.setup.engines && self.nodes.iter().all(EngineProcess::is_awake)
    }

    /// Another one at each call, so that no engine is the only one that callers talk to.
    pub(super) fn engine(&mut self) -> Option<Engine> {
        self.calls += 1;
        let awake: Vec<&EngineProcess> = self.nodes.iter().filter(|node| node.is_awake()).collect();
        let nth = self.calls.checked_rem(awake.len())?;
        awake.get(nth).map(|node| node.engine.clone())
    }

    fn awake(&self) -> Vec<Engine> {
        self.nodes.iter().filter(|node| node.is_awake()).map(|node| node.engine.clone()).collect()
    }

    /// A call of one of the awake engines. The others answer its requests.
    pub(super) async fn call<T>(&self, call: impl Future<Output = T>) -> T {
        answered_by(&self.awake(), call).await
    }

    fn remove(&mut self, pick: usize) -> Option<EngineProcess> {
        (!self.nodes.is_empty()).then(|| self.nodes.swap_remove(pick % self.nodes.len()))
    }

    /// One engine dies at one of the calls of some work; the answer is never sent.
    pub(super) async fn kill(&mut self, pick: usize, calls: usize, work: EngineWork) -> Result<(), String> {
        let Some(node) = self.remove(pick) else { return Ok(()) };
        if node.is_awake() {
            node.life.end_after(calls, LifeEnd::Death);
            let work = self.work(&node.engine, work);
            let engines = [self.awake(), vec![node.engine.clone()]].concat();
            let answer = answered_by(&engines, work).await;
            if node.life.is_dead() {
                self.lose_answer(&answer);
            } else {
                self.reported_late(answer).await?;
            }
        }
        node.life.die();
        Ok(())
    }

    /// The engine stops properly, and gives up all it holds.
    pub(super) async fn stop(&mut self, pick: usize) {
        if self.nodes.get(pick % self.nodes.len().max(1)).is_some_and(EngineProcess::is_awake)
            && let Some(node) = self.remove(pick)
        {
            node.engine.leave().await;
            node.life.die();
        }
    }

    /// One engine falls asleep at one of the calls of some work.
    pub(super) async fn pause(&mut self, pick: usize, calls: usize, work: EngineWork) -> Result<(), String> {
        let nth = pick % self.nodes.len().max(1);
        if !self.nodes.get(nth).is_some_and(EngineProcess::is_awake) {
            return Ok(());
        }
        let node = self.nodes.swap_remove(nth);
        node.life.end_after(calls, LifeEnd::Sleep);
        let mut work = self.work(&node.engine, work);
        let engines = [self.awake(), vec![node.engine.clone()]].concat();
        let answer = tokio::select! {
            biased;
            answer = answered_by(&engines, &mut work) => Some(answer),
            () = node.life.fell_asleep() => None,
        };
        let Some(answer) = answer else {
            self.nodes.push(EngineProcess { asleep: Some(Asleep { work }), ..node });
            return Ok(());
        };
        node.life.wake();
        self.nodes.push(node);
        self.reported_late(answer).await
    }

    /// An engine that fell asleep continues where it was.
    pub(super) async fn go_on(&mut self, pick: usize) -> Result<(), String> {
        let asleep: Vec<&mut EngineProcess> = self.nodes.iter_mut().filter(|node| !node.is_awake()).collect();
        let Some(nth) = pick.checked_rem(asleep.len()) else { return Ok(()) };
        let Some(node) = asleep.into_iter().nth(nth) else { return Ok(()) };
        node.life.wake();
        let Some(Asleep { work }) = node.asleep.take() else { return Ok(()) };
        let answer = self.call(work).await;
        self.reported_late(answer).await
    }

    pub(super) async fn all_go_on(&mut self) -> Result<(), String> {
        while self.nodes.iter().any(|node| !node.is_awake()) {
            self.go_on(0).await?;
        }
        Ok(())
    }

    /// Work that has begun may have happened even if its answer never arrives.
    fn work(
        &mut self,
        engine: &Engine,
        work: EngineWork,
    ) -> Pin<Box<dyn Future<Output = CallAnswer> + Send>> {
        let engine = engine.clone();
        match work {
            EngineWork::Turn => Box::pin(async move {
                let _ = engine.run_once().await;
                CallAnswer::Turned
            }),
            EngineWork::Lease { max } => {
                self.recorder.unanswered_work(self.now());
                Box::pin(async move { CallAnswer::Leased(engine.lease(request(max)).await) })
            }
            EngineWork::Insert { delay_ms } => {
                self.uncertain_inserts += 1;
                let kind = Name::new("k").expect("a plain name");
                let task = NewTask::new(queue(), kind, self.now().plus(delay_ms));
                let (max_attempts, has_deadline, retry_ms) = (task.max_attempts, false, 0);
                let due_at = task.execute_at;
                let inserting = Inserting { id: None, due_at, has_deadline, max_attempts, retry_ms };
                let call = self.begin();
                self.recorder.insert_unanswered(call, inserting);
                Box::pin(async move { CallAnswer::Inserted(engine.insert(vec![task], "caller").await) })
            }
            EngineWork::Cancel { pick } => {
                let Some(place) = self.pick(pick) else { return Box::pin(async { CallAnswer::Turned }) };
                if let Some(known) = self.known(place.id) {
                    known.uncertain = true;
                }
                let (call, now) = (self.begin(), self.now());
                self.recorder.cancelled((place.id, false), call, now, None);
                Box::pin(
                    async move { CallAnswer::Cancelled(place, engine.cancel(place, false, "caller").await) },
                )
            }
        }
    }

    fn lose_answer(&mut self, answer: &CallAnswer) {
        if let CallAnswer::Leased(Ok(leased)) = answer {
            self.given_up.extend(leased.iter().cloned());
        }
    }

    /// Other engines may have continued the task since.
    async fn reported_late(&mut self, answer: CallAnswer) -> Result<(), String> {
        match answer {
            CallAnswer::Leased(Ok(leased)) => self.leased_late(leased).await,
            CallAnswer::Inserted(Ok(inserted)) => self.inserted_late(&inserted).await,
            CallAnswer::Cancelled(place, Ok(Cancelled::Cancelled(then))) => {
                let task = self.truth_of(place).await;
                match task {
                    // The answer may already show the task that replaced it.
                    Some(now)
                        if then.state == State::Cancelled
                            && now.fence == then.fence
                            && now.state != State::Cancelled =>
                    {
                        Err(format!("promise 5: cancelled, and yet {now:?}"))
                    }
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Delivers published messages to subscribers, at most `max`. None are delivered if all executors pull.
    pub(super) async fn receive(&mut self, max: usize) -> Result<(), String> {
        let bus = Arc::clone(&self.true_bus);
        let received = bus.receive(&queue(), max, Duration::ZERO, self.now()).await;
        let received = received.map_err(|error| error.to_string())?;
        let ids: Vec<u64> = received.iter().map(|delivery| delivery.id).collect();
        bus.acknowledge(&queue(), &ids).await.map_err(|error| error.to_string())?;
        self.leased_late(received.into_iter().map(|delivery| delivery.message).collect()).await
    }

    async fn leased_late(&mut self, leased: Vec<Assignment>) -> Result<(), String> {
        self.note_earlier_attempts(&leased).await;
        for lease in leased {
            let until = self.until();
            self.recorder.handed_over(&lease, None, until);
            let task = self.truth_of(lease.place).await;
            if task.is_some_and(|task| task.fence == lease.fence && task.state.is_in_flight()) {
                self.check_lease(&lease)?;
                self.held.push(lease);
            } else {
                self.given_up.push(lease);
            }
        }
        Ok(())
    }

    async fn inserted_late(&mut self, inserted: &[Inserted]) -> Result<(), String> {
        for inserted in inserted {
            if inserted.decision != Decision::Create {
                return Err(format!("a task without an id was not created: {inserted:?}"));
            }
            let untouched =
                self.truth_of(inserted.task.place).await.is_some_and(|now| now.fence == inserted.task.fence);
            let due_at = untouched.then_some(inserted.task.due_at);
            self.know(Known { uncertain: !untouched, ..Known::new(inserted.task.place, due_at) });
        }
        Ok(())
    }

    /// Checks, whatever has happened to engines, that some seconds later all due tasks have been handed to a caller.
    pub(super) async fn take_over(&mut self) -> Result<(), String> {
        let Some(engine) = self.engine() else { return Ok(()) };
        if !self.is_sound() {
            return Ok(());
        }
        // A clock that was set back makes everything late that was done before.
        self.clock.set(self.now().max(self.latest));
        let since = self.now();
        for _ in 0..TAKE_OVER_STEPS {
            self.wait(TAKE_OVER_STEP).await;
            self.run_once().await;
        }
        self.receive(ALL).await?;
        loop {
            // Preleased tasks are delivered by themselves, and ready ones when requested again.
            let call = self.begin();
            let leased = self.call(engine.lease(request(ALL))).await.map_err(|error| error.to_string())?;
            if leased.is_empty() {
                break;
            }
            self.note_earlier_attempts(&leased).await;
            for lease in leased {
                self.got(lease, call)?;
            }
        }
        let query = Query { limit: ALL, ..Query::default() };
        let tasks = self.truth.list(&query).await.map_err(|error| error.to_string())?.tasks;
        match tasks.iter().find(|task| task.state.is_waiting() && task.due_at < since) {
            Some(late) => Err(format!("promise 7: five seconds later {} waits", super::check::summary(late))),
            None => Ok(()),
        }
    }
}

pub(super) fn request(max: usize) -> LeaseRequest {
    LeaseRequest {
        queue: Arc::new(queue()),
        max,
        wait_ms: 0,
        lease_ms: 10_000,
        executor: "executor".into(),
        version: None,
    }
}

pub(super) fn options(name: String) -> Options {
    Options {
        name,
        // Steps of the clock are long, and no caller waits.
        ahead_ms: 500,
        ahead_room_min: 2,
        keep_succeeded_ms: 60_000,
        keep_stopped_ms: 60_000,
        keep_cancelled_ms: 120_000,
        keep_dead_ms: 600_000,
        ..Options::default()
    }
}
