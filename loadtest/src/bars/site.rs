//! The state that all rows share: the server's binary, and the bare parts of this machine, measured again when they
//! are old. Must not know a row.

use crate::{
    clock::now_us,
    parts::{self, PartsOptions, PartsReport},
    progress::note,
};
use std::path::PathBuf;

/// The bare parts are measured again when they are older: a machine changes from minute to minute.
const PARTS_AGE_MAX_US: i64 = 240_000_000;
const PARTS_MEASURED_MS: i64 = 4_000;
/// CPU of the bare pipeline a task on the day on which the bars in milliseconds were set.
const US_OF_THAT_DAY: f64 = 23.0;

/// The state that all rows share.
pub(super) struct BarsSite {
    pub(super) server_bin: Option<PathBuf>,
    pub(super) pending: usize,
    /// Each measurement with its instant.
    pub(super) parts: Vec<(i64, PartsReport)>,
}

impl BarsSite {
    /// The measured parts, not older than a few minutes.
    pub(super) async fn parts(&mut self) -> anyhow::Result<PartsReport> {
        if let Some((at_us, parts)) = self.parts.last()
            && now_us() < at_us + PARTS_AGE_MAX_US
        {
            return Ok(*parts);
        }
        note("    the bare parts");
        let parts = parts::parts(&PartsOptions { measure: PARTS_MEASURED_MS, json: false }).await?;
        let (tasks_per_s, us) = (parts.pipeline.tasks_per_s, parts.pipeline.us());
        note(&format!("    {tasks_per_s:.0} tasks/s, {us:.0} us of CPU a task"));
        self.parts.push((now_us(), parts));
        Ok(parts)
    }

    /// The factor by which this machine is slower than the one of the bars in milliseconds; never less than one.
    pub(super) async fn slowness(&mut self) -> anyhow::Result<f64> {
        Ok((self.parts().await?.pipeline.us() / US_OF_THAT_DAY).max(1.0))
    }
}
