//! The plan of all sends and due times: fixed before the run begins, so that a slow server cannot thin out its own
//! load (coordinated omission). Pure: reads no clock; the seed decides every shuffle.

use std::ops::Range;

/// The distribution of the due times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadShape {
    /// `tasks` due evenly over a window, inserted as fast as the server takes them.
    Uniform { tasks: usize, window_ms: i64 },
    /// `rate` tasks a second, due and inserted at that rate.
    Sustained { rate: u64, duration_ms: i64 },
    /// All due at one instant, inserted as fast as the server takes them.
    Burst { tasks: usize },
}

/// When a plan begins, and in what portions it is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) start_ms: i64,
    /// The time from the start to the first due time; for a sustained load the minimum time from insert to due.
    pub(crate) ahead_ms: i64,
    /// Tasks of one insert call.
    pub(crate) batch: usize,
    pub(crate) seed: u64,
}

/// One insert call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlannedBatch {
    pub(crate) send_at_us: i64,
    pub(crate) tasks: Range<usize>,
}

/// Task `n` is the n-th to be inserted.
#[derive(Debug)]
pub(crate) struct Plan {
    due_ms: Vec<i64>,
    batches: Vec<PlannedBatch>,
    /// First and last due time.
    pub(crate) first_due_ms: i64,
    pub(crate) last_due_ms: i64,
}

/// A sustained load is shuffled within blocks of this length, so that inserts do not come in due order.
const BLOCK_MS: i64 = 1_000;

impl Plan {
    pub(crate) fn new(load: LoadShape, frame: Frame) -> Self {
        let mut random = fastrand::Rng::with_seed(frame.seed);
        let due_ms = match load {
            LoadShape::Uniform { tasks, window_ms } => uniform(tasks, window_ms, frame, &mut random),
            LoadShape::Sustained { rate, duration_ms } => sustained(rate, duration_ms, frame, &mut random),
            LoadShape::Burst { tasks } => vec![frame.start_ms + frame.ahead_ms; tasks],
        };
        let batches = batches(load, frame, due_ms.len());
        let first_due_ms = due_ms.iter().copied().min().unwrap_or(frame.start_ms);
        let last_due_ms = due_ms.iter().copied().max().unwrap_or(frame.start_ms);
        Self { due_ms, batches, first_due_ms, last_due_ms }
    }

    pub(crate) const fn len(&self) -> usize {
        self.due_ms.len()
    }

    /// Every due time, in the order of inserts.
    pub(crate) fn due_ms(&self) -> &[i64] {
        &self.due_ms
    }

    pub(crate) fn batch(&self, index: usize) -> Option<&PlannedBatch> {
        self.batches.get(index)
    }
}

fn uniform(tasks: usize, window_ms: i64, frame: Frame, random: &mut fastrand::Rng) -> Vec<i64> {
    let count = whole(tasks).max(1);
    let first = frame.start_ms + frame.ahead_ms;
    let mut due: Vec<i64> = (0..whole(tasks)).map(|n| first + scale(n, window_ms, count)).collect();
    random.shuffle(&mut due);
    due
}

fn sustained(rate: u64, duration_ms: i64, frame: Frame, random: &mut fastrand::Rng) -> Vec<i64> {
    let rate = i64::try_from(rate).unwrap_or(i64::MAX).max(1);
    let count = scale(rate, duration_ms, 1_000);
    let block_ms = BLOCK_MS.min(duration_ms);
    // One block later than the inserts: the last inserted of a block may be the first due.
    let first = frame.start_ms + block_ms + frame.ahead_ms;
    let mut due: Vec<i64> = (0..count).map(|n| first + scale(n, 1_000, rate)).collect();
    let block = usize::try_from(scale(rate, block_ms, 1_000)).unwrap_or(1).max(1);
    for part in due.chunks_mut(block) {
        random.shuffle(part);
    }
    due
}

/// The batches. A batch of a sustained load is sent when its first task must be inserted; the others at once.
fn batches(load: LoadShape, frame: Frame, tasks: usize) -> Vec<PlannedBatch> {
    let start_us = frame.start_ms * 1_000;
    let send_at_us = |first: usize| match load {
        LoadShape::Sustained { rate, .. } => {
            start_us + scale(whole(first), 1_000_000, i64::try_from(rate).unwrap_or(i64::MAX).max(1))
        }
        LoadShape::Uniform { .. } | LoadShape::Burst { .. } => start_us,
    };
    let size = frame.batch.max(1);
    (0..tasks)
        .step_by(size)
        .map(|first| PlannedBatch { send_at_us: send_at_us(first), tasks: first..(first + size).min(tasks) })
        .collect()
}

/// `value * by / over` without overflow on the way; rounds down.
fn scale(value: i64, by: i64, over: i64) -> i64 {
    i64::try_from(i128::from(value) * i128::from(by) / i128::from(over)).unwrap_or(i64::MAX)
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Frame = Frame { start_ms: 1_000_000, ahead_ms: 3_000, batch: 7, seed: 1 };

    fn sorted(plan: &Plan) -> Vec<i64> {
        let mut due = plan.due_ms().to_vec();
        due.sort_unstable();
        due
    }

    fn all_batches(plan: &Plan) -> Vec<PlannedBatch> {
        (0..).map_while(|i| plan.batch(i).cloned()).collect()
    }

    #[test]
    fn every_task_is_in_exactly_one_batch() {
        for load in [
            LoadShape::Uniform { tasks: 100, window_ms: 900 },
            LoadShape::Sustained { rate: 33, duration_ms: 3_000 },
            LoadShape::Burst { tasks: 50 },
        ] {
            let plan = Plan::new(load, FRAME);
            let sent: Vec<usize> = all_batches(&plan).into_iter().flat_map(|batch| batch.tasks).collect();
            assert_eq!(sent, (0..plan.len()).collect::<Vec<_>>(), "{load:?}");
        }
    }

    #[test]
    fn a_uniform_load_is_even_and_shuffled() {
        let plan = Plan::new(LoadShape::Uniform { tasks: 1_000, window_ms: 30_000 }, FRAME);
        let want: Vec<i64> = (0..1_000).map(|n| 1_003_000 + n * 30).collect();
        assert_eq!(sorted(&plan), want);
        assert_ne!(plan.due_ms(), want, "inserted in due order");
        assert!(all_batches(&plan).iter().all(|batch| batch.send_at_us == 1_000_000_000));
    }

    #[test]
    fn a_sustained_load_has_its_rate_in_every_second_and_omits_nothing() {
        let plan = Plan::new(LoadShape::Sustained { rate: 333, duration_ms: 10_000 }, FRAME);
        assert_eq!(plan.len(), 3_330);
        assert_eq!((plan.first_due_ms, plan.last_due_ms), (1_004_000, 1_013_996));
        for second in 0..10 {
            let from = 1_004_000 + second * 1_000;
            let due = plan.due_ms().iter().filter(|number| (from..from + 1_000).contains(*number)).count();
            assert_eq!(due, 333, "second {second}");
        }
        let batches = all_batches(&plan);
        assert!(batches.windows(2).all(|pair| pair[0].send_at_us < pair[1].send_at_us));
        assert_eq!(batches[100].send_at_us, 1_000_000_000 + 700 * 1_000_000 / 333);
    }

    #[test]
    fn a_sustained_task_is_inserted_ahead_of_its_time_by_what_was_asked_at_least() {
        for (rate, batch) in [(1, 100), (10, 1), (1_000, 7), (20_000, 500)] {
            let frame = Frame { batch, ..FRAME };
            let plan = Plan::new(LoadShape::Sustained { rate, duration_ms: 2_500 }, frame);
            for batch in all_batches(&plan) {
                for n in batch.tasks {
                    let lead_us = plan.due_ms()[n] * 1_000 - batch.send_at_us;
                    assert!(lead_us >= 3_000_000 - 1_000, "{rate}/s, task {n}: {lead_us} us");
                }
            }
        }
    }

    #[test]
    fn a_burst_is_one_instant() {
        let plan = Plan::new(LoadShape::Burst { tasks: 20 }, FRAME);
        assert!(plan.due_ms().iter().all(|number| *number == 1_003_000));
        assert_eq!((plan.len(), plan.first_due_ms, plan.last_due_ms), (20, 1_003_000, 1_003_000));
    }

    #[test]
    fn the_seed_decides_the_order() {
        let plan = |seed| {
            let frame = Frame { seed, ..FRAME };
            Plan::new(LoadShape::Uniform { tasks: 100, window_ms: 1_000 }, frame).due_ms().to_vec()
        };
        assert_eq!(plan(1), plan(1));
        assert_ne!(plan(1), plan(2));
    }
}
