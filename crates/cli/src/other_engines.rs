//! Compares an engine with the live engines of its store, before it starts. Must not take anything from them.
//!
//! Order of steps: (1) Compare with the others. (2) This engine announces that it is alive, and that it reaches no
//! database: it gets no partition. (3) Compare with the others once more. Of two engines that start at one instant
//! each has announced itself before its second comparison, so that at least one of them sees the other; if both do,
//! the one whose name is first ends. An announcement without a start after step 2 is removed after fifteen seconds: a
//! start may take so long.

use anyhow::{Result, bail};
use punctual_contract::{Ownership as _, ownership::Says};
use punctual_store::MysqlOwnership;
use std::time::Duration;
use tokio::time::sleep;

/// The number of checks, and the pause between them, before a start is refused: an engine that was killed counts as
/// alive for two seconds.
const OTHERS_LOOKS: u32 = 8;
const OTHERS_PAUSE: Duration = Duration::from_millis(500);
/// The time for which the engine counts as alive before it runs and sends heartbeats itself.
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

/// Compares with the engines that have started since the first check.
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
