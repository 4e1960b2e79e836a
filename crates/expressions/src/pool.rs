//! A few threads with a deep stack for what users sent and what may take long: reading and evaluating expressions, walking through
//! calendars. Created once, bounded in number and in what may wait. Work looks at its own deadline (`Budget`), so that no thread is
//! lost. No asynchronous thread reads or evaluates an expression itself.

use std::{
    collections::VecDeque,
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

/// What the parser lets through fits on an eighth of it, without optimisation; a test holds that.
const STACK_BYTES: usize = 16 << 20;
/// Two, so that work that takes its time keeps none of the other lane from its turn.
const THREADS_MIN: usize = 2;
const THREADS_MAX: usize = 4;
/// Work of one lane that waits. More is refused.
const WAITING_MAX: usize = 256;
/// Of one piece of work, from its beginning.
const DEADLINE: Duration = Duration::from_secs(30);

/// Who waits for the work. The lanes take turns, so that requests do not keep an engine from its own work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// A request of a user.
    Request,
    /// A loop of an engine: schedules, workflows.
    Engine,
}

/// Why work was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// As much waits as may wait. It can be tried again.
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

/// What work on the pool looks at, to see whether it is to go on.
#[derive(Clone, Debug)]
pub struct Turn {
    ends_at: Instant,
    is_abandoned: Arc<AtomicBool>,
}

impl Turn {
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
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

type Work = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Lanes {
    requests: VecDeque<Work>,
    engine: VecDeque<Work>,
    /// The lane that was served last.
    engine_was_served: bool,
    is_closed: bool,
}

impl Lanes {
    fn of(&mut self, lane: Lane) -> &mut VecDeque<Work> {
        match lane {
            Lane::Request => &mut self.requests,
            Lane::Engine => &mut self.engine,
        }
    }

    fn next(&mut self) -> Option<Work> {
        let order = if self.engine_was_served {
            [Lane::Request, Lane::Engine]
        } else {
            [Lane::Engine, Lane::Request]
        };
        let (lane, work) = order.into_iter().find_map(|lane| Some((lane, self.of(lane).pop_front()?)))?;
        self.engine_was_served = lane == Lane::Engine;
        Some(work)
    }
}

#[derive(Default)]
struct Shared {
    lanes: Mutex<Lanes>,
    arrived: Condvar,
}

impl Shared {
    /// Nothing panics while the lock is held; were it so, the lanes would be as good as before.
    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        let mut lanes = self.lanes();
        loop {
            if let Some(work) = lanes.next() {
                drop(lanes);
                work();
                lanes = self.lanes();
            } else if lanes.is_closed {
                return;
            } else {
                lanes = self.arrived.wait(lanes).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// The threads end when it is dropped, and with the process.
pub struct Pool {
    shared: Arc<Shared>,
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

    /// None at all: work is done by the caller, at once, so that a simulation runs in the same way each time.
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
    /// Where no thread can be created at all: a process that has none left cannot go on.
    #[must_use]
    pub fn new(threads: usize, waiting_max: usize, deadline: Duration) -> Self {
        let shared = Arc::<Shared>::default();
        let started = (0..threads).filter(|_| {
            let shared = Arc::clone(&shared);
            let thread = thread::Builder::new().name("punctual-eval".to_owned()).stack_size(STACK_BYTES);
            thread.spawn(move || shared.serve()).is_ok()
        });
        assert!(started.count() > 0, "a thread for expressions can be created");
        Self { shared, waiting_max, deadline, is_in_place: false }
    }

    /// Does the work on a thread of the pool. Dropped, it is not begun any more, or asked to stop.
    ///
    /// # Errors
    /// [`Unavailable`].
    pub async fn run<T: Send + 'static>(
        &self,
        lane: Lane,
        work: impl FnOnce(&Turn) -> T + Send + 'static,
    ) -> Result<T, Unavailable> {
        let is_abandoned = Arc::<AtomicBool>::default();
        if self.is_in_place {
            let turn = Turn { ends_at: Turn::now() + self.deadline, is_abandoned };
            return catch_unwind(AssertUnwindSafe(|| work(&turn))).map_err(|_| Unavailable::Panicked);
        }
        let waiting = Waiting(Arc::clone(&is_abandoned));
        let (answer, answered) = oneshot::channel();
        let deadline = self.deadline;
        let work = move || {
            if is_abandoned.load(Relaxed) {
                return;
            }
            let turn = Turn { ends_at: Turn::now() + deadline, is_abandoned };
            let done = catch_unwind(AssertUnwindSafe(|| work(&turn)));
            // Where that fails, no caller waits any more.
            drop(answer.send(done));
        };
        {
            let mut lanes = self.shared.lanes();
            let lane = lanes.of(lane);
            if lane.len() >= self.waiting_max {
                return Err(Unavailable::Full);
            }
            lane.push_back(Box::new(work));
        }
        self.shared.arrived.notify_one();
        let answered = answered.await;
        drop(waiting);
        answered.map_err(|_| Unavailable::Panicked)?.map_err(|_| Unavailable::Panicked)
    }
}

#[cfg(test)]
mod tests;
