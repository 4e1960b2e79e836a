//! Places of attempts that this engine has handed over while their database is away: no row says that they are in flight. Whichever
//! engine holds the limiter against the store would free them, so each engine says every second of its own that they are granted.
//! An engine that dies says so no more, and its places are freed ten seconds later, as those of any grant that nothing came of. Must
//! not give a place to an attempt that has ended.

use super::{Looks, NO_GRACE_MS, free_the_gone};
use crate::{core::Core, options::STEP_LIMIT};
use hashbrown::HashSet;
use punctual_contract::{
    Error,
    limiter::{Held, Member},
};
use punctual_domain::time::Millis;
use std::sync::Arc;

fn unwritten(core: &Core) -> Vec<Member> {
    core.live.lock().unwritten().map(|(id, fence)| Member { id, fence }).collect()
}

/// Of the limiter of queues that are not scanned: the others hand nothing over without the store.
pub(super) async fn keep(core: &Arc<Core>, looks: Looks<'_>, now: Millis) -> Result<(), Error> {
    let members = unwritten(core);
    if members.is_empty() {
        return Ok(());
    }
    let (limiter, mut kept) = (looks.limiter, Vec::<Held>::new());
    for some in members.chunks(STEP_LIMIT) {
        let mut held = limiter.find(some).await?;
        held.iter_mut().for_each(|held| held.granted_at = now);
        if !held.is_empty() {
            limiter.restore(held.clone()).await?;
        }
        kept.extend(held);
    }
    // What was written meanwhile may have ended meanwhile, and given up what it holds again now.
    let unwritten: HashSet<Member> = unwritten(core).into_iter().collect();
    kept.retain(|held| !unwritten.contains(&held.member));
    free_the_gone(core, looks, &kept, NO_GRACE_MS, now).await?.failed.map_or(Ok(()), Err)
}
