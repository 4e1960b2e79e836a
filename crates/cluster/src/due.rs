//! The number of tasks that become due in each minute of the next hour. Tasks are spread over partitions by their
//! ids, so a few partitions are representative. They are counted one after the other until a limit of rows is
//! reached, and the result is extrapolated. It is cached, so frequent requests cost nothing. A separate task counts:
//! callers get the last result meanwhile, and a caller that disconnects does not end the count.

use crate::{counts::STEP_MS, watcher::WatcherCore};
use punctual_contract::{
    Error,
    cluster::{DueCounts, DueLook},
};
use punctual_domain::{place::Partition, time::Millis};
use std::{
    sync::{
        Arc,
        atomic::{
            AtomicBool,
            Ordering::{AcqRel, Release},
        },
    },
    time::Duration,
};
use tokio::{sync::watch, time::timeout};
use tokio_util::task::TaskTracker;

/// Minutes ahead.
const STEPS: usize = 60;
/// The time after which no partition is begun.
const LONGEST_MS: i64 = 3_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// The instant of the count; the first minute begins here.
    pub at: Millis,
    pub step_ms: i64,
    /// Tasks by minute, or `None` if earlier minutes had too many tasks to count this one.
    pub steps: Vec<Option<u64>>,
    pub partitions: usize,
    pub partitions_counted: usize,
}

impl Due {
    /// True if not all partitions were counted.
    #[must_use]
    pub const fn is_estimate(&self) -> bool {
        self.partitions_counted < self.partitions
    }
}

/// While a new count runs, the last one is returned up to this multiple of the allowed age.
const REPORTED_TIMES: i64 = 4;
/// The maximum wait of a caller for the first count.
const WITHIN: Duration = Duration::from_secs(20);

/// The last count.
#[derive(Debug)]
pub(crate) struct DueCache {
    last: watch::Sender<Option<Result<Due, Error>>>,
    is_counting: AtomicBool,
    counts: TaskTracker,
}

impl Default for DueCache {
    fn default() -> Self {
        Self { last: watch::channel(None).0, is_counting: AtomicBool::new(false), counts: TaskTracker::new() }
    }
}

/// Also where counting panics.
struct Counting<'a>(&'a AtomicBool);

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        self.0.store(false, Release);
    }
}

/// The running count.
#[derive(Debug)]
struct Sum {
    steps: [u64; STEPS],
    /// Steps that were read in every counted partition.
    reached: usize,
    counted: usize,
    left: usize,
}

impl Sum {
    const fn new(limit: usize) -> Self {
        Self { steps: [0; STEPS], reached: STEPS, counted: 0, left: limit }
    }

    /// A count that was cut short covers only the first steps, and is used only if it is the first.
    fn add(&mut self, counts: &DueCounts) {
        let passed: u64 = counts.steps.iter().map(|step| step.1).sum();
        self.left = self.left.saturating_sub(usize::try_from(passed).unwrap_or(usize::MAX));
        if counts.is_cut {
            self.left = 0;
            if self.counted > 0 {
                return;
            }
            let last = counts.steps.iter().map(|step| step.0).max().unwrap_or(0);
            self.reached = self.reached.min(last);
        }
        self.counted += 1;
        for (step, tasks) in &counts.steps {
            if let Some(sum) = self.steps.get_mut(*step) {
                *sum += tasks;
            }
        }
    }

    fn steps(&self, partitions: usize) -> Vec<Option<u64>> {
        let (all, counted) = (as_u128(partitions), as_u128(self.counted.max(1)));
        let scaled =
            |tasks: u64| u64::try_from((u128::from(tasks) * all + counted / 2) / counted).unwrap_or(u64::MAX);
        let known = |nth: usize| self.counted > 0 && nth < self.reached;
        self.steps.iter().enumerate().map(|(nth, tasks)| known(nth).then(|| scaled(*tasks))).collect()
    }
}

fn as_u128(number: usize) -> u128 {
    u128::try_from(number).unwrap_or(u128::MAX)
}

/// All partitions in an order in which neighbours are far apart, so that databases mostly alternate.
fn spread(partitions: u16) -> impl Iterator<Item = Partition> {
    let count = u32::from(partitions.max(1));
    // Odd and near the golden section: a step that meets each of a power of two once; other counts are walked in order.
    let step = if count.is_power_of_two() { (count * 5 / 8) | 1 } else { 1 };
    (0..u32::from(partitions)).map(move |nth| Partition(u16::try_from(nth * step % count).unwrap_or(0)))
}

impl crate::Watcher {
    /// The last count, as of a short while ago.
    ///
    /// # Errors
    /// When no partition can be counted.
    pub async fn due(&self) -> Result<Due, Error> {
        let inner = &self.inner;
        let mut reported = inner.due.last.subscribe();
        let last = reported.borrow_and_update().clone();
        let now = inner.engine.now();
        let age_ms = |due: &Due| now.since(due.at).abs();
        if !matches!(&last, Some(Ok(due)) if age_ms(due) < inner.options.cached_ms) {
            begin(inner);
        }
        if let Some(Ok(due)) = last
            && age_ms(&due) < inner.options.cached_ms.saturating_mul(REPORTED_TIMES)
        {
            return Ok(due);
        }
        let silent = || Error::did_not_happen("count what falls due", "no answer");
        if !matches!(timeout(WITHIN, reported.changed()).await, Ok(Ok(()))) {
            return Err(silent());
        }
        reported.borrow().clone().unwrap_or_else(|| Err(silent()))
    }
}

/// Counts, unless that is being done.
fn begin(inner: &Arc<WatcherCore>) {
    if inner.due.is_counting.swap(true, AcqRel) {
        return;
    }
    let counted = Arc::clone(inner);
    inner.due.counts.spawn(async move {
        let due = {
            let _counting = Counting(&counted.due.is_counting);
            count(&counted, counted.engine.now()).await
        };
        // A caller from here on starts a new count; one that found this count running gets its result.
        counted.due.last.send_replace(Some(due));
    });
}

async fn count(inner: &WatcherCore, now: Millis) -> Result<Due, Error> {
    let partitions = inner.engine.store().partitions();
    let until = now.plus(STEP_MS * i64::try_from(STEPS).unwrap_or(0));
    let (mut sum, mut failed) = (Sum::new(inner.options.due_looks_max.max(1)), None);
    for partition in spread(partitions) {
        if sum.left == 0 || inner.engine.now().since(now) > LONGEST_MS {
            break;
        }
        let look = DueLook { partition, from: now, until, step_ms: STEP_MS, limit: sum.left };
        match inner.store.due_counts(look).await {
            Ok(counts) => sum.add(&counts),
            // A database that is unavailable: the others are representative.
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) if sum.counted == 0 => Err(error),
        _ => Ok(Due {
            at: now,
            step_ms: STEP_MS,
            steps: sum.steps(usize::from(partitions)),
            partitions: usize::from(partitions),
            partitions_counted: sum.counted,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn counts(steps: &[(usize, u64)], is_cut: bool) -> DueCounts {
        DueCounts { steps: steps.to_vec(), is_cut }
    }

    #[test]
    fn every_partition_is_met_once() {
        for partitions in [1, 2, 4, 7, 64, 100, 1_024] {
            let met: BTreeSet<Partition> = spread(partitions).collect();
            assert_eq!(met.len(), usize::from(partitions));
        }
        assert_ne!(spread(64).nth(1), Some(Partition(1)));
    }

    #[test]
    fn what_was_counted_stands_for_the_rest() {
        let mut sum = Sum::new(1_000);
        sum.add(&counts(&[(0, 10), (59, 1)], false));
        sum.add(&counts(&[(0, 20)], false));
        assert_eq!(sum.left, 969);
        let steps = sum.steps(4);
        assert_eq!((steps.len(), steps[0], steps[1], steps[59]), (60, Some(60), Some(0), Some(2)));
        assert_eq!(sum.steps(2)[0], Some(30), "all were counted: no estimate");
    }

    #[test]
    fn what_lies_behind_a_crowd_is_not_said_to_be_nothing() {
        let mut sum = Sum::new(100);
        sum.add(&counts(&[(0, 50), (1, 50)], true));
        let steps = sum.steps(1);
        assert_eq!((sum.left, steps[0], steps[1], steps[59]), (0, Some(50), None, None));
        let mut later = Sum::new(100);
        later.add(&counts(&[(0, 5)], false));
        later.add(&counts(&[(0, 95)], true));
        assert_eq!((later.counted, later.steps(2)[0], later.steps(2)[59]), (1, Some(10), Some(0)));
    }

    #[test]
    fn nothing_counted_says_nothing() {
        assert!(Sum::new(1).steps(4).iter().all(Option::is_none));
    }
}
