//! Step 6, afterwards: what was handed over leaves the hot set. Nobody waits for it where the hot set is a server: the
//! store refuses whoever comes with the old fence, and what is still there after a crash is offered and refused.

pub(crate) mod state;

use crate::core::Core;
use state::Settled;
use std::{sync::Arc, time::Duration};

/// With so many in one call, the next one waits a moment for more: a call for a few costs as much as one for many.
const MANY: usize = 16;
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) async fn settle(core: &Arc<Core>, settled: Vec<Settled>) {
    if core.shared.is_none() {
        return send(core, &settled).await;
    }
    if !settled.is_empty() && core.settling.add(settled) {
        let its = Arc::clone(core);
        core.work.detach(async move {
            loop {
                let entries = its.settling.take();
                if entries.is_empty() {
                    return;
                }
                send(&its, &entries).await;
                if entries.len() >= MANY {
                    tokio::time::sleep(PAUSE).await;
                }
            }
        });
    }
}

async fn send(core: &Core, settled: &[Settled]) {
    if let Err(error) = core.hot.settle(settled).await {
        tracing::warn!(%error, "handed-over tasks stay in the hot set; the store will refuse them");
    }
}
