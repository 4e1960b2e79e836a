//! The times of the scans of queues, the progress of running scans, and the results of the last ones. Reads nothing,
//! and holds no task.

use crate::settings::LoadedSettings;
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use punctual_domain::{name::QueueKey, place::Partition, settings::QueueSettings, time::Millis};
use std::{mem, sync::Arc};
use tokio::sync::Semaphore;

/// Scans of a queue that fail so often in a row are an alert.
const FAILURES_IN_A_ROW: u64 = 3;

/// The positions where a pass over due tasks continues, by partition.
pub(crate) type Positions = Mutex<HashMap<Partition, Key>>;

/// Due time and id.
pub(super) type Key = (Millis, i64);

#[derive(Debug)]
pub(crate) struct Scans {
    /// The scans by part of the store and queue.
    scans: Mutex<HashMap<(usize, Arc<QueueKey>), Scan>>,
    /// The positions of the searches for ready tasks.
    pub(super) ready_positions: Mutex<HashMap<Partition, Key>>,
    /// The permits of manual scans.
    pub(super) manual: Arc<Semaphore>,
    /// The instant at which partitions are scanned again.
    fills_again_at: Mutex<Option<Millis>>,
    /// The scanned queues, as of the last check of the settings.
    scanned: Mutex<Vec<Arc<QueueKey>>>,
}

impl Default for Scans {
    fn default() -> Self {
        let (scans, ready_positions, fills_again_at, scanned) = Default::default();
        Self { scans, ready_positions, manual: Arc::new(Semaphore::new(1)), fills_again_at, scanned }
    }
}

/// The scan of one queue in one part of the store.
#[derive(Debug, Default)]
struct Scan {
    /// The beginning of the last scan that has ended.
    last_at: Option<Millis>,
    under_way: Option<Round>,
    failures_in_a_row: u64,
    error: Option<String>,
    /// Due time of the oldest task that the last one could not write.
    oldest_failed: Option<Millis>,
}

/// One scan.
#[derive(Debug)]
pub(crate) struct Round {
    pub(super) began_at: Millis,
    /// Up to where all partitions were read. `None` if it is at its beginning.
    pub(super) after: Option<Key>,
    /// These could not be read.
    pub(super) failed: HashSet<Partition>,
    pub(super) report: ScanCounts,
    /// A read has not been answered in time.
    pub(super) is_silent: bool,
    /// The last failure.
    pub(super) error: Option<String>,
    pub(super) oldest_failed: Option<Millis>,
}

/// The counts of one scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScanCounts {
    pub(crate) found: usize,
    pub(crate) handed_over: usize,
    pub(crate) failed: usize,
}

/// The problem of a queue's scans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) queue: Arc<QueueKey>,
    /// The number of consecutive failures, if it is high, and the last error.
    pub(crate) failing: Option<(u64, String)>,
    pub(crate) oldest_failed: Option<Millis>,
}

impl Round {
    pub(super) fn new(began_at: Millis) -> Self {
        let (after, failed, report, is_silent, error, oldest_failed) = Default::default();
        Self { began_at, after, failed, report, is_silent, error, oldest_failed }
    }
}

impl Scans {
    /// The scan to continue or to begin.
    pub(super) fn begin(
        &self,
        part: usize,
        queue: &Arc<QueueKey>,
        settings: &QueueSettings,
        now: Millis,
    ) -> Option<Round> {
        let mut scans = self.scans.lock();
        let scan = scans.entry((part, Arc::clone(queue))).or_default();
        let interval_ms = settings.scan_interval_ms();
        let turn = |at: Millis| turn(queue, interval_ms, at);
        let is_due = || scan.last_at.is_none_or(|last_at| turn(last_at) != turn(now));
        scan.under_way.take().or_else(|| is_due().then(|| Round::new(now)))
    }

    pub(super) fn end(&self, part: usize, queue: &Arc<QueueKey>, round: Round, is_over: bool) {
        let mut scans = self.scans.lock();
        let Some(scan) = scans.get_mut(&(part, Arc::clone(queue))) else { return };
        if !is_over {
            scan.under_way = Some(round);
            return;
        }
        scan.last_at = Some(round.began_at);
        scan.failures_in_a_row = if round.error.is_some() { scan.failures_in_a_row + 1 } else { 0 };
        (scan.error, scan.oldest_failed) = (round.error, round.oldest_failed);
    }

    /// Queues that were scanned at the last check and no longer are; they are removed here.
    pub(super) fn no_more(&self, known: &LoadedSettings) -> Vec<Arc<QueueKey>> {
        let mut scanned = self.scanned.lock();
        if *scanned == known.scanned {
            return Vec::new();
        }
        let before = mem::replace(&mut *scanned, known.scanned.clone());
        drop(scanned);
        self.scans.lock().retain(|(_, queue), _| known.is_scanned(queue));
        before.into_iter().filter(|queue| !known.is_scanned(queue)).collect()
    }

    pub(super) fn fill_again_at(&self, at: Millis) {
        *self.fills_again_at.lock() = Some(at);
    }

    pub(super) fn is_to_fill_again(&self) -> bool {
        self.fills_again_at.lock().is_some()
    }

    /// Once, when it is time.
    pub(super) fn fills_again(&self, now: Millis) -> bool {
        self.fills_again_at.lock().take_if(|at| *at <= now).is_some()
    }

    pub(crate) fn troubles(&self) -> Vec<Trouble> {
        let scans = self.scans.lock();
        let trouble = |((_, queue), scan): (&(usize, Arc<QueueKey>), &Scan)| {
            let failing = scan.error.clone().filter(|_| scan.failures_in_a_row >= FAILURES_IN_A_ROW);
            let trouble = Trouble {
                queue: Arc::clone(queue),
                failing: failing.map(|error| (scan.failures_in_a_row, error)),
                oldest_failed: scan.oldest_failed,
            };
            (trouble.failing.is_some() || trouble.oldest_failed.is_some()).then_some(trouble)
        };
        scans.iter().filter_map(trouble).collect()
    }
}

/// The shift of a queue's scans, so that those of many queues do not begin at one instant. It is the same at all
/// engines.
fn shift_ms(queue: &QueueKey, interval_ms: i64) -> i64 {
    let names = queue.namespace.as_str().bytes().chain([0]).chain(queue.queue.as_str().bytes());
    let sum = names.fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    i64::from(sum).rem_euclid(interval_ms.max(1))
}

/// The number of the interval that contains an instant.
fn turn(queue: &QueueKey, interval_ms: i64, at: Millis) -> i64 {
    (at.0 - shift_ms(queue, interval_ms)).div_euclid(interval_ms.max(1))
}

/// The beginning of the next scan after an instant.
pub(crate) fn next_scan_at(queue: &QueueKey, interval_ms: i64, now: Millis) -> Millis {
    let interval_ms = interval_ms.max(1);
    Millis((turn(queue, interval_ms, now) + 1) * interval_ms + shift_ms(queue, interval_ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::drain::tests::entry;
    use punctual_domain::settings::Source;

    fn settings(interval_ms: i64) -> QueueSettings {
        QueueSettings {
            source: Some(Source::Store),
            scan_interval_ms: Some(interval_ms),
            ..QueueSettings::default()
        }
    }

    #[test]
    fn a_queue_is_scanned_once_an_interval_at_instants_that_all_engines_compute_alike() {
        let (queue, settings) = (entry(1, 1).queue, settings(1_000));
        let (one, other) = (Scans::default(), Scans::default());
        let next = next_scan_at(&queue, 1_000, Millis(50_000));
        assert!((50_001..=51_000).contains(&next.0));
        for scans in [&one, &other] {
            let round = scans.begin(0, &queue, &settings, Millis(50_000)).expect("the first, at once");
            scans.end(0, &queue, round, true);
            assert!(scans.begin(0, &queue, &settings, next.plus(-1)).is_none());
            assert!(scans.begin(0, &queue, &settings, next).is_some());
        }
    }

    #[test]
    fn a_scan_that_is_not_at_its_end_goes_on_and_one_that_is_lost_begins_anew() {
        let (queue, settings, scans) = (entry(1, 1).queue, settings(3_600_000), Scans::default());
        let mut round = scans.begin(0, &queue, &settings, Millis(1)).unwrap();
        round.after = Some((Millis(7), 7));
        scans.end(0, &queue, round, false);
        let round = scans.begin(0, &queue, &settings, Millis(2)).unwrap();
        assert_eq!((round.after, round.began_at), (Some((Millis(7), 7)), Millis(1)));
        drop(round);
        assert_eq!(scans.begin(0, &queue, &settings, Millis(3)).unwrap().after, None);
    }

    #[test]
    fn three_failures_in_a_row_are_trouble_and_one_success_ends_it() {
        let (queue, settings, scans) = (entry(1, 1).queue, settings(1), Scans::default());
        for nth in 1..=4_i64 {
            let mut round = scans.begin(0, &queue, &settings, Millis(nth)).unwrap();
            round.error = Some("away".to_owned());
            scans.end(0, &queue, round, true);
            assert_eq!(scans.troubles().len(), usize::from(nth >= 3), "after {nth}");
        }
        assert_eq!(scans.troubles()[0].failing, Some((4, "away".to_owned())));
        let round = scans.begin(0, &queue, &settings, Millis(9)).unwrap();
        scans.end(0, &queue, round, true);
        assert_eq!(scans.troubles(), []);
    }
}
