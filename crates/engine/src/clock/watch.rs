//! Watches the clock: asks the keeper, reports doubts, and resets state from a time that was set back.
//! Otherwise, what was done up to a later instant would be skipped until that instant is reached. Must not
//! decide what time it is.

pub(crate) mod state;

use crate::{core::Core, engine::Engine, maintenance::expired_leases, pipeline::ahead};
use punctual_contract::{Error, Ownership, Trust, clock::ClockStatus};
use punctual_domain::time::Span;
use std::{sync::Arc, time::Duration};

pub(crate) const PERIOD: Duration = Duration::from_millis(500);
/// The maximum duration of a read of the keeper: a later answer is too inaccurate.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);
/// A smaller step back is covered by overlapping reads.
const BACK_MS: i64 = 100;

/// Beyond this, the partitions are given up.
const UNHEALTHY_MS: i64 = 1_000;

/// Compares the clock with the keeper's.
pub(crate) async fn ask(trust: &dyn Trust, keeper: &dyn Ownership) -> Result<(), Error> {
    let asked = trust.steady();
    if let Some(theirs) = keeper.now().await? {
        trust.observe(theirs, asked);
    }
    Ok(())
}

/// Reads the keeper. It runs as often as heartbeats, but separately: it delays none. While the keeper is unavailable,
/// the last agreed offset determines the time.
async fn ask_keeper(core: &Core) {
    let Some(trust) = core.clock.trust() else { return };
    match tokio::time::timeout(ANSWERS_WITHIN, ask(trust, core.shared.ownership.as_ref())).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "the clock of the database could not be read"),
        Err(_) => tracing::debug!("the clock of the database was not answered in time"),
    }
}

/// Leases that were shortened because time was set back.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, Error> {
    ask_keeper(core).await;
    let status = core.clock.trust().map(Trust::status).unwrap_or_default();
    let now = core.now();
    let (seen, before) = {
        let mut last = core.health.watch.last.lock();
        std::mem::replace(&mut *last, (now, status))
    };
    say(before, status);
    let back_ms = seen.since(now);
    if back_ms <= BACK_MS {
        return Ok(0);
    }
    tracing::error!(back_ms, "time was set back: what was done ahead of it is done again");
    begin_anew(core).await;
    expired_leases::time_went_back(core, seen, now).await
}

fn say(before: ClockStatus, now: ClockStatus) {
    let ClockStatus { wall_ahead_ms, keeper_ahead_ms, .. } = now;
    if now.steps > before.steps {
        tracing::error!(
            wall_ahead_ms,
            keeper_ahead_ms,
            steps = now.steps,
            "time was set after a step of a clock"
        );
    }
    match (before.is_doubtful, now.is_doubtful) {
        (false, true) => tracing::error!(
            wall_ahead_ms,
            keeper_ahead_ms,
            "the wall clock of this machine disagrees with the others and is not followed"
        ),
        (true, false) => tracing::info!("the wall clock of this machine is followed again"),
        _ => {}
    }
    match (before.is_keeper_doubtful, now.is_keeper_doubtful) {
        (false, true) => {
            tracing::error!(keeper_ahead_ms, "the clock of the database has jumped and is not followed");
        }
        (true, false) => tracing::info!("the clock of the database agrees again"),
        _ => {}
    }
}

/// The wall clock is so far off that another engine should own the partitions.
pub(crate) fn is_unhealthy(core: &Core) -> bool {
    let status = core.clock.trust().map(Trust::status).unwrap_or_default();
    status.is_doubtful && status.wall_ahead_ms.abs() > UNHEALTHY_MS
}

impl Engine {
    /// The quality of the engine's time; all zero if nothing watches the clock.
    #[must_use]
    pub fn clock_status(&self) -> ClockStatus {
        self.core.clock.trust().map(Trust::status).unwrap_or_default()
    }
}

/// Describes a problem of the clock to an operator. `None` if there is none.
pub(crate) fn doubt(core: &Core) -> Option<String> {
    let status = core.clock.trust()?.status();
    let ahead = |ms: i64| format!("{} {}", Span(ms), if ms < 0 { "behind" } else { "ahead of" });
    if status.is_doubtful {
        let by = ahead(status.wall_ahead_ms);
        return Some(format!("the wall clock of this machine is {by} the time that the engine goes by"));
    }
    let by = ahead(status.keeper_ahead_ms.filter(|_| status.is_keeper_doubtful)?);
    Some(format!("the clock of the database has jumped, and is {by} the time that the engine goes by"))
}

/// Preleased tasks are returned, waiting tasks are moved to where all engines find them, and each partition
/// is read as if it had just been taken over: frontier and claims begin at the present.
async fn begin_anew(core: &Arc<Core>) {
    ahead::begin_anew(core).await;
    for tenure in core.holdings.tenures() {
        if core.holdings.begin_anew(tenure) {
            core.live.lock().open(tenure.partition);
        }
    }
    core.store_fallback.watermarks.begin_anew();
    core.filling.look_through.notify_one();
}
