//! Token buckets of this engine: how fast a namespace, or the installation, may insert. Knows no engine: the
//! caller passes the settings, the number of engines, and the time.

use crate::settings::LoadedSettings;
use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_domain::{
    limits::{Bucket, Flow},
    name::Name,
    settings::{Rate, Scope},
    time::Millis,
};

/// Why a task is refused now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooFast {
    pub scope: Scope,
    /// The rate as set, for all engines together.
    pub rate: Rate,
    pub wait_ms: i64,
}

#[derive(Debug, Default)]
pub(crate) struct Quotas(Mutex<HashMap<Option<Name>, Bucket>>);

/// This engine's share of a rate.
fn share(rate: Rate, engines: u32) -> Flow {
    let engines = engines.max(1);
    let period_ms = rate.period_ms.saturating_mul(i64::from(engines));
    Flow::of(Rate { period_ms, burst: (rate.burst / engines).max(1), ..rate })
}

impl Quotas {
    /// Takes one task of the namespace, or returns why not. It takes from all of its rates, or from none.
    pub(super) fn take(
        &self,
        known: &LoadedSettings,
        namespace: &Name,
        engines: u32,
        now: Millis,
    ) -> Result<(), TooFast> {
        let of_namespace = known.namespaces.get(namespace).and_then(|set| set.insert_rate);
        let rates = [(Some(namespace.clone()), of_namespace), (None, known.everything.insert_rate)];
        let mut buckets = self.0.lock();
        let mut taken = Vec::new();
        for (scope, rate) in rates {
            let Some(rate) = rate else { continue };
            let flow = share(rate, engines);
            let mut bucket =
                buckets.get(&scope).copied().unwrap_or_else(|| Bucket::full(flow, now)).at(flow, now);
            if !bucket.take() {
                let wait_ms = bucket.wait_ms(flow).unwrap_or(rate.period_ms);
                let scope = scope.map_or(Scope::Everything, Scope::Namespace);
                return Err(TooFast { scope, rate, wait_ms });
            }
            taken.push((scope, bucket));
        }
        buckets.extend(taken);
        Ok(())
    }
}

impl LoadedSettings {
    pub(super) fn has_quotas(&self) -> bool {
        self.everything.insert_rate.is_some() || self.namespaces.values().any(|set| set.insert_rate.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_domain::settings::ScopeSettings;

    fn known(namespace: Option<Rate>, everything: Option<Rate>) -> LoadedSettings {
        let set = |insert_rate| ScopeSettings { insert_rate, ..ScopeSettings::default() };
        let mut known = LoadedSettings { everything: set(everything), ..LoadedSettings::default() };
        known.namespaces.insert(eu(), set(namespace));
        known
    }

    fn eu() -> Name {
        Name::new("eu").unwrap()
    }

    fn accepted(quotas: &Quotas, known: &LoadedSettings, engines: u32, from_ms: i64, for_ms: i64) -> usize {
        let at =
            |ms| (0..1_000).take_while(|_| quotas.take(known, &eu(), engines, Millis(ms)).is_ok()).count();
        (from_ms..from_ms + for_ms).map(at).sum()
    }

    #[test]
    fn engines_together_never_pass_the_rate() {
        let rate = Rate { limit: 100, period_ms: 1_000, burst: 30 };
        let known = known(Some(rate), None);
        for engines in 1..=5 {
            let each = accepted(&Quotas::default(), &known, engines, 0, 10_000);
            let all = each * usize::try_from(engines).unwrap();
            assert!((990..=1_030).contains(&all), "{engines} engines: {all}");
        }
    }

    #[test]
    fn a_task_that_one_rate_refuses_takes_nothing_from_the_other() {
        let one = |limit| Some(Rate { limit, period_ms: 1_000, burst: 1 });
        let (quotas, known) = (Quotas::default(), known(one(1_000), one(1)));
        assert_eq!(quotas.take(&known, &eu(), 1, Millis(0)), Ok(()));
        let refused = quotas.take(&known, &eu(), 1, Millis(1)).unwrap_err();
        assert_eq!((refused.scope, refused.wait_ms), (Scope::Everything, 999));
        let other = Name::new("us").unwrap();
        assert!(
            quotas.take(&known, &other, 1, Millis(500)).is_err(),
            "everything is shared by all namespaces"
        );
        assert_eq!(quotas.take(&known, &eu(), 1, Millis(1_000)), Ok(()), "the namespace's own was not spent");
    }
}
