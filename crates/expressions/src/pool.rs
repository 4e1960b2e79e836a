//! A few threads with a deep stack for user input that may take long: parsing and evaluating expressions,
//! computing calendars. Created once, bounded in number and in waiting work. Work checks its own deadline
//! (`Budget`), so that no thread is lost. No asynchronous thread parses or evaluates an expression itself.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// The size of a thread's stack. Input that the parser accepts needs at most an eighth of it, without optimisation; a
/// test verifies that.
const STACK_BYTES: usize = 16 << 20;
/// Two, so that no tenant's work occupies all of them (`LaneQueue::next`).
const THREADS_MIN: usize = 2;
const THREADS_MAX: usize = 4;
/// Work of one lane that waits, and of one tenant in it a quarter of that. More is refused.
const WAITING_MAX: usize = 1_024;
/// The time limit of one piece of work, from its beginning.
const DEADLINE: Duration = Duration::from_secs(30);

/// The caller of the work. The lanes take turns, so that requests do not block an engine's own work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolLane {
    /// A request of a user.
    Request,
    /// A loop of an engine: schedules, workflows.
    Engine,
}

/// Why work was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// The maximum amount of work waits. It can be tried again.
    Full,
    /// A fault of ours, which is in the log of the process.
    Panicked,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => {
                "more expressions and calendars wait to be evaluated than may wait; try again later"
            }
            Self::Panicked => "an expression or a calendar could not be evaluated",
        })
    }
}

impl std::error::Error for Unavailable {}

/// A turn of work on the pool, which tells the work whether to continue.
#[derive(Clone, Debug)]
pub struct TimeSlice {
    ends_at: Instant,
    is_abandoned: Arc<AtomicBool>,
}

impl TimeSlice {
    #[expect(
        clippy::disallowed_methods,
        reason = "how long a thread is busy; nothing is decided by it but to stop"
    )]
    fn now() -> Instant {
        Instant::now()
    }

    /// The deadline has passed, or the caller is gone.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_abandoned.load(Relaxed) || Self::now() >= self.ends_at
    }

    #[cfg(test)]
    pub(crate) fn over() -> Self {
        Self { ends_at: Self::now(), is_abandoned: Arc::default() }
    }
}

/// Notes that the future that waits was dropped.
struct DropMark(Arc<AtomicBool>);

impl Drop for DropMark {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

type Work = Box<dyn FnOnce() + Send>;

/// The waiting work of one lane. Tenants take turns, so that the work of one delays no other's.
#[derive(Default)]
struct LaneQueue {
    waiting: usize,
    turns: VecDeque<Arc<str>>,
    of_tenant: HashMap<Arc<str>, VecDeque<Work>>,
}

impl LaneQueue {
    /// False if as much waits as may.
    fn push(&mut self, tenant: &Arc<str>, work: Work, most: usize) -> bool {
        let own = self.of_tenant.entry(Arc::clone(tenant)).or_default();
        if self.waiting >= most || own.len() >= most.div_ceil(4) {
            if own.is_empty() {
                self.of_tenant.remove(tenant);
            }
            return false;
        }
        if own.is_empty() {
            self.turns.push_back(Arc::clone(tenant));
        }
        own.push_back(work);
        self.waiting += 1;
        true
    }

    /// The first work of the tenant whose turn it is, among those that may use another thread.
    fn next(&mut self, may: impl Fn(&str) -> bool) -> Option<(Arc<str>, Work)> {
        let place = self.turns.iter().position(|tenant| may(tenant))?;
        let tenant = self.turns.remove(place)?;
        let own = self.of_tenant.get_mut(&tenant)?;
        let work = own.pop_front()?;
        if own.is_empty() {
            self.of_tenant.remove(&tenant);
        } else {
            self.turns.push_back(Arc::clone(&tenant));
        }
        self.waiting -= 1;
        Some((tenant, work))
    }
}

#[derive(Default)]
struct Lanes {
    requests: LaneQueue,
    engine: LaneQueue,
    /// Threads that are at work for each tenant.
    at_work: HashMap<Arc<str>, usize>,
    /// The lane that was served last.
    engine_was_served: bool,
    is_closed: bool,
}

impl Lanes {
    fn of(&mut self, lane: PoolLane) -> &mut LaneQueue {
        match lane {
            PoolLane::Request => &mut self.requests,
            PoolLane::Engine => &mut self.engine,
        }
    }

    /// One thread is always left to the other tenants.
    fn next(&mut self, threads: usize) -> Option<(Arc<str>, Work)> {
        let order = if self.engine_was_served {
            [PoolLane::Request, PoolLane::Engine]
        } else {
            [PoolLane::Engine, PoolLane::Request]
        };
        let most = threads.saturating_sub(1).max(1);
        let (lane, (tenant, work)) = order.into_iter().find_map(|lane| {
            let line = match lane {
                PoolLane::Request => &mut self.requests,
                PoolLane::Engine => &mut self.engine,
            };
            let at_work = &self.at_work;
            Some((lane, line.next(|tenant| at_work.get(tenant).is_none_or(|threads| *threads < most))?))
        })?;
        self.engine_was_served = lane == PoolLane::Engine;
        *self.at_work.entry(Arc::clone(&tenant)).or_default() += 1;
        Some((tenant, work))
    }

    fn done(&mut self, tenant: &Arc<str>) {
        if let Some(threads) = self.at_work.get_mut(tenant) {
            *threads -= 1;
            if *threads == 0 {
                self.at_work.remove(tenant);
            }
        }
    }
}

#[derive(Default)]
struct PoolState {
    lanes: Mutex<Lanes>,
    arrived: Condvar,
}

impl PoolState {
    /// The lanes. Nothing panics while the lock is held; even then the lanes would be consistent.
    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, threads: usize) {
        let mut lanes = self.lanes();
        loop {
            if let Some((tenant, work)) = lanes.next(threads) {
                drop(lanes);
                work();
                lanes = self.lanes();
                lanes.done(&tenant);
                // Work that waited for this tenant's turn may use another thread.
                self.arrived.notify_one();
            } else if lanes.is_closed {
                return;
            } else {
                lanes = self.arrived.wait(lanes).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// The threads end when it is dropped, or with the process.
pub struct Pool {
    shared: Arc<PoolState>,
    waiting_max: usize,
    deadline: Duration,
    /// It has no threads.
    is_in_place: bool,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("waiting_max", &self.waiting_max).finish_non_exhaustive()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lanes().is_closed = true;
        self.shared.arrived.notify_all();
    }
}

impl Pool {
    /// The one of the process.
    #[must_use]
    pub fn shared() -> &'static Self {
        static POOL: LazyLock<Pool> = LazyLock::new(|| {
            let threads =
                thread::available_parallelism().map_or(1, usize::from).clamp(THREADS_MIN, THREADS_MAX);
            Pool::new(threads, WAITING_MAX, DEADLINE)
        });
        &POOL
    }

    /// A pool without threads: the caller does the work immediately, so that a simulation is deterministic.
    #[must_use]
    pub fn in_place() -> &'static Self {
        static POOL: LazyLock<Pool> = LazyLock::new(|| Pool {
            shared: Arc::default(),
            waiting_max: 0,
            deadline: DEADLINE,
            is_in_place: true,
        });
        &POOL
    }

    /// # Panics
    /// If no thread can be created: a process without threads cannot continue.
    #[must_use]
    pub fn new(threads: usize, waiting_max: usize, deadline: Duration) -> Self {
        let shared = Arc::<PoolState>::default();
        let started = (0..threads).filter(|_| {
            let shared = Arc::clone(&shared);
            let thread = thread::Builder::new().name("punctual-eval".to_owned()).stack_size(STACK_BYTES);
            thread.spawn(move || shared.serve(threads)).is_ok()
        });
        assert!(started.count() > 0, "a thread for expressions can be created");
        Self { shared, waiting_max, deadline, is_in_place: false }
    }

    /// Runs the work on a thread of the pool, for a tenant: tenants take turns. If the future is dropped,
    /// waiting work is not begun, and running work is asked to stop.
    ///
    /// # Errors
    /// [`Unavailable`].
    pub async fn run<T: Send + 'static>(
        &self,
        lane: PoolLane,
        tenant: &str,
        work: impl FnOnce(&TimeSlice) -> T + Send + 'static,
    ) -> Result<T, Unavailable> {
        let is_abandoned = Arc::<AtomicBool>::default();
        if self.is_in_place {
            let slice = TimeSlice { ends_at: TimeSlice::now() + self.deadline, is_abandoned };
            return catch_unwind(AssertUnwindSafe(|| work(&slice))).map_err(|_| Unavailable::Panicked);
        }
        let waiting = DropMark(Arc::clone(&is_abandoned));
        let (answer, answered) = oneshot::channel();
        let deadline = self.deadline;
        let work = move || {
            if is_abandoned.load(Relaxed) {
                return;
            }
            let slice = TimeSlice { ends_at: TimeSlice::now() + deadline, is_abandoned };
            let done = catch_unwind(AssertUnwindSafe(|| work(&slice)));
            // Where that fails, no caller waits any more.
            drop(answer.send(done));
        };
        {
            let mut lanes = self.shared.lanes();
            if !lanes.of(lane).push(&tenant.into(), Box::new(work), self.waiting_max) {
                return Err(Unavailable::Full);
            }
        }
        self.shared.arrived.notify_one();
        let answered = answered.await;
        drop(waiting);
        answered.map_err(|_| Unavailable::Panicked)?.map_err(|_| Unavailable::Panicked)
    }
}

#[cfg(test)]
mod tests;
