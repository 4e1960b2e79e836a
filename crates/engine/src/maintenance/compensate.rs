//! Brings back what could not be sent. Nothing rests on what is remembered here: the refill and the look through a partition
//! that was just taken over see every task that is `dispatch_failed` and show it to `Unsent`, so that a crash costs one more look.
//! Never sends anything itself: what comes back is loaded, fired and published as for the first time.

pub(crate) mod state;

use crate::{
    core::Core,
    options::STEP_LIMIT,
    pipeline::{fire, intake},
};
use punctual_contract::Error;
use punctual_domain::{place::Partition, time::Millis};
use std::sync::Arc;

/// Tasks brought back. At most `compensate_max` in a run.
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
            // The others come back all the same.
            Err(error) => {
                core.maintenance.unsent.still_here(chunk, now);
                result = Err(error);
            }
        }
    }
    fire::fire_all(core).await;
    result.map(|()| loaded)
}
