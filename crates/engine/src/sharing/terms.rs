//! Superseded tenures: the hot set has seen newer terms than the ownership back end gives. Either this engine
//! is outdated, or that back end was set back (restored, or failed over with a loss), and then its partitions
//! would never be drained again. This module does not decide which. An engine that still holds the partition
//! by this tenure *in the back end* gets a term above all that the hot set has seen; for any other engine the
//! tenure is lost.
//!
//! Order of steps, and what an end between two of them leaves:
//! 1. The hot set returns the newest term that it has seen. Nothing has changed.
//! 2. The back end raises the term, in one statement that is bound to engine, old term and an unexpired lease. So an
//!    outdated engine raises nothing, and any later owner gets a still higher term. Crash here: the hot set does not
//!    know the new term; this engine, or the next owner, uses it from its next check on.
//! 3. The hot set drops its data of the partition: it dates from a time that the store has lost, and newer
//!    fences there would keep out current entries. Crash here: as after a loss of the hot set.
//! 4. The engine continues under the new term, and scans the partition as if it had just been taken over. Its
//!    first drain tells the hot set the new term; from then on an engine with an older one drains nothing.
//!
//! Must not raise a term that the back end has not confirmed.

pub(crate) mod state;

use crate::core::Core;
use punctual_contract::{Error, ownership::Tenure};
use std::sync::Arc;

/// Records that the hot set refuses this tenure: the service that divides the partitions checks it immediately.
pub(crate) fn superseded(core: &Core, tenure: Tenure, newest: i64) {
    core.sharing.superseded.0.lock().insert(tenure.partition, (tenure, newest));
    core.sharing.look_at_ownership.notify_one();
}

/// Gives superseded tenures that are still held a newer term. Returns the lost ones.
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
