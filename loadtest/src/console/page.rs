//! How soon a page of the console came, of all the times that it was asked for.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The time limit of one page.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PageReport {
    pub(crate) path: String,
    pub(crate) bytes: usize,
    pub(crate) first_ms: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p95_ms: f64,
    pub(crate) max_ms: f64,
}

impl PageReport {
    /// Builds the report from the times in the order of the requests.
    pub(super) fn new(path: String, bytes: usize, mut took_ms: Vec<f64>) -> Self {
        let first_ms = took_ms.first().copied().unwrap_or(0.0);
        took_ms.sort_by(f64::total_cmp);
        // The nearest rank: of few it is the last.
        let at = |percent: usize| {
            let rank = (took_ms.len() * percent).div_ceil(100).max(1);
            took_ms.get(rank - 1).copied().unwrap_or(0.0)
        };
        Self { path, bytes, first_ms, p50_ms: at(50), p95_ms: at(95), max_ms: at(100) }
    }
}
