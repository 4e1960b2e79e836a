//! What this engine has delivered, for metrics. Counts from the beginning of the process.

use parking_lot::Mutex;
use std::time::Duration;

/// Upper bounds of the times of deliveries.
pub const DELIVERY_BOUNDS_MS: [i64; 10] = [5, 20, 50, 100, 250, 500, 1_000, 5_000, 15_000, 60_000];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryResult {
    Succeeded,
    Accepted,
    Failed,
    Rejected,
    Gone,
    /// The engine stopped before the answer.
    Postponed,
}

impl DeliveryResult {
    pub const ALL: [Self; 6] =
        [Self::Succeeded, Self::Accepted, Self::Failed, Self::Rejected, Self::Gone, Self::Postponed];

    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Accepted => "accepted",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
            Self::Gone => "gone",
            Self::Postponed => "postponed",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryNumbers {
    by_result: [u64; DeliveryResult::ALL.len()],
    /// Deliveries by time: one for each bound, and those beyond the last.
    pub times: [u64; DELIVERY_BOUNDS_MS.len() + 1],
    pub time_sum_us: u64,
    /// Deliveries that wait for an answer or for the record of their outcome.
    pub in_flight: usize,
    /// Hosts to which nothing is delivered now because they do not answer.
    pub hosts_held_back: usize,
}

impl DeliveryNumbers {
    #[must_use]
    pub fn of(&self, result: DeliveryResult) -> u64 {
        let at = DeliveryResult::ALL.iter().position(|one| *one == result);
        at.and_then(|at| self.by_result.get(at)).copied().unwrap_or(0)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Numbers(Mutex<DeliveryNumbers>);

impl Numbers {
    pub(crate) fn delivered(&self, result: DeliveryResult, took: Duration) {
        let mut numbers = self.0.lock();
        let at = DeliveryResult::ALL.iter().position(|one| *one == result);
        if let Some(count) = at.and_then(|at| numbers.by_result.get_mut(at)) {
            *count += 1;
        }
        let took_ms = i64::try_from(took.as_millis()).unwrap_or(i64::MAX);
        let bound = DELIVERY_BOUNDS_MS.iter().position(|bound| took_ms <= *bound);
        if let Some(count) = numbers.times.get_mut(bound.unwrap_or(DELIVERY_BOUNDS_MS.len())) {
            *count += 1;
        }
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        numbers.time_sum_us = numbers.time_sum_us.saturating_add(took_us);
    }

    pub(crate) fn read(&self) -> DeliveryNumbers {
        self.0.lock().clone()
    }
}
