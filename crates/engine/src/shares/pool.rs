//! One shared limit, divided: among the namespaces of everything, or among the queues of a namespace. Pure.

use hashbrown::HashMap;
use punctual_domain::{
    name::Name,
    settings::Rate,
    shares::{self, Claim},
};

/// A namespace's share of the installation's limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceShare {
    pub namespace: Name,
    pub weight: u32,
    /// Attempts in flight.
    pub held: usize,
    /// The maximum number of slots that the namespace may hold. `None` if no other namespace wants any, or if the
    /// installation's slots are unlimited.
    pub slots: Option<u32>,
    /// The same of starts.
    pub starts: Option<Rate>,
}

/// A limit on slots or starts, or both, and the parts of those that want some of it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Pool {
    slots: Option<u32>,
    starts: Option<Rate>,
    weights: u64,
    parts: HashMap<Name, SharePart>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct SharePart {
    weight: u32,
    held: u64,
    /// The slots by the division. The namespace or queue may take more while no other wants them.
    falls_to_it: u64,
    share: Share,
}

/// The maximum for a namespace or queue. `None` if no shared limit exists, or if no other wants any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) slots: Option<u32>,
    pub(crate) starts: Option<Rate>,
    /// The weight of the share, and the total of all weights.
    pub(crate) weight: u32,
    pub(crate) weights: u64,
}

/// The demand of a namespace or queue.
#[derive(Clone, Debug, Default)]
pub(super) struct ShareDemand {
    pub(super) weight: u32,
    pub(super) held: u64,
    /// Now, at one time.
    pub(super) slots: u64,
    /// The recent maximum of its slots, and a little more: reserved for it as far as its weight allows.
    pub(super) slots_lately: u64,
    /// Per thousand seconds. `None` means as many as there are.
    pub(super) starts_per_ks: Option<u64>,
    pub(super) starts_lately: u64,
    /// It has set itself.
    pub(super) slots_most: Option<u32>,
    pub(super) starts_most: Option<Rate>,
}

/// Rates are divided into fractions of a start: this many per start in one period. The number is constant for
/// a rate, so that a bucket keeps its content when the share changes.
fn parts_of_a_start(rate: Rate) -> u64 {
    const FINE: u64 = 1_000;
    const LIMIT_MAX: u64 = 1_000_000;
    const PERIOD_MAX_MS: u64 = 86_400_000;
    let period_ms = u64::try_from(rate.period_ms).unwrap_or(1).max(1);
    let fits = (LIMIT_MAX / u64::from(rate.limit.max(1))).min(PERIOD_MAX_MS / period_ms);
    FINE.min(fits).max(1)
}

fn units_in(rate: Rate) -> u64 {
    u64::from(rate.limit) * parts_of_a_start(rate)
}

/// Converts a rate to the units of another rate.
fn units_of(rate: Rate, starts_per_ks: u64) -> u64 {
    let period_ms = u128::try_from(rate.period_ms).unwrap_or(1);
    let units = u128::from(starts_per_ks) * period_ms * u128::from(parts_of_a_start(rate)) / 1_000_000;
    u64::try_from(units).unwrap_or(u64::MAX)
}

fn per_ks(rate: Rate) -> u64 {
    let period_ms = u64::try_from(rate.period_ms).unwrap_or(1).max(1);
    u64::from(rate.limit).saturating_mul(1_000_000) / period_ms
}

/// The part of a rate for this many units; never zero, so that no caller waits forever.
fn part_of(rate: Rate, units: u64) -> Rate {
    let fine = parts_of_a_start(rate);
    let all = units_in(rate).max(1);
    let burst = u128::from(rate.burst) * u128::from(units) / u128::from(all);
    Rate {
        limit: u32::try_from(units.max(1)).unwrap_or(u32::MAX),
        period_ms: rate.period_ms.saturating_mul(i64::try_from(fine).unwrap_or(1)),
        burst: u32::try_from(burst).unwrap_or(rate.burst).clamp(1, rate.burst.max(1)),
    }
}

/// The slower of two, with the smaller burst.
pub(crate) fn slower(one: Rate, other: Rate) -> Rate {
    let of = |rate: Rate, by: Rate| i128::from(rate.limit) * i128::from(by.period_ms.max(1));
    let slower = if of(one, other) <= of(other, one) { one } else { other };
    Rate { burst: one.burst.min(other.burst), ..slower }
}

/// The present demand, or the recent one as far as it is within the own share.
fn wants(now: u64, lately: u64, own: u64) -> u64 {
    now.max(lately.min(own))
}

impl Pool {
    /// `served`: how much those that want slots now have had so far, in their order.
    pub(super) fn divide(
        slots: Option<u32>,
        starts: Option<Rate>,
        wanted: &[(Name, ShareDemand)],
        served: &HashMap<Name, u64>,
    ) -> Self {
        let weights = wanted.iter().map(|pair| u64::from(pair.1.weight.max(1))).sum();
        let claims = |limit: u64, of: &dyn Fn(&ShareDemand) -> (u64, u64)| -> Vec<Claim> {
            let claim = |(name, wanted): &(Name, ShareDemand)| {
                let (now, lately) = of(wanted);
                let own = shares::entitled(limit, wanted.weight, weights);
                let served = served.get(name).copied().unwrap_or(0);
                Claim { weight: wanted.weight.max(1), wants: wants(now, lately, own), served }
            };
            wanted.iter().map(claim).collect()
        };
        let slot_claims = slots.map(|all| claims(all.into(), &slots_of));
        let fall: Option<Vec<u64>> =
            slots.zip(slot_claims.as_ref()).map(|(all, slot_claim)| shares::divide(all.into(), slot_claim));
        let most: Option<Vec<u64>> =
            slots.zip(slot_claims.as_ref()).map(|(all, slot_claim)| shares::most(all.into(), slot_claim));
        let rates: Option<Vec<Rate>> = starts.map(|rate| {
            let units =
                shares::most(units_in(rate), &claims(units_in(rate), &|wanted| starts_of(rate, wanted)));
            units.into_iter().map(|unit| part_of(rate, unit)).collect()
        });
        let is_alone = wanted.len() < 2;
        let nth = |of: &Option<Vec<u64>>, n: usize| of.as_ref().and_then(|list| list.get(n)).copied();
        let part = |(n, (name, wanted)): (usize, &(Name, ShareDemand))| {
            let slots = nth(&most, n).map(|number| u32::try_from(number).unwrap_or(u32::MAX));
            let starts = rates.as_ref().and_then(|rates| rates.get(n)).copied();
            let share = Share {
                slots: slots.filter(|_| !is_alone),
                starts: starts.filter(|_| !is_alone),
                weight: wanted.weight.max(1),
                weights,
            };
            let falls_to_it = nth(&fall, n).unwrap_or(0);
            (name.clone(), SharePart { weight: wanted.weight.max(1), held: wanted.held, falls_to_it, share })
        };
        Self { slots, starts, weights, parts: wanted.iter().enumerate().map(part).collect() }
    }

    /// One that was not counted may take as much as a newcomer.
    pub(super) fn share_of(&self, name: &Name, weight: impl FnOnce() -> u32) -> Share {
        if self.parts.is_empty() {
            return Share::default();
        }
        if let Some(part) = self.parts.get(name) {
            return part.share.clone();
        }
        let weight = weight().max(1);
        let of = |limit: u64| shares::newcomer(limit, weight, self.weights);
        Share {
            slots: self.slots.map(|all| u32::try_from(of(all.into())).unwrap_or(all)),
            starts: self.starts.map(|rate| part_of(rate, of(units_in(rate)))),
            weight,
            weights: self.weights + u64::from(weight),
        }
    }

    /// A part's share.
    pub(super) fn share(&self, name: &Name) -> Option<&Share> {
        self.parts.get(name).map(|part| &part.share)
    }

    /// Everybody has the same share in both.
    pub(super) fn gives_as(&self, other: &Self) -> bool {
        self.parts.len() == other.parts.len()
            && self.parts.iter().all(|(name, part)| other.share(name).is_some_and(|its| *its == part.share))
    }

    /// The amount that each has had since the division: the slots that it holds, and those reserved for it.
    pub(super) fn had<'a>(
        &'a self,
        wanted: &'a [(Name, ShareDemand)],
    ) -> impl Iterator<Item = (&'a Name, u64, u32)> {
        let held: u64 = wanted.iter().map(|pair| pair.1.held).sum();
        let is_full = self.slots.is_none_or(|all| held >= u64::from(all));
        wanted.iter().map(move |(name, wanted)| {
            let stands_free = self.parts.get(name).filter(|_| !is_full).map_or(0, |part| part.falls_to_it);
            (name, wanted.held.max(stands_free), wanted.weight)
        })
    }

    pub(super) fn shown(&self) -> impl Iterator<Item = NamespaceShare> {
        self.parts.iter().map(|(namespace, part)| NamespaceShare {
            namespace: namespace.clone(),
            weight: part.weight,
            held: usize::try_from(part.held).unwrap_or(usize::MAX),
            slots: part.share.slots,
            starts: part.share.starts,
        })
    }
}

fn slots_of(wanted: &ShareDemand) -> (u64, u64) {
    let most = wanted.slots_most.map_or(u64::MAX, u64::from);
    (wanted.slots.min(most), wanted.slots_lately.min(most))
}

fn starts_of(rate: Rate, wanted: &ShareDemand) -> (u64, u64) {
    let most = wanted.starts_most.map_or(u64::MAX, |own| units_of(rate, per_ks(own)));
    let now =
        wanted.starts_per_ks.map_or_else(|| units_in(rate), |starts_per_ks| units_of(rate, starts_per_ks));
    (now.min(most), units_of(rate, wanted.starts_lately).min(most))
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
