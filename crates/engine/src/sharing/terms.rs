//! Terms that have fallen behind: the hot set has seen newer ones than the ownership back end gives. Either this engine is
//! out of date, or that back end has gone back in time (restored, or failed over with a loss), and then nothing would be
//! drained in its partitions for ever. Who is right is not decided here: the engine that still holds the partition by this tenure
//! *there* is given a term above all that the hot set has seen; to anybody else it is lost.
//!
//! Order of steps, and what an end between two of them leaves:
//! 1. The hot set says the newest term that it has seen. Nothing has changed.
//! 2. The back end raises the term, in one statement that is bound to engine, old term and a lease that has not ended. So a
//!    zombie raises nothing, and whatever owner comes later gets a higher term still. End here: the hot set does not know
//!    the new term; this engine, or the next owner, works by it from its next look on.
//! 3. The hot set forgets what it has of the partition: it is of a time that the store has lost, and newer fences there would
//!    keep out what is true now. End here: as after a loss of the hot set.
//! 4. The engine works on under the new term, and looks through the partition as if it had just been taken over. Its first
//!    drain tells the hot set the new term, and from then on the engine that works by an older one drains nothing.
//!
//! Must not raise a term that the back end has not confirmed.

pub(crate) mod state;

use crate::core::Core;
use punctual_contract::{Error, ownership::Tenure};
use std::sync::Arc;

/// The hot set refuses this tenure: the engine that shares the partitions looks at it at once.
pub(crate) fn superseded(core: &Core, tenure: Tenure, newest: i64) {
    core.sharing.superseded.0.lock().insert(tenure.partition, (tenure, newest));
    core.sharing.look_at_ownership.notify_one();
}

/// Gives what was superseded, and is still held, a newer term. Answers what is lost.
pub(crate) async fn raise(core: &Arc<Core>) -> Result<Vec<Tenure>, Error> {
    let found: Vec<(Tenure, i64)> = core.sharing.superseded.0.lock().values().copied().collect();
    let is_held = |pair: &(Tenure, i64)| core.holdings.tenure(pair.0.partition) == Some(pair.0);
    let (held, gone): (Vec<_>, Vec<_>) = found.into_iter().partition(is_held);
    gone.iter().for_each(|pair| core.sharing.superseded.clear(pair.0.partition));
    let Some(newest) = held.iter().map(|pair| pair.1).max() else { return Ok(Vec::new()) };
    let tenures: Vec<Tenure> = held.iter().map(|pair| pair.0).collect();
    let answers = core.shared.ownership.raise(&core.options.name, &tenures, newest).await?;
    let (mut lost, mut raised) = (Vec::new(), 0);
    for (before, answer) in tenures.into_iter().zip(answers) {
        core.sharing.superseded.clear(before.partition);
        let Some(tenure) = answer else {
            lost.push(before);
            continue;
        };
        raised += 1;
        if let Err(error) = core.hot.clear(tenure).await {
            tracing::warn!(%error, "what the hot set has of a time that is lost stays there until it is in the way");
        }
        core.holdings.gain(tenure);
        core.live.lock().open(tenure.partition);
    }
    if raised > 0 {
        tracing::error!(
            partitions = raised,
            seen = newest,
            "the hot set has seen newer terms than the store gives: the store was restored, or has lost its last \
             writes; the terms were raised, and firing continues"
        );
        core.meters.terms_raised(raised);
        core.filling.look_through.notify_one();
    }
    Ok(lost)
}
