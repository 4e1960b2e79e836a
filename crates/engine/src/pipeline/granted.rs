//! Grants that come to nothing: their places are taken back at once, where that is safe. It is not safe to give up every place
//! that was granted here: the same entry can be admitted twice (it was offered again, or Redis forgot in a failover that
//! it was handed over), and then both grants name one attempt, and so one member, which may be running. Must not free
//! what it does not know to be unused: that is left to `maintenance::reconcile`.

use super::admit::{next_attempt, wake};
use crate::core::Core;
use hashbrown::HashMap;
use punctual_contract::{Error, hot::HotEntry, limiter::Member};
use punctual_domain::{place::TaskRef, time::Millis};
use std::sync::Arc;

/// A hand-over knows within this whether the lease of a grant was made, or its places are the reconciler's.
const KNOWN_MS: i64 = 10_000;

/// When members were granted here: what comes to nothing is taken back only if nobody has been granted the same since.
#[derive(Debug, Default)]
pub(super) struct Granted {
    granted_at: HashMap<Member, Millis>,
    /// When the oldest of them were forgotten.
    turned_at: Option<Millis>,
}

impl Granted {
    pub(super) fn note(&mut self, members: impl Iterator<Item = Member>, at: Millis) {
        let turned_at = self.turned_at;
        let is_since = |instant: Millis| {
            turned_at.is_some_and(|turned_at| (0..KNOWN_MS).contains(&instant.since(turned_at)))
        };
        if !is_since(at) {
            self.granted_at.retain(|_, granted_at| is_since(*granted_at));
            self.turned_at = Some(at);
        }
        self.granted_at.extend(members.map(|member| (member, at)));
    }

    fn take(&mut self, member: Member) -> Option<Millis> {
        self.granted_at.remove(&member)
    }
}

/// No attempts came of these here. Their places are taken back, but for those that somebody else's attempt has: the same
/// entry may have been admitted twice, and names the same attempt. What fails here the reconciler does.
pub(crate) async fn never_began(core: &Arc<Core>, entries: impl Iterator<Item = &HotEntry>) {
    let (mut places, mut granted) = (Vec::new(), Vec::new());
    {
        let mut known = core.admissions.granted.lock();
        for it in entries {
            let member = next_attempt(it);
            let at = known.take(member);
            places.extend(at.map(|_| it.row()));
            granted.extend(at.map(|at| (member, at)));
        }
    }
    if granted.is_empty() || core.from_store.is_away() {
        return;
    }
    if let Err(error) = take_back(core, &places, &granted).await {
        tracing::warn!(%error, "slots could not be taken back; the reconciler frees them");
    }
}

async fn take_back(core: &Arc<Core>, places: &[TaskRef], granted: &[(Member, Millis)]) -> Result<(), Error> {
    let tasks = core.store.read(places).await?;
    let unused = granted.iter().zip(tasks).filter(|((member, _), task)| {
        !task.as_ref().is_some_and(|it| it.fence == member.fence && it.state.is_in_flight())
    });
    let unused: Vec<(Member, Millis)> = unused.map(|it| *it.0).collect();
    let held = core.limiter.retract(&unused).await?;
    wake(core, &held.into_iter().flatten().collect::<Vec<_>>()).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_known_for_a_while_and_taken_once() {
        let mut it = Granted::default();
        let member = |id| Member { id, fence: 2 };
        it.note([member(1), member(2)].into_iter(), Millis(1_000));
        it.note([member(2)].into_iter(), Millis(1_000 + KNOWN_MS));
        assert_eq!(it.take(member(1)), Some(Millis(1_000)));
        assert_eq!(it.take(member(2)), Some(Millis(1_000 + KNOWN_MS)), "the newer one");
        assert_eq!(it.take(member(2)), None);
        it.note([member(3)].into_iter(), Millis(5));
        it.note([].into_iter(), Millis(5 + 2 * KNOWN_MS));
        it.note([].into_iter(), Millis(5 + 3 * KNOWN_MS));
        assert_eq!(it.take(member(3)), None, "nothing is kept for ever");
    }
}
