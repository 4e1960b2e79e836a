//! Tells the other engines what they would otherwise find only at their next look. What is to be said is gathered:
//! one line a partition, one a queue, and a pause between two announcements, so that ten thousand tasks a second
//! cost no more than a few hundred signals. Promises nothing; nothing waits for it.

pub(crate) mod state;

use crate::core::Core;
use punctual_contract::{Error, ownership::Signal};
use punctual_domain::time::Millis;
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

/// Between two announcements: what comes meanwhile goes together. The first one waits for nothing.
const PAUSE: Duration = Duration::from_millis(3);

/// "Due" at this time, which no task is, says that the partition was given up: the engine that should own it looks at once.
pub(crate) const GIVEN_UP: Millis = Millis::ZERO;

/// An engine that is not dead answers within this. The message bus may take as long for an answer: the caller, and who is asked, waits for
/// nothing longer.
pub(crate) const ANSWERS_WITHIN: Duration = Duration::from_millis(150);

/// What `send` does, in its errors.
const TELL: &str = "tell another engine";

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

/// Signals announced. What could not be is not tried again: the engine that should have heard it looks at an interval.
pub(crate) async fn run_once(core: &Core) -> Result<usize, Error> {
    let signals = core.sharing.announcer.gathered(&core.options.name);
    let count = signals.len();
    if count > 0 {
        core.shared.signals.announce(signals).await?;
    }
    Ok(count)
}

/// Tells one engine something that is not gathered with other signals. An error says whether it may have been sent; an engine that
/// does not listen has not heard it.
pub(crate) async fn send(core: &Core, signal: Signal) -> Result<(), Error> {
    let sent = timeout(ANSWERS_WITHIN, core.shared.signals.announce(vec![signal])).await;
    let silent = |_| Error::may_have_happened(TELL, "no answer");
    match sent.map_err(silent)??.first() {
        Some(engine) => Err(Error::did_not_happen(TELL, format!("engine {engine} does not listen"))),
        None => Ok(()),
    }
}
