//! What the reconciler has looked at last, and where its next look goes on. Asks neither the limiter nor the store.

use hashbrown::HashMap;
use parking_lot::Mutex;
use punctual_contract::{hot::Lane, store::LeasePosition};
use punctual_domain::{name::QueueKey, time::Millis};

const FULL_EVERY_MS: i64 = 30_000;
const LANES_EVERY_MS: i64 = 5_000;

/// When what was done last.
#[derive(Debug, Default)]
pub(crate) struct Reconciler(pub(super) Mutex<Last>);

#[derive(Debug, Default)]
pub(super) struct Last {
    full_at: Option<Millis>,
    lanes_at: Option<Millis>,
    pub(super) revision: Option<i64>,
    lost_at: Option<Millis>,
    pub(super) leases: Leases,
    /// By queue, where the look at its lanes goes on.
    pub(super) positions: HashMap<QueueKey, Lane>,
}

/// How far the look at all leases has come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Leases {
    #[default]
    AllSeen,
    /// None: from the beginning.
    From(Option<LeasePosition>),
}

fn is_over(last: Option<Millis>, every_ms: i64, now: Millis) -> bool {
    !last.is_some_and(|it| (0..every_ms).contains(&now.since(it)))
}

impl Reconciler {
    /// Whether all is to be looked at in this run.
    pub(super) fn begin_full(&self, revision: i64, now: Millis) -> bool {
        let mut last = self.0.lock();
        let begins = is_over(last.full_at, FULL_EVERY_MS, now) || last.revision != Some(revision);
        if begins {
            // What was set anew holds for leases that were looked at before, too.
            if matches!(last.leases, Leases::AllSeen) || last.revision != Some(revision) {
                last.leases = Leases::From(None);
            }
            (last.full_at, last.revision) = (Some(now), Some(revision));
        }
        begins
    }

    pub(super) fn leases(&self) -> Leases {
        self.0.lock().leases
    }

    pub(super) fn go_on(&self, next: Option<LeasePosition>) {
        self.0.lock().leases = next.map_or(Leases::AllSeen, |it| Leases::From(Some(it)));
    }

    pub(super) fn begin_lanes(&self, now: Millis) -> bool {
        let mut last = self.0.lock();
        let begins = is_over(last.lanes_at, LANES_EVERY_MS, now);
        if begins {
            last.lanes_at = Some(now);
        }
        begins
    }

    /// All is to be looked at in the next run.
    pub(super) fn again(&self) {
        let mut last = self.0.lock();
        (last.full_at, last.leases) = (None, Leases::AllSeen);
    }

    /// Whether it has been lost for long enough.
    pub(super) fn is_lost(&self, wait_ms: i64, now: Millis) -> bool {
        let mut last = self.0.lock();
        now.since(*last.lost_at.get_or_insert(now)) >= wait_ms
    }

    pub(super) fn is_found(&self) {
        self.0.lock().lost_at = None;
    }
}
