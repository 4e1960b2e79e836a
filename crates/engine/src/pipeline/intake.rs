//! Step 1, insert: tasks are stored first, and what is due soon goes straight to the hot set after the commit.
//! Never acknowledges before the commit. Nothing rests on the load that follows it: the sweep finds what a crash
//! between the two left out.

use crate::{
    core::Core,
    outside,
    pipeline::{claim, room},
};
use hashbrown::HashMap;
use punctual_contract::{
    Ask, Error, Happened,
    hot::{Details, HotEntry},
    store::Inserted,
};
use punctual_domain::{
    insert::Decision,
    place::Partition,
    task::{NewTask, Task},
    time::Millis,
};
use std::sync::{Arc, atomic::Ordering::Relaxed};

/// What is due this soon is loaded whatever is known of the preloader, which may not have begun.
const SOON_MS: i64 = 10_000;
/// What is due this soon brings what its hand-over needs, however short of room the hot set is.
const ASK_MS: i64 = 10_000;
/// What is new and due this soon need not be where other engines would find it, if there are none.
const NEAR_MS: i64 = 10_000;
/// How far the clocks of two engines may be apart without a task being loaded late.
const CLOCKS_APART_MS: i64 = 10_000;

pub(crate) async fn insert(
    core: &Arc<Core>,
    mut tasks: Vec<NewTask>,
    by: &str,
) -> Result<Vec<Result<Inserted, Error>>, Error> {
    let put = outside::put_payloads(core, &mut tasks).await?;
    let inserting = core.limits.backlog.begin(&tasks);
    let inserted = core.store.insert_each(tasks, by, core.now()).await;
    if inserted.is_ok() {
        inserting.stored();
    }
    outside::inserted(core, put, &inserted);
    let inserted = inserted?;
    let (mut new, mut others) = (Vec::new(), Vec::new());
    for it in inserted.iter().flatten() {
        match it.decision {
            Decision::Create => new.push(entry_of(&it.task)),
            Decision::Replace => others.push(entry_of(&it.task)),
            _ => continue,
        }
        core.meters.queue(&it.task.ask.queue).inserted(1);
    }
    admit(core, new, Ids::New).await;
    admit(core, others, Ids::Known).await;
    Ok(inserted)
}

/// Whether anything may be in the hot set under their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ids {
    /// Their insert has just made them.
    New,
    Known,
}

/// Loads those that are due within what the hot set covers; the preloader brings the others in their time.
/// A failure here is not the caller's: the task is kept, and the sweep loads it.
pub(crate) async fn admit_to_hot_set(core: &Arc<Core>, entries: Vec<HotEntry>) {
    admit(core, entries, Ids::Known).await;
}

async fn admit(core: &Arc<Core>, mut entries: Vec<HotEntry>, ids: Ids) {
    if entries.is_empty() {
        return;
    }
    let is_away = core.from_store.is_away();
    if is_away {
        // They fire from the store, or are preloaded when the hot set is back.
        core.from_store.passes_by();
    }
    let now = core.now();
    entries.retain(|it| it.due_at <= covered(core, it.place.partition, now));
    if is_away {
        core.filling.missed.note(entries.iter());
        return;
    }
    // What is new and due soon stays in this process as long as no other engine lives (decision 0022).
    let stays = ids == Ids::New && core.holdings.is_only_owner() && !core.work.stopping.is_cancelled();
    let is_near = |it: &HotEntry| stays && it.due_at <= now.plus(NEAR_MS);
    let (near, rest): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_near);
    for (entries, ids) in [(near, Ids::New), (rest, Ids::Known)] {
        if let Err(error) = load(core, entries.clone(), ids).await {
            core.filling.missed.note(entries.iter());
            core.from_store.passes_by();
            if error.happened == Happened::Maybe {
                // A connection that broke: on the next one they are loaded from the store.
                core.filling.preload.notify_one();
            }
            tracing::warn!(%error, "tasks could not be loaded after their commit; the sweep will load them");
        }
    }
}

/// Until when tasks of a partition are in the hot set. Where another engine preloads, or may have begun to without this
/// one knowing, it is the furthest that it may have come to: what lies behind its frontier must load itself.
fn covered(core: &Core, partition: Partition, now: Millis) -> Millis {
    let frontier = core.holdings.frontier(partition);
    let is_mine = core.holdings.tenure(partition).is_some();
    let is_short = core.filling.room.is_short();
    if core.shared.is_none() || (is_mine && (is_short || core.filling.is_crowded.load(Relaxed))) {
        return frontier.max(now.plus(SOON_MS));
    }
    frontier.max(now.plus(core.filling.room.horizon_ms(core.options.horizon_ms) + CLOCKS_APART_MS))
}

/// Loads entries, and then sees that those are claimed that the claim loop has passed by. In this order: an entry that
/// is looked up before it is loaded could be missed by both. Nobody waits for the claim: one whose instant comes
/// before it is answered fires with the answer.
pub(crate) async fn load_and_claim(core: &Arc<Core>, entries: Vec<HotEntry>) -> Result<usize, Error> {
    load(core, entries, Ids::Known).await
}

async fn load(core: &Arc<Core>, mut entries: Vec<HotEntry>, ids: Ids) -> Result<usize, Error> {
    if entries.is_empty() {
        return Ok(0);
    }
    leave_out_asks(core, &mut entries);
    let loaded = match ids {
        Ids::New => core.hot.load_near(entries.clone()).await?,
        Ids::Known => {
            let loaded = core.hot.load(entries.clone()).await?;
            room::loaded(core, loaded).await;
            loaded
        }
    };
    announce_soon(core, &entries);
    let count = entries.len();
    let soon = core.live.lock().passed_by(entries);
    if !soon.is_empty() {
        let claiming = Arc::clone(core);
        core.work.detach_claim(async move {
            claim_passed_by(&claiming, soon, loaded == count).await;
        });
    }
    Ok(loaded)
}

/// What a hand-over needs travels with the entry as far as the hot set has room for it; where it is left out, the row is read.
fn leave_out_asks(core: &Core, entries: &mut [HotEntry]) {
    let ahead_ms = if core.filling.room.is_short() { ASK_MS } else { core.hot.asks_ahead_ms() };
    let until = core.now().plus(ahead_ms);
    entries.iter_mut().filter(|entry| entry.due_at > until).for_each(HotEntry::leave_out_ask);
}

/// What was not put in has fired already, or is there with a newer fence: claiming it would be wrong, so that who is
/// there has to be looked at.
async fn claim_passed_by(core: &Arc<Core>, entries: Vec<HotEntry>, all_are_in: bool) {
    if all_are_in {
        claim::claim(core, entries).await;
        return;
    }
    let mut slices: HashMap<Partition, Millis> = HashMap::new();
    for it in &entries {
        let from = slices.entry(it.place.partition).or_insert(it.due_at);
        *from = it.due_at.min(*from);
    }
    for (partition, from) in slices {
        if let Err(error) = claim::claim_from(core, partition, from).await {
            tracing::warn!(%error, "claim failed; it will be repeated");
        }
    }
}

/// Tells the owners of what is due before their next look at the hot set.
fn announce_soon(core: &Core, entries: &[HotEntry]) {
    if core.shared.is_none() {
        return;
    }
    let interval_ms = i64::try_from(core.options.claim_interval_ms).unwrap_or(i64::MAX);
    let soon = core.now().plus(core.options.lookahead_ms.saturating_add(interval_ms));
    let is_anothers = |it: &&HotEntry| core.holdings.tenure(it.place.partition).is_none();
    for it in entries.iter().filter(|it| it.due_at <= soon).filter(is_anothers) {
        core.sharing.announcer.due(it.place.partition, it.due_at);
    }
}

pub(crate) fn entry_of(task: &Task) -> HotEntry {
    let deadline_at = task.ask.deadline_ms.map_or(Millis::MAX, |it| task.ask.execute_at.plus(it));
    HotEntry {
        place: task.place,
        due_at: task.due_at,
        fence: task.fence,
        queue: Arc::new(task.ask.queue.clone()),
        priority: task.ask.priority,
        task_id: task.task_id(),
        task_version: task.ask.task_version,
        deadline_at,
        state: task.state,
        fired_at: Millis::ZERO,
        attempt: task.attempt,
        details: Arc::new(Details {
            kind: Some(task.ask.kind.clone()),
            demands: task.ask.demands.clone(),
            ask: Ask::of(&task.ask).map(Arc::new),
        }),
    }
}
