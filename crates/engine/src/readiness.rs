//! Whether this engine can do its work, for whoever sends callers here: the writers of the store are tried every few
//! seconds, so that to ask costs nothing. Decides nothing else: what an engine gives up is `sharing::fitness`'s.

use crate::{
    core::Core,
    engine::Engine,
    sharing::fitness::{self, Pulse},
};
use parking_lot::Mutex;
use punctual_contract::Error;
use std::{sync::Arc, time::Duration};

pub(crate) const PERIOD: Duration = Duration::from_secs(2);
/// A failure may be a passing one: it is tried once more after this before it counts.
const AGAIN_AFTER: Duration = Duration::from_millis(250);
/// Writers that have not answered for so long do not write.
const SILENT_AFTER: Duration = Duration::from_secs(10);
/// A service that panicked so often in a row, and never came to do anything between, is gone.
const PANICS_IN_A_ROW: u64 = 3;

/// What the last look at the writers found.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    /// Of a look that went well. Until the first one was asked for, nothing is missed.
    written: Pulse,
    failure: Mutex<Option<String>>,
}

/// One look.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, Error> {
    let mut checked = core.store.check_writers().await;
    if checked.is_err() {
        tokio::time::sleep(AGAIN_AFTER).await;
        checked = core.store.check_writers().await;
    }
    let failure = checked.as_ref().err().map(ToString::to_string);
    if failure.is_none() {
        core.writers.written.beat();
    }
    *core.writers.failure.lock() = failure;
    checked.map(|()| 1)
}

/// From now on it is missed.
pub(crate) fn begin(core: &Core) {
    core.writers.written.beat();
}

impl Engine {
    /// Whether each writer of the store could write when last tried; if not, why.
    ///
    /// # Errors
    /// A sentence for people.
    pub fn can_write(&self) -> Result<(), String> {
        let writers = &self.core.writers;
        if let Some(failure) = &*writers.failure.lock() {
            return Err(failure.clone());
        }
        match writers.written.silent_for() {
            Some(silent) if silent > SILENT_AFTER => {
                Err(format!("a writer has not answered for {} s", silent.as_secs()))
            }
            _ => Ok(()),
        }
    }

    /// Whether all that makes tasks fire is at work; if not, what is missing.
    ///
    /// # Errors
    /// A sentence for people.
    pub fn can_fire(&self) -> Result<(), String> {
        if let Some(why) = fitness::unfit(&self.core) {
            return Err(why.reason().to_owned());
        }
        let services = self.core.meters.services();
        match services.iter().find(|it| it.panics_in_a_row >= PANICS_IN_A_ROW) {
            Some(gone) => Err(format!("service {:?} panics again and again", gone.name)),
            None => Ok(()),
        }
    }
}
