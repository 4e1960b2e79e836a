//! The engine's clock: the machine's wall clock while `belief` trusts it, and the calls that ask for the time and report it.
//! Must not read the time itself: the composition root passes the machine's clocks.

mod belief;
pub(crate) mod steady_reading;
pub(crate) mod watch;

pub use belief::Reading;
pub(crate) use steady_reading::{CurrentTime, SteadyReading};
use watch::ask;
pub(crate) use watch::{PERIOD, doubt, is_unhealthy, run_once};

use belief::{Belief, MS};
use parking_lot::Mutex;
use punctual_contract::{Clock, Error, Ownership, Trust, clock::ClockStatus};
use punctual_domain::time::Millis;
use std::{
    fmt,
    sync::atomic::{AtomicI64, Ordering::Relaxed},
    time::Duration,
};

/// An engine without a keeper follows a step of the wall clock after this long.
const GRACE: Duration = Duration::from_secs(10);
/// The movement of the wall clock below which it is not read again.
const UNMOVED_NS: i64 = MS;
const UNSETTLED: i64 = i64::MIN;
/// Callers that ask for the time read all clocks this often. A longer gap shows that the process was stopped.
const LOOK_EVERY_NS: i64 = 50 * MS;

/// The clocks of a machine.
pub trait MachineClocks: Send + Sync + fmt::Debug + 'static {
    /// All of them, as close together as can be.
    fn read(&self) -> Reading;

    /// The wall clock, and then the steady one, in nanoseconds.
    fn glance(&self) -> (i64, i64);
}

/// A second source of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    /// The clock that all engines of one store share.
    Keeper,
    Nobody,
}

/// A machine's wall clock as far as it can be believed.
#[derive(Debug)]
pub struct TrustedClock<M> {
    machine: M,
    belief: Mutex<Belief>,
    /// Added to the steady clock while the wall clock is followed and has not stepped: avoids the lock.
    steady_offset: AtomicI64,
    /// The instant of the last read of all clocks, on the steady clock.
    looked_ns: AtomicI64,
}

impl<M: MachineClocks> TrustedClock<M> {
    pub fn new(machine: M, bound: Duration, witness: Witness) -> Self {
        let grace = (witness == Witness::Nobody).then(|| whole_ns(GRACE));
        let belief = Belief::new(machine.read(), whole_ns(bound), grace);
        let looked_ns = AtomicI64::new(belief.looked_ns());
        Self { machine, belief: Mutex::new(belief), steady_offset: AtomicI64::new(UNSETTLED), looked_ns }
    }

    /// Compares with the keeper's clock.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn ask(&self, keeper: &dyn Ownership) -> Result<(), Error> {
        ask(self, keeper).await
    }

    fn time_ns(&self) -> i64 {
        let (wall_ns, steady_ns) = self.machine.glance();
        let steady_offset = self.steady_offset.load(Relaxed);
        let has_looked = steady_ns - self.looked_ns.load(Relaxed) <= LOOK_EVERY_NS;
        if has_looked
            && steady_offset != UNSETTLED
            && (wall_ns - steady_ns - steady_offset).abs() <= UNMOVED_NS
        {
            return steady_ns + steady_offset;
        }
        self.look(|_, _| {})
    }

    fn look(&self, then: impl FnOnce(&mut Belief, Reading)) -> i64 {
        let mut belief = self.belief.lock();
        let reading = self.machine.read();
        then(&mut belief, reading);
        let time_ns = belief.look(reading);
        self.looked_ns.store(belief.looked_ns(), Relaxed);
        self.steady_offset.store(belief.steady_offset().unwrap_or(UNSETTLED), Relaxed);
        time_ns
    }
}

impl<M: MachineClocks> Clock for TrustedClock<M> {
    fn now(&self) -> Millis {
        Millis(self.time_ns().div_euclid(MS))
    }

    fn until(&self, at: Millis) -> Duration {
        let left_ns = at.0.saturating_mul(MS).saturating_sub(self.time_ns());
        Duration::from_nanos(u64::try_from(left_ns).unwrap_or(0))
    }

    fn trust(&self) -> Option<&dyn Trust> {
        Some(self)
    }
}

impl<M: MachineClocks> Trust for TrustedClock<M> {
    fn steady(&self) -> Duration {
        Duration::from_nanos(u64::try_from(self.machine.glance().1).unwrap_or(0))
    }

    fn observe(&self, theirs: Millis, asked: Duration) {
        self.look(|belief, reading| belief.observe(theirs.0.saturating_mul(MS), whole_ns(asked), reading));
    }

    fn discontinuities(&self) -> u64 {
        self.status().discontinuities
    }

    fn status(&self) -> ClockStatus {
        self.look(|_, _| {});
        self.belief.lock().status()
    }
}

fn whole_ns(grace: Duration) -> i64 {
    i64::try_from(grace.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose clocks all run evenly, in a process that asks only when a test says so.
    #[derive(Debug, Default)]
    struct Even(AtomicI64);

    impl MachineClocks for Even {
        fn read(&self) -> Reading {
            let ns = self.0.load(Relaxed);
            Reading { wall_ns: ns, steady_ns: ns, awake_ns: ns, spread_ns: 0 }
        }

        fn glance(&self) -> (i64, i64) {
            let ns = self.0.load(Relaxed);
            (ns, ns)
        }
    }

    #[test]
    fn a_break_is_seen_by_whoever_asks_first_and_asking_for_the_time_keeps_it_away() {
        let clock = TrustedClock::new(Even::default(), Duration::from_millis(250), Witness::Nobody);
        let pass = |ns: i64| clock.machine.0.fetch_add(ns, Relaxed);
        let before = clock.discontinuities();
        // As the wheel's thread asks.
        for _ in 0..100 {
            pass(100 * MS);
            clock.now();
        }
        assert_eq!(clock.discontinuities(), before);
        pass(1_500 * MS);
        assert_eq!(clock.discontinuities(), before + 1, "the question itself compares the clocks");
        pass(1_500 * MS);
        clock.now();
        pass(MS);
        assert_eq!(clock.discontinuities(), before + 2, "and finds what was noticed on the way");
    }
}
