//! What an engine must have in common with those that are alive on its store, before it starts. Must not change anything.

use anyhow::{Result, bail};
use punctual_store::MysqlOwnership;
use std::time::Duration;
use tokio::time::sleep;

/// An engine that was killed counts as alive for two seconds: so many looks, and so long between them, before a start is refused.
const OTHERS_LOOKS: u32 = 8;
const OTHERS_PAUSE: Duration = Duration::from_millis(500);

/// Engines with a Redis and engines without one share no limits, and pass each other no tasks.
pub(crate) async fn agree(ownership: &MysqlOwnership, engine: &str, has_redis: bool) -> Result<()> {
    let mut looks = 0;
    while let Some(other) = ownership.engines_that_differ(engine).await?.first() {
        if looks == OTHERS_LOOKS {
            let (theirs, own) = if has_redis { ("no", "has one") } else { ("a", "has none") };
            bail!(
                "engine {other} of this store runs with {theirs} Redis, and this engine {own} (hot.url): they would share no \
                 limits. Give all engines the same hot.url; to change it, stop all engines first"
            );
        }
        looks += 1;
        sleep(OTHERS_PAUSE).await;
    }
    Ok(())
}
