//! Reports to load balancers if this engine can work. The writers of the store are checked every few seconds, so that
//! a request costs nothing. Decides nothing else: `sharing::self_check` decides when an engine gives up its
//! partitions.

pub(crate) mod state;

use crate::{core::Core, engine::Engine, sharing::self_check};
use futures_util::future::join_all;
use punctual_contract::Error;
use state::ComponentStatus;
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

pub(crate) const PERIOD: Duration = Duration::from_secs(2);
/// A failure may be a passing one: it is tried once more after this before it counts.
const AGAIN_AFTER: Duration = Duration::from_millis(250);
/// A database whose writers take longer is not waited for, so that the others are reported.
const ANSWERS_WITHIN: Duration = Duration::from_secs(4);
/// A service that panicked this often in a row, without a completed run between, counts as gone.
const PANICS_IN_A_ROW: u64 = 3;

/// Checks each database once, concurrently: an unavailable one hides nothing of the others.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, Error> {
    let looks = (0..core.store.parts()).map(|part| look(core, part));
    let (mut well, mut failed) = (0, None);
    for looked in join_all(looks).await {
        match looked {
            Ok(()) => well += 1,
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(well), Err)
}

async fn look(core: &Core, part: usize) -> Result<(), Error> {
    let mut checked = check(core, part).await;
    if checked.is_err() {
        tokio::time::sleep(AGAIN_AFTER).await;
        checked = check(core, part).await;
    }
    core.health.writers.of(part, |part| {
        part.failure = checked.as_ref().err().map(ToString::to_string);
        if part.failure.is_none() {
            part.written.beat();
        }
    });
    checked
}

async fn check(core: &Core, part: usize) -> Result<(), Error> {
    let silent = |_| Err(Error::may_have_happened("check the writers", "no answer in time"));
    timeout(ANSWERS_WITHIN, core.store.check_writers_in(part)).await.unwrap_or_else(silent)
}

/// Begins the supervision. From now on missing writes are noticed.
pub(crate) fn begin(core: &Core) {
    for part in 0..core.store.parts() {
        core.health.writers.of(part, |part| part.written.beat());
    }
}

impl Engine {
    /// Checks that something can be written: in one database of several at least, when last tried. The error is the
    /// reason.
    ///
    /// # Errors
    /// A sentence for people.
    pub fn can_write(&self) -> Result<(), String> {
        let problems = self.write_problems();
        let is_all = !problems.is_empty() && problems.len() == self.core.health.writers.0.lock().len();
        if is_all { Err(problems.join("; ")) } else { Ok(()) }
    }

    /// Why databases could not be written when last tried, each that could not. Empty: all can.
    #[must_use]
    pub fn write_problems(&self) -> Vec<String> {
        self.core.health.writers.0.lock().iter().filter_map(ComponentStatus::problem).collect()
    }

    /// Checks that everything that fires tasks works. The error names what is missing.
    ///
    /// # Errors
    /// A sentence for people.
    pub fn can_fire(&self) -> Result<(), String> {
        if let Some(why) = self_check::unhealthy(&self.core) {
            return Err(why.reason().to_owned());
        }
        let services = self.core.meters.services();
        match services.iter().find(|service| service.panics_in_a_row >= PANICS_IN_A_ROW) {
            Some(gone) => Err(format!("service {:?} panics again and again", gone.name)),
            None => Ok(()),
        }
    }
}
