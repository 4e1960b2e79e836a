//! The inserted tasks: of five queues, each with the behaviour of its handler and a possible cancel or move by a
//! caller, decided by the seed when it is made. Must not know the result of any.

use serde_json::{Value, json};

/// Each with executors of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    Plain,
    /// At most `CONCURRENCY` of these run at one time.
    Limited,
    /// These have five priorities.
    Ranked,
    /// Handlers that fail at first, some at every attempt.
    Failing,
    /// One attempt each, and a handler that succeeds.
    Once,
}

pub(crate) const LANES: [Lane; 5] = [Lane::Plain, Lane::Limited, Lane::Ranked, Lane::Failing, Lane::Once];
pub(crate) const CONCURRENCY: usize = 6;
/// The pause between two attempts.
pub(crate) const RETRY_MS: i64 = 300;
/// The number of attempts of tasks that nothing but a fault makes fail.
const ATTEMPTS_MANY: u32 = 100;
const ATTEMPTS_FAILING: u32 = 6;

impl Lane {
    pub(crate) const fn queue(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Limited => "limited",
            Self::Ranked => "ranked",
            Self::Failing => "failing",
            Self::Once => "once",
        }
    }
}

/// The form of a task's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskDue {
    AtMs(i64),
    AfterMs(i64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskChange {
    Cancel,
    /// The task moves to this time after the change.
    Move {
        by_ms: i64,
    },
}

/// The planned change of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlannedChange {
    pub(crate) wish: TaskChange,
    /// The instant between its insert and its time, in thousandths; beyond 1000 in milliseconds after its time.
    pub(crate) at: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spec {
    pub(crate) lane: Lane,
    pub(crate) due: TaskDue,
    pub(crate) priority: u8,
    pub(crate) max_attempts: u32,
    /// Attempts that its handler fails before one succeeds.
    pub(crate) fails: u32,
    pub(crate) work_ms: u64,
    pub(crate) change: Option<PlannedChange>,
}

#[derive(Debug)]
pub(crate) struct Maker {
    random: fastrand::Rng,
    /// The latest due time of a task.
    until_ms: i64,
}

impl Maker {
    pub(crate) fn new(seed: u64, until_ms: i64) -> Self {
        Self { random: fastrand::Rng::with_seed(seed), until_ms }
    }

    /// Extends the latest due time.
    pub(crate) fn due_until(&mut self, until_ms: i64) {
        self.until_ms = self.until_ms.max(until_ms);
    }

    /// Inserted now.
    pub(crate) fn next(&mut self, now_ms: i64) -> Spec {
        let random = &mut self.random;
        let lane = match random.u8(..100) {
            0..35 => Lane::Plain,
            35..50 => Lane::Limited,
            50..65 => Lane::Ranked,
            65..80 => Lane::Failing,
            _ => Lane::Once,
        };
        let longest_ms = (self.until_ms - now_ms).max(0);
        let delay_ms = match random.u8(..100) {
            0..10 => 0,
            10..65 => random.i64(0..3_000),
            65..90 => random.i64(3_000..30_000),
            _ => random.i64(30_000..300_000),
        };
        let delay_ms = if delay_ms > longest_ms { random.i64(0..=longest_ms) } else { delay_ms };
        let due = if random.bool() { TaskDue::AtMs(now_ms + delay_ms) } else { TaskDue::AfterMs(delay_ms) };
        let is_doomed = lane == Lane::Failing && random.u8(..100) < 5;
        let wish = match random.u8(..100) {
            0..5 => Some(TaskChange::Cancel),
            5..10 => Some(TaskChange::Move { by_ms: random.i64(0..5_000) }),
            _ => None,
        };
        // Half of them as close to its time as one can come.
        let at = if random.bool() { random.i64(0..1_000) } else { 980 + random.i64(0..50) };
        Spec {
            lane,
            due,
            priority: if lane == Lane::Ranked { random.u8(1..=5) } else { 3 },
            max_attempts: match lane {
                Lane::Once => 1,
                Lane::Failing if is_doomed => 2,
                Lane::Failing => ATTEMPTS_FAILING,
                _ => ATTEMPTS_MANY,
            },
            fails: match lane {
                Lane::Failing if is_doomed => u32::MAX,
                Lane::Failing => random.u32(0..3),
                _ => 0,
            },
            work_ms: if random.u8(..100) < 3 { random.u64(100..1_500) } else { random.u64(0..60) },
            change: wish.map(|wish| PlannedChange { wish, at }),
        }
    }
}

impl Spec {
    /// The body of its insert.
    pub(crate) fn body(&self, n: usize, task_id: i64) -> Value {
        let mut body = json!({
            "queue": self.lane.queue(),
            "kind": "chaos",
            "task_id": task_id,
            "priority": self.priority,
            "max_attempts": self.max_attempts,
            "retry": {"strategy": "fixed", "delay_ms": RETRY_MS},
            "payload": {"n": n},
        });
        let (name, ms) = match self.due {
            TaskDue::AtMs(at_ms) => ("execute_at_ms", at_ms),
            TaskDue::AfterMs(delay_ms) => ("delay_ms", delay_ms),
        };
        if let Some(fields) = body.as_object_mut() {
            fields.insert(name.to_owned(), ms.into());
        }
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_kind_comes_and_none_is_due_after_the_end() {
        let mut maker = Maker::new(1, 100_000);
        let all: Vec<Spec> = (0..2_000).map(|_| maker.next(50_000)).collect();
        assert_eq!(all.iter().map(|spec| spec.lane).collect::<HashSet<_>>().len(), LANES.len());
        for spec in &all {
            let due_ms = match spec.due {
                TaskDue::AtMs(at_ms) => at_ms,
                TaskDue::AfterMs(delay_ms) => 50_000 + delay_ms,
            };
            assert!((50_000..=100_000).contains(&due_ms), "{spec:?}");
        }
        for wish in
            [|wish: &TaskChange| *wish == TaskChange::Cancel, |wish: &TaskChange| *wish != TaskChange::Cancel]
        {
            assert!(all.iter().any(|spec| spec.change.is_some_and(|change| wish(&change.wish))));
        }
        assert!(all.iter().any(|spec| spec.fails == u32::MAX));
    }

    #[test]
    fn where_the_load_goes_on_beyond_its_end_tasks_are_due_later_and_no_end_comes_sooner() {
        let mut maker = Maker::new(1, 100_000);
        for (until_ms, latest_ms) in [(90_000, 100_000), (120_000, 120_000)] {
            maker.due_until(until_ms);
            let delay_ms = |due| match due {
                TaskDue::AtMs(at_ms) => at_ms - 95_000,
                TaskDue::AfterMs(delay_ms) => delay_ms,
            };
            let longest_ms = (0..2_000).map(|_| delay_ms(maker.next(95_000).due)).max().unwrap();
            assert!((latest_ms - 95_000 - 1_000..=latest_ms - 95_000).contains(&longest_ms), "{longest_ms}");
        }
    }

    #[test]
    fn its_time_is_said_one_way() {
        let mut maker = Maker::new(1, 100_000);
        let mut spec = maker.next(0);
        spec.due = TaskDue::AfterMs(5);
        let body = spec.body(3, 1_003);
        assert_eq!((&body["delay_ms"], &body["execute_at_ms"]), (&5.into(), &Value::Null));
        assert_eq!((&body["task_id"], &body["payload"]["n"]), (&1_003.into(), &3.into()));
    }
}
