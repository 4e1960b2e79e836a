//! Insert rates of namespaces and of the installation: token buckets of this engine. With several engines each grants its share
//! of the rate. Together they never exceed the rate, and no insert asks a server; a caller that uses one engine gets only that
//! engine's share. Decides nothing about an accepted task.

pub(crate) mod state;

use crate::{caps::state::Refused, core::Core};
use punctual_domain::task::NewTask;

/// Refuses tasks that exceed their rate, among those that are not refused already.
pub(crate) fn keep_slow(core: &Core, tasks: &[NewTask], refused: &mut [Option<Refused>]) {
    let known = core.settings.known();
    if !known.has_quotas() {
        return;
    }
    let engines = u32::try_from(core.holdings.live().len()).unwrap_or(u32::MAX);
    let now = core.now();
    for (task, refused) in tasks.iter().zip(refused).filter(|pair| pair.1.is_none()) {
        let too_fast = core.limits.quotas.take(&known, &task.queue.namespace, engines, now).err();
        *refused = too_fast.map(Refused::TooFast);
    }
}
