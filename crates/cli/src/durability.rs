//! Checks that the databases are new enough, and keep what they acknowledge: before an engine starts, which then
//! refuses to start, and again while it runs, when it reports the weakness. The sentences are the store's; `punctual
//! doctor` has the same.

use crate::config::{SharedPlace, WEAK_DURABILITY};
use anyhow::{Result, bail};
use punctual_contract::Error;
use punctual_engine::{Engine, Running};
use punctual_store::{MysqlDoctor, MysqlStore};
use std::time::Duration;

/// The pause between two checks while an engine runs.
const INTERVAL: Duration = Duration::from_secs(15);

/// A server that is too old, or refuses the writes of engines, is refused. So is one that may lose what it has
/// acknowledged; if the operator insists, each start warns about it.
pub(crate) async fn check(place: &SharedPlace) -> Result<()> {
    for url in &place.mysql_urls {
        let server = MysqlDoctor::new(url)?;
        if let Some(problem) = server.settings().await?.problem() {
            bail!("{}: {problem}", server.at());
        }
    }
    let found = MysqlStore::weaknesses(&place.mysql_urls).await?;
    if !found.is_empty() && !place.allows_weak_durability {
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        bail!("{}; or set {WEAK_DURABILITY} = true to run all the same", found.join("; "));
    }
    for weakness in found {
        tracing::error!(%weakness, "tasks that were acknowledged may be lost, as the operator has allowed");
    }
    Ok(())
}

/// A setting of a server can be changed while it runs.
pub(crate) fn supervise(running: &Running, engine: &Engine, place: &SharedPlace) {
    let (engine, urls) = (engine.clone(), place.mysql_urls.clone());
    running.supervise("durability", INTERVAL, move |_| {
        let (engine, urls) = (engine.clone(), urls.clone());
        async move {
            let found = MysqlStore::weaknesses(&urls).await;
            let found =
                found.map_err(|error| Error::did_not_happen("look at the durability of the store", error))?;
            engine.found_weaknesses(found.iter().map(ToString::to_string).collect());
            Ok(urls.len())
        }
    });
}
