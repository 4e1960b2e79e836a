//! Ends retention: succeeded tasks become stopped, other finished tasks are deleted. In bounded batches. In
//! each database one engine does it for all.

use crate::{core::Core, options::STEP_LIMIT, parts};
use punctual_contract::Error;
use punctual_domain::time::Millis;
use std::sync::Arc;

/// Batches in one run; the rest waits for the next run, so that it never crowds out new work.
const BATCHES: usize = 10;

/// Tasks stopped or deleted.
pub(crate) async fn run_once(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    parts::each(core, "retention", parts::PATIENCE, move |core, part| run_in(core, part, now)).await
}

async fn run_in(core: Arc<Core>, part: usize, now: Millis) -> Result<usize, Error> {
    if !core.leads_in(part) {
        return Ok(0);
    }
    let (mut touched, stopped_until) = (0, now.plus(core.options.keep_stopped_ms));
    for _ in 0..BATCHES {
        let retired = core.store.retire_in(part, now, stopped_until, STEP_LIMIT).await?;
        let count = retired.stopped + retired.deleted;
        touched += count;
        // A batch may be empty only because its search is bounded.
        if count == 0 && !retired.has_more {
            break;
        }
    }
    Ok(touched)
}
