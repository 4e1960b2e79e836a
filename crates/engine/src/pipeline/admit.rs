//! Step 5, admission: which of the fired tasks go now.

use crate::core::Core;
use hashbrown::HashMap;
use punctual_contract::{Error, hot::HotEntry};
use punctual_domain::{name::QueueKey, settings::Retries};
use std::sync::Arc;

/// Puts fired tasks into the ready sets, those that are tried again to where their queue wants them.
pub(crate) async fn offer(core: &Core, entries: Vec<HotEntry>) -> Result<(), Error> {
    let mut plain = Vec::with_capacity(entries.len());
    let mut others: HashMap<Arc<QueueKey>, (Retries, Vec<HotEntry>)> = HashMap::new();
    for it in entries {
        if it.attempt == 0 {
            plain.push(it);
            continue;
        }
        let of_queue = others.entry(Arc::clone(&it.queue));
        of_queue.or_insert_with(|| (core.settings.queue(&it.queue).retries, Vec::new())).1.push(it);
    }
    for (_, (retries, entries)) in others {
        if retries == Retries::default() {
            plain.extend(entries);
        } else {
            core.hot.offer(entries, retries).await?;
        }
    }
    if plain.is_empty() {
        return Ok(());
    }
    core.hot.offer(plain, Retries::default()).await
}
