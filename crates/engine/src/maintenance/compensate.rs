//! Retries tasks that could not be sent. Its memory is not essential: the refill, and the scan of a partition that
//! was just taken over, show every `dispatch_failed` task to `Unsent`, so a crash costs one more check. Never sends
//! anything itself: tasks that are due again are loaded, fired and published as for the first time.

pub(crate) mod state;

use crate::{
    core::Core,
    options::STEP_LIMIT,
    pipeline::{fire, intake},
};
use punctual_contract::Error;
use punctual_domain::{place::Partition, time::Millis};
use std::sync::Arc;

/// Brings unsent tasks back, at most `compensate_max` in a run. Returns their number.
pub(crate) async fn run_once(core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
    let is_mine = |partition: Partition| core.holdings.tenure(partition).is_some();
    let back = core.maintenance.unsent.take_due(now, core.options.compensate_max, is_mine);
    if back.is_empty() {
        return Ok(0);
    }
    let (mut loaded, mut result) = (0, Ok(()));
    for chunk in back.chunks(STEP_LIMIT) {
        match intake::load(core, chunk.to_vec()).await {
            Ok(_) => {
                core.meters.compensated(chunk.len());
                loaded += chunk.len();
            }
            // The other chunks are tried nevertheless.
            Err(error) => {
                core.maintenance.unsent.still_here(chunk, now);
                result = Err(error);
            }
        }
    }
    fire::fire_all(core).await;
    result.map(|()| loaded)
}
