//! An engine whose wall clock disagrees with the others gives its partitions to engines whose clocks agree:
//! its time is good, but rests on one witness less. If no engine takes them, it continues: an engine that is
//! alone, or whose neighbours have the same trouble, is better than none. Must not decide what time it is.

pub(crate) mod state;

use crate::{clock, core::Core};
use punctual_contract::Error;
use state::Stage;
use std::time::Duration;

/// The maximum number of checks in which no engine has acquired the released partitions: about five seconds.
const LOOKS_MAX: u32 = 10;

/// True if this engine should own no partition now.
pub(crate) async fn is_due(core: &Core) -> Result<bool, Error> {
    let stage = *core.sharing.aside.0.lock();
    let next = match stage {
        _ if !clock::is_unhealthy(core) => Stage::TakesPart,
        Stage::GoesOn => Stage::GoesOn,
        _ if core.holdings.len() > 0 && core.holdings.has_others() => Stage::Aside(0),
        Stage::TakesPart if core.holdings.len() > 0 => Stage::TakesPart,
        _ if others_own(core).await? => Stage::Aside(0),
        Stage::Aside(LOOKS_MAX) => {
            tracing::error!(
                "no other engine has taken the partitions: this one continues by its steady clock"
            );
            Stage::GoesOn
        }
        Stage::Aside(looks) => Stage::Aside(looks + 1),
        Stage::TakesPart => Stage::TakesPart,
    };
    *core.sharing.aside.0.lock() = next;
    Ok(matches!(next, Stage::Aside(_)))
}

/// True if, as of the last check, this engine has released its partitions: it sends no heartbeat.
pub(crate) fn is_aside(core: &Core) -> bool {
    matches!(*core.sharing.aside.0.lock(), Stage::Aside(_))
}

async fn others_own(core: &Core) -> Result<bool, Error> {
    let owners = core.shared.ownership.owners().await?;
    Ok(owners.iter().any(|owner| owner.engine != core.options.name && owner.left > Duration::ZERO))
}
