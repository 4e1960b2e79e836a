//! What an engine must have in common with those that are alive on its store, before it starts. Must not take anything from them.
//!
//! Order of steps: (1) Whether others differ. (2) This engine says that it is alive, and that it reaches no database: it gets no
//! partition. (3) Whether others differ, once more. Of two engines that start at one instant each has said so before its second look, so
//! that one of them at least sees the other; where both do, the one whose name is first ends. A crash behind 2 is forgotten after
//! fifteen seconds: a start may take so long.

use anyhow::{Result, bail};
use punctual_contract::{Ownership as _, ownership::Says};
use punctual_store::MysqlOwnership;
use std::time::Duration;
use tokio::time::sleep;

/// An engine that was killed counts as alive for two seconds: so many looks, and so long between them, before a start is refused.
const OTHERS_LOOKS: u32 = 8;
const OTHERS_PAUSE: Duration = Duration::from_millis(500);
/// It counts as alive for so long until it runs and says so itself.
const STARTS_WITHIN: Duration = Duration::from_secs(15);

/// Engines with a Redis and engines without one share no limits, and pass each other no tasks. `databases`: how many there are.
pub(crate) async fn agree(
    ownership: &MysqlOwnership,
    engine: &str,
    has_redis: bool,
    databases: usize,
) -> Result<()> {
    let mut looks = 0;
    while let Some(other) = ownership.engines_that_differ(engine).await?.first() {
        if looks == OTHERS_LOOKS {
            bail!(refusal(other, has_redis));
        }
        looks += 1;
        sleep(OTHERS_PAUSE).await;
    }
    agree_with_newcomers(ownership, engine, has_redis, databases).await
}

/// Those that have begun to live since the first look.
async fn agree_with_newcomers(
    ownership: &MysqlOwnership,
    engine: &str,
    has_redis: bool,
    databases: usize,
) -> Result<()> {
    let says = Says { has_hot: has_redis, without: (0..databases).collect() };
    for look in 0..=OTHERS_LOOKS {
        ownership.beat(engine, STARTS_WITHIN, &says).await?;
        let differing = ownership.engines_that_differ(engine).await?;
        let Some(other) = differing.first() else { return Ok(()) };
        // One of the two goes at once, and the other one waits for that; one that is at work already does not go.
        if engine < other.as_str() || look == OTHERS_LOOKS {
            ownership.leave(engine).await?;
            bail!(refusal(other, has_redis));
        }
        sleep(OTHERS_PAUSE).await;
    }
    Ok(())
}

fn refusal(other: &str, has_redis: bool) -> String {
    let (theirs, own) = if has_redis { ("no", "has one") } else { ("a", "has none") };
    format!(
        "engine {other} of this store runs with {theirs} Redis, and this engine {own} (hot.url): they would share no limits. Give all \
         engines the same hot.url; to change it, stop all engines first"
    )
}
