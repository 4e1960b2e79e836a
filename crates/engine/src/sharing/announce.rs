//! Announces to the other engines what they would otherwise find only at their next check. Announcements are
//! gathered: one per partition, one per queue, with a pause between, so that ten thousand tasks a second cost only a
//! few hundred signals. Promises nothing; nothing waits for it.

pub(crate) mod state;

use crate::core::Core;
use punctual_contract::{Error, ownership::Signal};
use punctual_domain::time::Millis;
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

/// The pause between two announcements: signals are gathered meanwhile. The first one is sent immediately.
const PAUSE: Duration = Duration::from_millis(3);

/// The impossible due time that announces a released partition: its new owner checks it immediately.
pub(crate) const GIVEN_UP: Millis = Millis::ZERO;

/// A live engine answers within this. The message bus may take as long for an answer. Neither the caller nor
/// the receiver waits longer for anything.
pub(crate) const ANSWERS_WITHIN: Duration = Duration::from_millis(150);

/// The name of this operation in errors.
const ANNOUNCE: &str = "tell another engine";

/// Announces until the engine stops.
pub(crate) async fn run(core: Arc<Core>) -> Result<usize, Error> {
    let mut announced = 0;
    loop {
        tokio::select! {
            biased;
            () = core.work.stopping.cancelled() => return Ok(announced),
            () = core.sharing.announcer.something.notified() => {}
        }
        announced += run_once(&core).await?;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns the number of announced signals. Failed ones are not retried: their receivers poll at an interval.
pub(crate) async fn run_once(core: &Core) -> Result<usize, Error> {
    let signals = core.sharing.announcer.gathered(&core.options.name);
    let count = signals.len();
    if count > 0 {
        core.shared.signals.announce(signals).await?;
    }
    Ok(count)
}

/// Sends one engine a signal that is not gathered with others. An error states whether it may have been sent;
/// an engine that does not listen has not received it.
pub(crate) async fn send(core: &Core, signal: Signal) -> Result<(), Error> {
    let sent = timeout(ANSWERS_WITHIN, core.shared.signals.announce(vec![signal])).await;
    let silent = |_| Error::may_have_happened(ANNOUNCE, "no answer");
    match sent.map_err(silent)??.first() {
        Some(engine) => Err(Error::did_not_happen(ANNOUNCE, format!("engine {engine} does not listen"))),
        None => Ok(()),
    }
}
