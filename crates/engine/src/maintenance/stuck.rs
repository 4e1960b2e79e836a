//! Overdue tasks that were loaded again and again and do not fire: the hot set keeps something under their id that it takes
//! to be newer, or gives nothing to this engine. The store says what is so: first what stands in their way is taken out of
//! the hot set, so that they fire the usual way; what is still overdue after that fires from the store.
//!
//! What merely waits for its turn behind others is not stuck: only what takes have passed by is counted. Counting too much
//! costs a task that comes twice to the ready sets, and is refused once by its fence.

pub(crate) mod state;

use crate::{core::Core, pipeline::from_store};
use punctual_contract::{Error, hot::HotEntry};
use punctual_domain::{state::State, time::Millis};
use state::Next;
use std::sync::Arc;

/// One page of the sweep: those that are to be loaded, now that nothing stands in their way. The rest has fired.
pub(super) async fn sort_out(
    core: &Arc<Core>,
    page: Vec<HotEntry>,
    now: Millis,
) -> Result<Vec<HotEntry>, Error> {
    let (mut load, mut cleared, mut fired) = (Vec::new(), Vec::new(), Vec::new());
    for it in page {
        match if is_passed_by(core, &it) { core.maintenance.stuck.look(&it, now) } else { Next::Load } {
            Next::Load => load.push(it),
            Next::ClearAndLoad => {
                cleared.push((it.place.partition, it.place.id, i64::MAX));
                load.push(it);
            }
            Next::FireFromStore => fired.push(it),
        }
    }
    let mut result = Ok(());
    if !cleared.is_empty() {
        tracing::warn!(
            tasks = cleared.len(),
            "overdue tasks do not fire; what the hot set has under their ids is forgotten"
        );
        core.meters.stuck(cleared.len());
        result = core.hot.settle(&cleared).await;
    }
    if !fired.is_empty() {
        tracing::warn!(
            tasks = fired.len(),
            "overdue tasks cannot be had from the hot set, and fire from the store"
        );
        from_store::fire(core, fired).await?;
    }
    result.map(|()| load)
}

/// The store says that it has not fired, nothing here knows better, and what is due as late has been taken.
pub(super) fn is_passed_by(core: &Core, entry: &HotEntry) -> bool {
    matches!(entry.state, State::Scheduled | State::Retrying | State::Dispatching)
        && entry.due_at <= core.holdings.taken_until(entry.place.partition)
        && !core.live.lock().has_fired_since(entry)
}
