//! Fair shares of limits that several namespaces, or several queues of one namespace, share. While they want
//! more than there is, their weights decide. Shares are computed about once a second, and sooner while tasks
//! are deferred, from the demands that all engines report (`Limiter::demands`); so all engines get nearly the
//! same result. The limiter enforces the limits themselves in any case: engines that differ share less fairly
//! for a moment, but never exceed a limit. Decides nothing about a task.

mod look;
mod memory;
mod pool;
pub(crate) mod state;

pub(crate) use look::run_once;
pub use pool::NamespaceShare;
pub(crate) use pool::{Share, slower};

use crate::{core::Core, engine::Engine, pipeline::admission_rules::AdmissionRules};
use punctual_contract::limiter::Verdict;
use punctual_domain::limits::Scope;
use state::{GOOD_FOR_MS, Shares};
use std::{sync::Arc, time::Duration};

pub(crate) const PERIOD: Duration = Duration::from_secs(1);
/// The maximum number of namespaces whose shares are shown in metrics.
const SHOWN_MAX: usize = 200;

impl Shares {
    /// Records that tasks of a queue could not start because of this verdict, although an executor requested them.
    pub(crate) fn deferred(&self, terms: &AdmissionRules, by: Option<&Verdict>) {
        let (slots, starts) = match by {
            Some(
                Verdict::Blocked(Scope::Key(..) | Scope::Retries(_) | Scope::Executor(..))
                | Verdict::NotWhole
                | Verdict::Granted,
            ) => {
                return;
            }
            Some(Verdict::Throttled { scope: Scope::Key(..), .. }) | None => return,
            Some(Verdict::Blocked(_)) => (true, false),
            Some(Verdict::Throttled { .. }) => (false, true),
        };
        if !terms.is_shared {
            return;
        }
        self.see(&terms.queue, |seen| {
            seen.short_of_slots |= slots;
            seen.short_of_starts |= starts;
        });
        self.deferred.notify_one();
    }

    pub(crate) fn started(&self, terms: &AdmissionRules, count: usize) {
        if terms.is_shared && count > 0 {
            let count = u64::try_from(count).unwrap_or(u64::MAX);
            self.see(&terms.queue, |seen| seen.starts = seen.starts.saturating_add(count));
        }
    }
}

impl Engine {
    /// Each namespace's share of the installation's limits, as of the last division; the first ones that want a
    /// share.
    #[must_use]
    pub fn shares(&self) -> Vec<NamespaceShare> {
        shown(&self.core)
    }
}

fn shown(core: &Core) -> Vec<NamespaceShare> {
    let divided = Arc::clone(&core.limits.shares.divided.read());
    if !(0..=GOOD_FOR_MS).contains(&core.now().since(divided.at)) {
        return Vec::new();
    }
    let mut all: Vec<NamespaceShare> = divided.everything.shown().collect();
    all.sort_unstable_by(|a, b| a.namespace.cmp(&b.namespace));
    all.truncate(SHOWN_MAX);
    all
}
