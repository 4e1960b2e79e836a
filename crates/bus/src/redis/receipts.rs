//! How a message leaves a consumer: acknowledged, reclaimed from a silent consumer, or returned because its
//! caller is gone. The latter two append it after waiting messages, counted or not, in one script.

use super::{
    Core,
    entry::EntryId,
    receive::run_to_its_end,
    streams::{self, PENDING_MAX, Pending, READ_MAX, REQUEUE_MAX, Stream},
};
use crate::error::Error;
use punctual_domain::{name::QueueKey, time::Millis};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::time::sleep;

/// The time that a message that was read for a disconnected caller waits here for another caller.
pub(super) const LINGER: Duration = Duration::from_millis(50);
/// The maximum number of reads of one page of pending entries, until the two clock readings around it agree.
const LOOKS_MAX: usize = 10;

pub(super) async fn acknowledge(core: &Core, queue: &QueueKey, ids: &[u64]) -> Result<(), Error> {
    for (stream, ids) in by_stream(core, queue, ids.iter().copied()) {
        for some in ids.chunks(READ_MAX) {
            for answer in core.work.run_together(&mut stream.acknowledge(some)).await {
                answer?;
            }
        }
    }
    Ok(())
}

/// Ids of streams that there are not are passed over.
fn by_stream(core: &Core, queue: &QueueKey, ids: impl Iterator<Item = u64>) -> Vec<(Stream, Vec<EntryId>)> {
    let mut found: BTreeMap<u8, Vec<EntryId>> = BTreeMap::new();
    for (number, id) in ids.map(EntryId::unpack) {
        if number < core.options.streams_per_queue {
            found.entry(number).or_default().push(id);
        }
    }
    found.into_iter().map(|(number, ids)| (core.stream(queue, number), ids)).collect()
}

/// An unreachable stream does not prevent reclaims in the others.
pub(super) async fn reclaim(core: &Core, queue: &QueueKey, before: Millis) -> Result<usize, Error> {
    let (mut moved, mut failure) = (0, None);
    for stream in core.streams(queue) {
        match reclaim_stream(core, &stream, before).await {
            Ok(count) => moved += count,
            Err(error) => failure = Some(error),
        }
    }
    failure.map_or(Ok(moved), Err)
}

async fn reclaim_stream(core: &Core, stream: &Stream, before: Millis) -> Result<usize, Error> {
    let (mut moved, mut after) = (0, None);
    loop {
        let Some((page, now)) = look(core, stream, after).await? else { return Ok(0) };
        let late = page.iter().filter(|pending| now.plus(-pending.idle_ms) < before);
        moved += requeue(core, stream, &late.map(|pending| (pending.id, pending.times)).collect::<Vec<_>>())
            .await?;
        after = page.last().map(|pending| pending.id);
        if page.len() < PENDING_MAX {
            break;
        }
    }
    let forget = stream.forget(core.options.forget_consumers_after);
    streams::count(core.work.run_one(forget).await)?;
    Ok(moved)
}

/// One page, and when its idle times were counted. `None` if the group does not exist, so no consumer holds a
/// message.
async fn look(
    core: &Core,
    stream: &Stream,
    after: Option<EntryId>,
) -> Result<Option<(Vec<Pending>, Millis)>, Error> {
    let mut looks = 0;
    loop {
        let answers = core.work.run_together(&mut stream.pending(after)).await;
        let [began, page, ended] = streams::exactly(answers)?;
        let (began, ended) = (streams::time(began)?, streams::time(ended)?);
        let page = match streams::pending(page) {
            Err(error) if error.code() == Some("NOGROUP") => return Ok(None),
            page => page?,
        };
        looks += 1;
        // The millisecond changed meanwhile: read again, or use the later reading, by which no entry seems
        // too old too soon.
        if began == ended || looks == LOOKS_MAX {
            return Ok(Some((page, ended)));
        }
    }
}

/// Requeues messages, each with the number of deliveries for which it counts.
async fn requeue(core: &Core, stream: &Stream, ids: &[(EntryId, u32)]) -> Result<usize, Error> {
    let mut moved = 0;
    for some in ids.chunks(REQUEUE_MAX) {
        moved += streams::count(core.work.run_one(stream.requeue(some)).await)?;
    }
    Ok(moved)
}

/// Returns the remaining messages of a queue when it is dropped.
#[derive(Debug)]
pub(super) struct Leftover<'a> {
    core: &'a Arc<Core>,
    queue: &'a QueueKey,
}

impl<'a> Leftover<'a> {
    pub(super) const fn of(core: &'a Arc<Core>, queue: &'a QueueKey) -> Self {
        Self { core, queue }
    }
}

impl Drop for Leftover<'_> {
    fn drop(&mut self) {
        give_back_later(self.core, self.queue);
    }
}

/// Returns messages that no caller waits for here, which would otherwise be withheld from all others. Without a
/// runtime they wait to be reclaimed.
pub(super) fn give_back_later(core: &Arc<Core>, queue: &QueueKey) {
    if core.lanes.has_orphans(queue) && tokio::runtime::Handle::try_current().is_ok() {
        run_to_its_end(give_back(Arc::clone(core), queue.clone()));
    }
}

async fn give_back(core: Arc<Core>, queue: QueueKey) {
    sleep(LINGER).await;
    let orphans = core.lanes.orphans(&queue);
    for (stream, ids) in by_stream(&core, &queue, orphans.iter().map(|orphan| orphan.id)) {
        let uncounted: Vec<_> = ids.into_iter().map(|id| (id, 0)).collect();
        if let Err(error) = requeue(&core, &stream, &uncounted).await {
            tracing::warn!(stream = stream.key, error = %error, "messages could not be given back; they wait to be reclaimed");
        }
    }
}
