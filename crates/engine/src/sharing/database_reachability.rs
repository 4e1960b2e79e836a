//! The databases that this engine's writers reach. If only this engine cannot reach one, it reports that in its
//! heartbeats, and partitions of that database move to engines that reach it. If no engine reaches it, all keep their
//! partitions. Only checks the writers and remembers the results; `own` acts on them.
//!
//! Time for a database that fails at one instant: checked after half a second at most; reported a second
//! after that check; acted upon three seconds after it. By then every other engine that lost it too has
//! checked and reported it.

pub(crate) mod state;

use crate::core::Core;
use punctual_contract::Error;
use state::Reached;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

pub(crate) const PERIOD: Duration = Duration::from_millis(500);

/// Checks the writers of each database that has answered, without waiting for any. Returns the number of
/// checks.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, Error> {
    // An engine that is alone keeps everything. An engine whose only database is unavailable has no heartbeat
    // either.
    if core.store.parts() == 1 || !core.holdings.has_others() {
        return Ok(0);
    }
    let mut asked = 0;
    for part in 0..core.store.parts() {
        if !core.sharing.reachability.with(part, |way| way.ask(Instant::now())) {
            continue;
        }
        asked += 1;
        let its = Arc::clone(core);
        core.work.detach(async move {
            let before = its.sharing.reachability.of(part);
            let checked = its.store.check_writers_in(part).await;
            its.sharing.reachability.with(part, |way| way.answered(checked.is_ok(), Instant::now()));
            match (before, its.sharing.reachability.of(part), checked) {
                (Reached::Yes, Reached::Unsettled | Reached::No, Err(error)) => {
                    tracing::warn!(part, %error, "a database is not reached; if others reach it, its partitions go to them");
                }
                (Reached::No, Reached::Unsettled, _) => tracing::info!(part, "a database is reached again"),
                _ => {}
            }
        });
    }
    Ok(asked)
}

/// It is not reached from here, and from another engine it is.
pub(crate) fn is_only_elsewhere(core: &Core, part: usize) -> bool {
    if core.sharing.reachability.of(part) == Reached::Yes {
        return false;
    }
    let reaches = |without: &Vec<usize>| !without.contains(&part);
    let live = core.holdings.live();
    live.iter().any(|live| live.engine != core.options.name && live.without.as_ref().is_some_and(reaches))
}
