//! The wheel on a thread of its own: it sleeps until the next due time, to a fraction of a
//! millisecond, and signals that a task is due. It never signals early. The live table knows which tasks are
//! due: if the wheel loses an instant, the refill finds the task within a second.

use crate::{meters::ServiceMeters, sharing::self_check::state::LivenessTick};
use parking_lot::{Condvar, Mutex};
use punctual_contract::Clock;
use punctual_domain::time::Millis;
use punctual_wheel::Wheel;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::mpsc::UnboundedSender;

/// Longest sleep: a wall clock that jumped is noticed after this at the latest.
const SLEEP_MAX: Duration = Duration::from_millis(100);
/// Pause after a panic, so that repeated panics do not take a processor.
const AFTER_PANIC: Duration = Duration::from_millis(100);

pub(crate) struct Timer {
    inner: Mutex<TimerState>,
    wake: Condvar,
    stop: AtomicBool,
    tick: LivenessTick,
}

struct TimerState {
    wheel: Wheel<()>,
    /// The deadline that the thread sleeps for; earlier ones wake it.
    sleeps_until: i64,
}

impl std::fmt::Debug for Timer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timer").field("entries", &self.len()).finish_non_exhaustive()
    }
}

impl Timer {
    pub(crate) fn new(now: Millis) -> Self {
        let inner = TimerState { wheel: Wheel::new(now.0), sleeps_until: i64::MAX };
        let (stop, tick) = (AtomicBool::new(false), LivenessTick::default());
        Self { inner: Mutex::new(inner), wake: Condvar::new(), stop, tick }
    }

    /// The liveness of the thread.
    pub(crate) const fn tick(&self) -> &LivenessTick {
        &self.tick
    }

    /// Wakes at each of these instants.
    pub(crate) fn insert(&self, instants: impl Iterator<Item = Millis>) {
        let mut inner = self.inner.lock();
        let (mut earliest, mut last) = (i64::MAX, None);
        for instant in instants {
            // Tasks of one instant are adjacent.
            if last.replace(instant) != Some(instant) {
                inner.wheel.insert(instant.0, ());
                earliest = earliest.min(instant.0);
            }
        }
        if earliest < inner.sleeps_until {
            self.wake.notify_one();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.inner.lock().wheel.len()
    }

    /// True if any task is due.
    pub(crate) fn expired(&self, now: Millis) -> bool {
        let mut due = Vec::new();
        self.inner.lock().wheel.advance(now.0, &mut due);
        !due.is_empty()
    }

    /// Runs the thread until the engine stops: a panic is counted, and the wheel restarts empty. Its tasks are found
    /// in the table, at most a second later.
    fn keep_running(&self, clock: &dyn Clock, due: &UnboundedSender<()>, meters: &ServiceMeters) {
        let mut has_panicked = false;
        let life = |begins_anew| {
            if begins_anew {
                let mut inner = self.inner.lock();
                *inner = TimerState { wheel: Wheel::new(clock.now().0), sleeps_until: i64::MAX };
            }
            self.run(clock, due, meters);
        };
        while catch_unwind(AssertUnwindSafe(|| life(has_panicked))).is_err() {
            has_panicked = true;
            meters.panicked();
            std::thread::park_timeout(AFTER_PANIC);
        }
    }

    /// Returns when stopped, or when no engine listens any more.
    fn run(&self, clock: &dyn Clock, due: &UnboundedSender<()>, meters: &ServiceMeters) {
        while !self.stop.load(Ordering::SeqCst) {
            if self.expired(clock.now()) && due.send(()).is_err() {
                return;
            }
            self.tick.beat();
            meters.recovered();
            self.sleep(clock);
        }
    }

    fn sleep(&self, clock: &dyn Clock) {
        let mut inner = self.inner.lock();
        let next = inner.wheel.next_deadline().unwrap_or(i64::MAX);
        let wait = if next == i64::MAX { SLEEP_MAX } else { clock.until(Millis(next)).min(SLEEP_MAX) };
        if wait.is_zero() || self.stop.load(Ordering::SeqCst) {
            return;
        }
        inner.sleeps_until = next;
        self.wake.wait_for(&mut inner, wait);
        inner.sleeps_until = i64::MIN;
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        let _it = self.inner.lock();
        self.wake.notify_one();
    }

    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        clock: Arc<dyn Clock>,
        due: UnboundedSender<()>,
        meters: Arc<ServiceMeters>,
    ) -> std::io::Result<std::thread::JoinHandle<()>> {
        let timer = Arc::clone(self);
        // A thread that never runs is noticed as well.
        timer.tick.beat();
        std::thread::Builder::new()
            .name("punctual-wheel".into())
            .spawn(move || timer.keep_running(clock.as_ref(), &due, &meters))
    }
}
