//! When members were granted their places here. Takes none of them back itself.

use hashbrown::HashMap;
use punctual_contract::limiter::Member;
use punctual_domain::time::Millis;

/// A hand-over knows within this whether the lease of a grant was made, or its places are the reconciler's.
const KNOWN_MS: i64 = 10_000;

/// When members were granted here: what comes to nothing is taken back only if nobody has been granted the same since.
#[derive(Debug, Default)]
pub(crate) struct Granted {
    granted_at: HashMap<Member, Millis>,
    /// When the oldest of them were forgotten.
    turned_at: Option<Millis>,
}

impl Granted {
    pub(crate) fn note(&mut self, members: impl Iterator<Item = Member>, at: Millis) {
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

    pub(super) fn take(&mut self, member: Member) -> Option<Millis> {
        self.granted_at.remove(&member)
    }
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
