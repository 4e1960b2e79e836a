//! Ends retention: successes become stopped, other finished tasks are forgotten. In bounded batches. One engine does it for all.

use crate::{core::Core, options::STEP_LIMIT};
use punctual_contract::Error;
use punctual_domain::time::Millis;

/// Batches in one run: what is left waits for the next, so that it never crowds out new work.
const BATCHES: usize = 10;

/// Tasks stopped or deleted.
pub(crate) async fn run_once(core: &Core, now: Millis) -> Result<usize, Error> {
    let mut touched = 0;
    if !core.leads() {
        return Ok(touched);
    }
    for _ in 0..BATCHES {
        let retired = core.store.retire(now, now.plus(core.options.keep_stopped_ms), STEP_LIMIT).await?;
        let count = retired.stopped + retired.deleted;
        touched += count;
        if count == 0 {
            break;
        }
    }
    Ok(touched)
}
