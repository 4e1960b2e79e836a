//! Fair shares of a scarce resource: slots, or starts per time. Weighted max-min: no claim gets more than it wants,
//! the unwanted rest is divided among the other claims, and the claims that want more get equal amounts per unit of
//! weight. The functions are pure and compute with integers. They never grant more than the limit, and never less
//! while a claim wants it.

use std::{collections::HashMap, hash::Hash};

/// A claim for a part of the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    pub weight: u32,
    pub wants: u64,
    /// The amount had so far per unit of weight (`Turns`). An indivisible rest is given to the claim that has
    /// had the least.
    pub served: u64,
}

struct Open {
    nth: usize,
    weight: u128,
    wants: u128,
    served: u64,
    whole: u128,
    has_rest: bool,
}

/// The amount for each claim, in order. The sum is the limit, or all wanted amounts if that is less.
#[must_use]
pub fn divide(limit: u64, claims: &[Claim]) -> Vec<u64> {
    let mut open: Vec<Open> = claims.iter().enumerate().filter(|entry| entry.1.wants > 0).map(open).collect();
    // The claim that wants least for its weight is served first.
    open.sort_by(|a, b| (a.wants * b.weight).cmp(&(b.wants * a.weight)).then(a.nth.cmp(&b.nth)));
    let (mut left, mut weights) = (u128::from(limit), open.iter().map(|open| open.weight).sum::<u128>());
    let mut short = Vec::new();
    for open in &mut open {
        if short.is_empty() && open.wants * weights <= left * open.weight {
            open.whole = open.wants;
            left -= open.wants;
            weights -= open.weight;
        } else {
            short.push(open);
        }
    }
    let mut over = left;
    for open in &mut short {
        (open.whole, open.has_rest) = (left * open.weight / weights, left * open.weight % weights > 0);
        over -= open.whole;
    }
    short.sort_by_key(|open| (!open.has_rest, open.served, open.nth));
    let mut shares = vec![0; claims.len()];
    for open in short {
        let more = u128::from(open.has_rest).min(over);
        open.whole += more;
        over -= more;
    }
    for open in open {
        if let Some(share) = shares.get_mut(open.nth) {
            *share = u64::try_from(open.whole).unwrap_or(u64::MAX);
        }
    }
    shares
}

fn open((nth, claim): (usize, &Claim)) -> Open {
    let Claim { weight, wants, served } = *claim;
    let weight = u128::from(weight.max(1));
    Open { nth, weight, wants: wants.into(), served, whole: 0, has_rest: false }
}

/// The amount that a weight entitles to, among a total weight.
#[must_use]
pub fn entitled(limit: u64, weight: u32, weights: u64) -> u64 {
    let part = u128::from(limit) * u128::from(weight.max(1)) / u128::from(weights.max(1));
    u64::try_from(part).unwrap_or(limit).min(limit)
}

/// The sum of the weights.
#[must_use]
pub fn weights(claims: &[Claim]) -> u64 {
    claims.iter().map(|claim| u64::from(claim.weight.max(1))).sum()
}

/// The maximum that each claim can take until the next division, in order, if the limit itself is enforced elsewhere:
/// its share, all unwanted slots, and at least its entitlement. So the shares of the others remain available, even if
/// one of them begins to want more meanwhile, and no claim is restricted while there is enough.
#[must_use]
pub fn most(limit: u64, claims: &[Claim]) -> Vec<u64> {
    let (shares, weights) = (divide(limit, claims), weights(claims));
    let unwanted = limit.saturating_sub(shares.iter().sum());
    let of = |(claim, share): (&Claim, u64)| (share + unwanted).max(entitled(limit, claim.weight, weights));
    claims.iter().zip(shares).map(of).collect()
}

/// The maximum for a claim that the last division did not count. It is never zero.
#[must_use]
pub fn newcomer(limit: u64, weight: u32, weights: u64) -> u64 {
    entitled(limit, weight, weights.saturating_add(weight.max(1).into())).max(1)
}

/// Counts how much each has had for its weight, so that indivisible slots rotate in proportion to the
/// weights, however long one of them is held. (The virtual time of weighted fair queueing.)
#[derive(Debug)]
pub struct Turns<K>(HashMap<K, u64>);

impl<K> Default for Turns<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

/// The units of one millisecond of a slot per unit of weight: fine enough for divisions.
const FINE: u64 = 1_000_000;
/// A claim that held a slot for long gets the next turns last, but never for longer than half a minute of one
/// slot.
const AHEAD_MAX: u64 = 30_000 * FINE;

impl<K: Eq + Hash + Clone> Turns<K> {
    /// The amounts of those that want some now. A new or returning claim begins with the smallest amount of
    /// the others: a pause gives no credit.
    pub fn served<'a>(&mut self, wanting: impl Iterator<Item = &'a K>) -> Vec<u64>
    where
        K: 'a,
    {
        let wanting: Vec<&K> = wanting.collect();
        let least = wanting.iter().filter_map(|item| self.0.get(*item)).min().copied().unwrap_or(0);
        let served: Vec<u64> =
            wanting.iter().map(|item| self.0.get(*item).copied().unwrap_or(least)).collect();
        // Relative to the smallest, so that no number grows without bound.
        let served: Vec<u64> = served.into_iter().map(|number| (number - least).min(AHEAD_MAX)).collect();
        self.0 = wanting.into_iter().cloned().zip(served.iter().copied()).collect();
        served
    }

    /// `who` has held this many slots, or left them free, for this long.
    pub fn had(&mut self, who: &K, slots: u64, for_ms: u64, weight: u32) {
        if let Some(served) = self.0.get_mut(who) {
            let more = slots.saturating_mul(for_ms).saturating_mul(FINE) / u64::from(weight.max(1));
            *served = served.saturating_add(more);
        }
    }
}

#[cfg(test)]
#[path = "shares_tests.rs"]
mod tests;
