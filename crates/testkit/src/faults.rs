//! Back ends that fail on request, around real ones. Two dials decide each call: how likely it *happens*, and
//! how likely the truth about it is *reported*. That gives the four cases that a network causes:
//!
//! | happens | reported | the caller sees |
//! |---|---|---|
//! | yes | yes | the answer |
//! | yes | no | an error that says `Maybe` |
//! | no | yes | an error that says `No` |
//! | no | no | an error that says `Maybe` |
//!
//! Never changes an answer that it forwards, except for one deliberate false answer (`FaultyHot`).

mod access;
mod bulk;
mod bus;
mod hot;
mod limiter;
mod schedules;
mod store;
mod wall;
mod workflows;

pub use bulk::{BulkGroup, FaultyBulk};
pub use bus::{BusGroup, FaultyBus};
pub use hot::{FaultyHot, HotGroup};
pub use limiter::{FaultyLimiter, LimiterGroup};
pub use schedules::{FaultySchedules, ScheduleGroup};
pub use store::{FaultyStore, Said, StoreGroup};
pub use wall::{Rise, Wall};
pub use workflows::{FaultyWorkflows, WorkflowGroup};

use crate::patience::HANG_LIMIT;
use parking_lot::Mutex;
use punctual_contract::Error;
use std::{
    collections::{HashMap, HashSet},
    fmt::Debug,
    hash::Hash,
    panic::Location,
    sync::Arc,
};
use tokio::{sync::Semaphore, time::timeout};

/// Probabilities, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dials {
    pub happens: f64,
    pub reported: f64,
}

impl Dials {
    pub const SOUND: Self = Self { happens: 1.0, reported: 1.0 };
    /// Nothing gets through, and the caller knows that.
    pub const REFUSES: Self = Self { happens: 0.0, reported: 1.0 };
    /// Nothing gets through, and the caller cannot know that.
    pub const SILENT: Self = Self { happens: 0.0, reported: 0.0 };
    /// All calls take effect, and no answer is returned.
    pub const ANSWERS_LOST: Self = Self { happens: 1.0, reported: 0.0 };
}

impl Default for Dials {
    fn default() -> Self {
        Self::SOUND
    }
}

/// The results of the calls so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    pub passed: u64,
    pub answer_lost: u64,
    pub refused: u64,
    pub vanished: u64,
}

impl FaultCounts {
    #[must_use]
    pub const fn failed(&self) -> u64 {
        self.answer_lost + self.refused + self.vanished
    }
}

/// A gate at which calls wait for a test, so that it can make something happen in between.
#[derive(Debug)]
pub struct Gate {
    reached: Semaphore,
    open: Semaphore,
}

impl Default for Gate {
    fn default() -> Self {
        Self { reached: Semaphore::new(0), open: Semaphore::new(0) }
    }
}

impl Gate {
    /// Waits until the gate lets this call through.
    async fn pass(&self) {
        self.reached.add_permits(1);
        // Closed: it was opened.
        if let Ok(pass) = self.open.acquire().await {
            pass.forget();
        }
    }

    /// Returns when a call has reached the gate; each call is reported once.
    ///
    /// # Panics
    /// When no call reaches the gate in time.
    #[track_caller]
    pub fn reached(&self) -> impl Future<Output = ()> {
        let caller = Location::caller();
        async move {
            let call = timeout(HANG_LIMIT, self.reached.acquire()).await;
            if let Ok(call) =
                call.unwrap_or_else(|_| panic!("{caller}: no call came to the gate in {HANG_LIMIT:?}"))
            {
                call.forget();
            }
        }
    }

    /// The number of calls that have reached the gate and were not reported yet.
    #[must_use]
    pub fn came(&self) -> usize {
        self.reached.available_permits()
    }

    /// Lets one more through.
    pub fn pass_one(&self) {
        self.open.add_permits(1);
    }

    /// Lets through all waiting and future calls.
    pub fn open(&self) {
        self.open.close();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CallOutcome {
    happens: bool,
    reported: bool,
}

/// The dials of one faulty back end, by group of methods; `G` names its groups. Groups without dials are
/// sound.
#[derive(Debug)]
pub struct Faults<G> {
    inner: Mutex<FaultsState<G>>,
}

#[derive(Debug)]
struct FaultsState<G> {
    rng: fastrand::Rng,
    all: Dials,
    groups: HashMap<G, Dials>,
    once: HashMap<G, Dials>,
    gates: HashMap<G, Arc<Gate>>,
    panics: HashSet<G>,
    counts: HashMap<G, FaultCounts>,
    wall: Option<Arc<Wall>>,
}

impl<G: Copy + Eq + Hash> FaultsState<G> {
    /// The dials of one call.
    fn dials(&mut self, group: G) -> Dials {
        let dials = self.groups.get(&group).copied().unwrap_or(self.all);
        self.once.remove(&group).unwrap_or(dials)
    }
}

impl<G: Copy + Eq + Hash + Debug + Send> Faults<G> {
    fn seeded(seed: u64) -> Self {
        let rng = fastrand::Rng::with_seed(seed);
        let (groups, once, gates, panics, counts, wall) = Default::default();
        let inner = FaultsState { rng, all: Dials::SOUND, groups, once, gates, panics, counts, wall };
        Self { inner: Mutex::new(inner) }
    }

    /// Every group, from now on.
    pub fn set_all(&self, dials: Dials) {
        let mut inner = self.inner.lock();
        inner.groups.clear();
        inner.all = dials;
    }

    /// One group, from now on.
    pub fn set(&self, group: G, dials: Dials) {
        self.inner.lock().groups.insert(group, dials);
    }

    /// The next call of one group.
    pub fn set_once(&self, group: G, dials: Dials) {
        self.inner.lock().once.insert(group, dials);
    }

    pub fn heal(&self) {
        self.set_all(Dials::SOUND);
    }

    /// Calls of this group wait, before they happen, until the gate is opened.
    pub fn hold(&self, group: G) -> Arc<Gate> {
        let gate = Arc::new(Gate::default());
        self.inner.lock().gates.insert(group, Arc::clone(&gate));
        gate
    }

    /// Puts a wall before the calls, which several back ends may share.
    pub fn set_wall(&self, wall: &Arc<Wall>) {
        self.inner.lock().wall = Some(Arc::clone(wall));
    }

    /// The next call of this group panics.
    pub fn panic_once(&self, group: G) {
        self.inner.lock().panics.insert(group);
    }

    async fn pass_gate(&self, group: G) {
        let (gate, panics) = {
            let mut inner = self.inner.lock();
            (inner.gates.get(&group).cloned(), inner.panics.remove(&group))
        };
        assert!(!panics, "a test asked for this panic");
        if let Some(gate) = gate {
            gate.pass().await;
        }
    }

    async fn pass_wall<T>(
        &self,
        doing: &'static str,
        call: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        let wall = self.inner.lock().wall.clone();
        match wall {
            Some(wall) => wall.pass(doing, call).await,
            None => call.await,
        }
    }

    #[must_use]
    pub fn counts(&self, group: G) -> FaultCounts {
        self.inner.lock().counts.get(&group).copied().unwrap_or_default()
    }

    fn outcome(&self, group: G) -> CallOutcome {
        let mut inner = self.inner.lock();
        let dials = inner.dials(group);
        // Both are always rolled: turning one dial does not change the seed's results for the other.
        let outcome = CallOutcome {
            happens: inner.rng.f64() < dials.happens,
            reported: inner.rng.f64() < dials.reported,
        };
        let counts = inner.counts.entry(group).or_default();
        *match (outcome.happens, outcome.reported) {
            (true, true) => &mut counts.passed,
            (true, false) => &mut counts.answer_lost,
            (false, true) => &mut counts.refused,
            (false, false) => &mut counts.vanished,
        } += 1;
        outcome
    }

    /// Runs like `run`, for calls that are not part of a seed's decisions: engines make them beside their work, and a
    /// dial that is turned halfway does not affect them. All are counted as passed.
    async fn run_beside<T>(
        &self,
        group: G,
        doing: &'static str,
        call: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        self.pass_gate(group).await;
        let dials = {
            let mut inner = self.inner.lock();
            inner.counts.entry(group).or_default().passed += 1;
            inner.dials(group)
        };
        let answer = if dials.happens > 0.0 { Some(self.pass_wall(doing, call).await) } else { None };
        match (answer, dials.reported > 0.0) {
            (Some(answer), true) => answer,
            (None, true) => Err(Error::did_not_happen(doing, "refused by a fault")),
            (_, false) => Err(Error::may_have_happened(doing, "the answer was lost by a fault")),
        }
    }

    /// `call` is a future that has not begun: a call that is never polled never happens.
    async fn run<T>(
        &self,
        group: G,
        doing: &'static str,
        call: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        self.pass_gate(group).await;
        let outcome = self.outcome(group);
        let answer = if outcome.happens { Some(self.pass_wall(doing, call).await) } else { None };
        match (answer, outcome.reported) {
            (Some(answer), true) => answer,
            (None, true) => Err(Error::did_not_happen(doing, "refused by a fault")),
            (_, false) => Err(Error::may_have_happened(doing, "the answer was lost by a fault")),
        }
    }
}
