//! The planner's time that the schedules of one namespace may use. Payloads and calendars have their own budgets;
//! this bounds their sum, over many schedules or many runs, so that the planner serves all namespaces. Each engine
//! has its own allowances. Must not decide the outcome of a run: a postponed one is planned a little later.

use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_domain::{name::Name, time::Millis};

/// Expression steps that a namespace may take per millisecond: at most a third of a thread.
const STEPS_PER_MS: u64 = 1_000;
/// The burst of steps.
const AT_ONCE: u64 = 100_000_000;
/// A calendar step takes as long as this many expression steps.
const OF_CALENDAR: u64 = 100;
/// The shortest postponement.
const SHORTEST_MS: i64 = 1_000;

#[derive(Debug, Default)]
pub(crate) struct Allowances(Mutex<HashMap<Name, Taken>>);

#[derive(Clone, Copy, Debug)]
struct Taken {
    steps: u64,
    at: Millis,
}

impl Taken {
    fn left_at(self, now: Millis) -> u64 {
        let passed_ms = u64::try_from(now.since(self.at)).unwrap_or(0);
        self.steps.saturating_sub(passed_ms.saturating_mul(STEPS_PER_MS))
    }
}

/// The cost of one planning step.
pub(crate) fn cost(of_expressions: u64, of_calendar: u32) -> u64 {
    of_expressions.saturating_add(u64::from(of_calendar).saturating_mul(OF_CALENDAR))
}

impl Allowances {
    /// The time by which the schedules of a namespace are postponed. `None` if they are planned now.
    pub(crate) fn wait_ms(&self, namespace: &Name, now: Millis) -> Option<i64> {
        let taken = self.0.lock().get(namespace).map_or(0, |taken| taken.left_at(now));
        let over = taken.checked_sub(AT_ONCE)?;
        Some(i64::try_from(over / STEPS_PER_MS).unwrap_or(i64::MAX).max(SHORTEST_MS))
    }

    pub(crate) fn take(&self, namespace: &Name, steps: u64, now: Millis) {
        let mut all = self.0.lock();
        let before = all.get(namespace).map_or(0, |taken| taken.left_at(now));
        all.insert(namespace.clone(), Taken { steps: before.saturating_add(steps), at: now });
        if all.len() > 1_000 {
            all.retain(|_, taken| taken.left_at(now) > 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_that_takes_much_is_put_off_until_that_is_over_and_no_other_is() {
        let (all, now) = (Allowances::default(), Millis(1_000));
        let (dear, cheap) = (Name::new("dear").unwrap(), Name::new("cheap").unwrap());
        all.take(&dear, AT_ONCE - 1, now);
        all.take(&cheap, 100, now);
        assert_eq!((all.wait_ms(&dear, now), all.wait_ms(&cheap, now)), (None, None));
        all.take(&dear, 10_000_001, now);
        assert_eq!((all.wait_ms(&dear, now), all.wait_ms(&cheap, now)), (Some(10_000), None));
        assert_eq!(all.wait_ms(&dear, now.plus(9_500)), Some(SHORTEST_MS));
        assert_eq!(all.wait_ms(&dear, now.plus(10_001)), None);
        assert_eq!(all.wait_ms(&dear, now.plus(-5_000)), Some(10_000), "time was set back");
    }
}
