//! Executors as they describe themselves, and the states that their operator sets. Which executor has a task
//! is never decided here: leases in the store decide that.

use crate::{name::Name, place::TaskRef, time::Millis};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of leases that a profile names. `running` counts all.
pub const HOLDS_MAX: usize = 256;

/// An executor's description of itself. Omitted fields keep their earlier value, because each kind of call
/// sends a part. Stored as JSON; fields are only ever added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Profile {
    /// The version of the executor's handlers: major.minor.patch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The machine on which the executor runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Tasks it can run at one time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
    /// The maximum number of tasks that the executor holds at one time, over all engines. The limiter enforces it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// The queues that it takes tasks from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queues: Option<BTreeSet<String>>,
    /// The kinds for which the executor has handlers; empty if it accepts any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kinds: Option<BTreeSet<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// The first of the leases that its last heartbeat named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds: Option<Vec<String>>,
    /// The number of leases that the executor's last heartbeat named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<u64>,
}

impl Profile {
    /// Copies the fields of `newer`. Returns true if that changes anything.
    pub fn update(&mut self, newer: Self) -> bool {
        let before = self.clone();
        let Self { version, host, capacity, concurrency, queues, kinds, labels, holds, running } = newer;
        self.version = version.or_else(|| self.version.take());
        self.host = host.or_else(|| self.host.take());
        self.capacity = capacity.or(self.capacity);
        self.concurrency = concurrency.or(self.concurrency);
        self.queues = queues.or_else(|| self.queues.take());
        self.kinds = kinds.or_else(|| self.kinds.take());
        self.labels = labels.or_else(|| self.labels.take());
        self.holds = holds.or_else(|| self.holds.take());
        self.running = running.or(self.running);
        *self != before
    }

    /// The leases it named, as places.
    pub fn places(&self) -> impl Iterator<Item = TaskRef> {
        self.holds.iter().flatten().filter_map(|text| text.parse().ok())
    }
}

/// The state that an operator sets for an executor. It applies until it is revoked, or the executor leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DesiredState {
    #[default]
    Serve,
    /// It gets no new tasks until it may serve again.
    Quiet,
    /// It gets no new tasks; it should finish its tasks, and end.
    Drain,
}

impl DesiredState {
    pub const ALL: [Self; 3] = [Self::Serve, Self::Quiet, Self::Drain];

    /// The stored code, which is never reused.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Serve => 0,
            Self::Quiet => 1,
            Self::Drain => 2,
        }
    }

    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|desired| desired.code() == code)
    }
}

/// A heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sign {
    pub namespace: Name,
    pub name: Name,
    pub profile: Profile,
    pub at: Millis,
    /// Silent until then, it counts as dead.
    pub alive_until: Millis,
    /// A farewell: it has ended in order.
    pub leaving: bool,
}

/// The status of an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutorStatus {
    Alive,
    Quiet,
    Draining,
    /// It fell silent.
    Dead,
}

impl ExecutorStatus {
    /// The status of an executor that sends heartbeats.
    #[must_use]
    pub const fn of(desired: DesiredState) -> Self {
        match desired {
            DesiredState::Serve => Self::Alive,
            DesiredState::Quiet => Self::Quiet,
            DesiredState::Drain => Self::Draining,
        }
    }

    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Quiet => "quiet",
            Self::Draining => "draining",
            Self::Dead => "dead",
        }
    }
}

/// An executor with all known facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executor {
    pub namespace: Name,
    pub name: Name,
    pub profile: Profile,
    pub desired: DesiredState,
    pub first_seen_at: Millis,
    pub seen_at: Millis,
    pub alive_until: Millis,
}

impl Executor {
    #[must_use]
    pub fn status(&self, now: Millis) -> ExecutorStatus {
        if self.alive_until <= now { ExecutorStatus::Dead } else { ExecutorStatus::of(self.desired) }
    }
}

/// The number of executors in each status, and of those that became silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roll {
    pub alive: u64,
    pub quiet: u64,
    pub draining: u64,
    pub dead: u64,
    /// Newly found dead; each death is counted once.
    pub died: u64,
}

impl Roll {
    pub const fn count(&mut self, status: ExecutorStatus, executors: u64) {
        match status {
            ExecutorStatus::Alive => self.alive += executors,
            ExecutorStatus::Quiet => self.quiet += executors,
            ExecutorStatus::Draining => self.draining += executors,
            ExecutorStatus::Dead => self.dead += executors,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_executor_does_not_say_stays() {
        let mut known = Profile { version: Some("1.2.0".into()), capacity: Some(4), ..Profile::default() };
        assert!(!known.update(Profile::default()));
        assert!(known.update(Profile { capacity: Some(8), running: Some(0), ..Profile::default() }));
        assert_eq!(
            (known.version.as_deref(), known.capacity, known.running),
            (Some("1.2.0"), Some(8), Some(0))
        );
        assert!(!known.update(Profile { capacity: Some(8), ..Profile::default() }), "the same again");
    }

    #[test]
    fn an_executor_is_dead_from_the_instant_its_time_is_over_whatever_was_wished() {
        let name = |text| Name::new(text).unwrap();
        for (desired, alive) in [
            (DesiredState::Serve, ExecutorStatus::Alive),
            (DesiredState::Quiet, ExecutorStatus::Quiet),
            (DesiredState::Drain, ExecutorStatus::Draining),
        ] {
            let executor = Executor {
                namespace: name("n"),
                name: name("x"),
                profile: Profile::default(),
                desired,
                first_seen_at: Millis(1),
                seen_at: Millis(5),
                alive_until: Millis(10),
            };
            assert_eq!(
                (executor.status(Millis(9)), executor.status(Millis(10))),
                (alive, ExecutorStatus::Dead)
            );
            assert_eq!(DesiredState::from_code(desired.code()), Some(desired));
        }
        assert_eq!(DesiredState::from_code(3), None);
    }
}
