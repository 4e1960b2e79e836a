//! Step 6, afterwards: what was handed over leaves the hot set. Nobody waits for it where the hot set is a server: the
//! store refuses whoever comes with the old fence, and what is still there after a crash is offered and refused.

use crate::core::Core;
use parking_lot::Mutex;
use punctual_domain::place::Partition;
use std::{mem, sync::Arc, time::Duration};

type Settled = (Partition, i64, i64);

/// With so many in one call, the next one waits a moment for more: a call for a few costs as much as one for many.
const MANY: usize = 16;
const PAUSE: Duration = Duration::from_millis(20);

/// Handed over, and still in the hot set. What comes while a call is under way goes with the next one.
#[derive(Debug, Default)]
pub(crate) struct Settling(Mutex<Pending>);

#[derive(Debug, Default)]
struct Pending {
    entries: Vec<Settled>,
    is_under_way: bool,
}

impl Settling {
    /// True: the caller is to see that they go.
    fn add(&self, settled: Vec<Settled>) -> bool {
        let mut pending = self.0.lock();
        pending.entries.extend(settled);
        !mem::replace(&mut pending.is_under_way, true)
    }

    fn take(&self) -> Vec<Settled> {
        let mut pending = self.0.lock();
        let entries = mem::take(&mut pending.entries);
        pending.is_under_way = !entries.is_empty();
        entries
    }
}

pub(crate) async fn settle(core: &Arc<Core>, settled: Vec<Settled>) {
    if core.shared.is_none() {
        return send(core, &settled).await;
    }
    if !settled.is_empty() && core.settling.add(settled) {
        let its = Arc::clone(core);
        core.detach(async move {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_takes_all_that_came_meanwhile() {
        let (it, of) = (Settling::default(), |id| vec![(Partition(0), id, 1)]);
        assert!(it.add(of(1)) && !it.add(of(2)));
        assert_eq!(it.take().len(), 2);
        assert!(!it.add(of(3)), "a call is under way");
        assert_eq!(it.take().len(), 1);
        assert!(it.take().is_empty() && it.add(of(4)), "it had ended");
    }
}
