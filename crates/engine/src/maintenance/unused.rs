//! Deletes objects that no row refers to: left by a crash, replaced, or of a deleted task. Checks objects
//! that are older than a day, a page in each run, in a cycle, and asks the store for each object's task. The
//! object of an existing or archived task stays. One engine does it for all. Must never delete on an error,
//! nor in a storage that is not marked as this store's: it has objects of tasks that this store has never
//! seen.

use crate::{
    core::Core,
    long_payloads::{
        self,
        key::{BlobKey, is_of_a_later_day},
    },
};
use futures_util::{StreamExt as _, stream};
use punctual_contract::Error;
use punctual_domain::{task::Task, time::Millis};

/// This long after an object was put, its row was written or never will be.
const UNUSED_AFTER_MS: i64 = 86_400_000;
/// Objects in one run.
const PAGE: usize = 500;
/// The maximum number of objects that are looked up at the same time.
const AT_ONCE: usize = 4;

/// Objects deleted.
pub(crate) async fn run_once(core: &Core, now: Millis) -> Result<usize, Error> {
    let Some(blobs) = core.blobs.as_ref().filter(|_| core.leads()) else { return Ok(0) };
    if !blobs.is_own().await? {
        tracing::error!(
            "the place of long payloads (payloads.url) is not marked as this store's; nothing there is deleted"
        );
        return Ok(0);
    }
    let after = core.maintenance.unused_after.lock().clone();
    let page = blobs.list(&after, PAGE).await?;
    let before = now.plus(-UNUSED_AFTER_MS);
    let looked_at: Vec<&String> =
        page.iter().take_while(|looked_at| !is_of_a_later_day(looked_at, before)).collect();
    let is_last = looked_at.len() < PAGE;
    let keys = looked_at.into_iter().filter_map(|text| text.parse::<BlobKey>().ok());
    let looks: Vec<_> = keys.filter(|key| key.put_at < before).map(|key| unused_one(core, key)).collect();
    let looked: Vec<Result<Option<String>, Error>> = stream::iter(looks).buffered(AT_ONCE).collect().await;
    let (mut unused, mut result) = (Vec::new(), Ok(()));
    for answer in looked {
        match answer {
            Ok(answer) => unused.extend(answer),
            // It stays until the next cycle; an unavailable database blocks no other's objects.
            Err(error) => result = Err(error),
        }
    }
    if !unused.is_empty() {
        blobs.delete(&unused).await?;
    }
    let last = page.last().filter(|_| !is_last).cloned();
    *core.maintenance.unused_after.lock() = last.unwrap_or_default();
    result.map(|()| unused.len())
}

/// Returns `None` if the object's task exists, or is archived, and refers to it.
async fn unused_one(core: &Core, key: BlobKey) -> Result<Option<String>, Error> {
    let found = core.store.versions(&key.namespace, key.task_id, Some(key.task_version), 1).await?;
    let text = key.to_string();
    Ok(if found.iter().any(|task| refers(task, &text)) { None } else { Some(text) })
}

fn refers(task: &Task, key: &str) -> bool {
    let result = task.result.as_ref().and_then(|result| result.content.as_ref());
    let contents = result.into_iter().chain([&task.ask.payload]);
    contents.filter_map(long_payloads::key_of).any(|text| text == key)
}
