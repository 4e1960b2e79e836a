//! Tells the store which tasks have fired and wait for an executor. A task that is taken at once never needs it, so
//! it is done a moment later and in batches; nothing but what is shown rests on it.

use crate::{core::Core, options::STEP_LIMIT};
use punctual_contract::{
    Error,
    store::{Change, Step},
};
use punctual_domain::time::Millis;

/// Tasks that have waited this long are worth the write.
const WORTH_MS: i64 = 250;

pub(crate) async fn run_once(core: &Core, now: Millis) -> Result<usize, Error> {
    let before = now.plus(-WORTH_MS);
    let now = core.now();
    let old: Vec<_> = {
        let unmarked = core.unmarked.lock();
        let old = unmarked.values().filter(|it| it.fired_at <= before);
        old.copied().take(STEP_LIMIT * 10).collect()
    };
    for chunk in old.chunks(STEP_LIMIT) {
        let steps = chunk
            .iter()
            .map(|it| Step {
                place: it.place,
                fence: Some(it.fence),
                change: Change::Fire { fired_at: it.fired_at },
                note: core.note(),
            })
            .collect();
        // Moved, or handed over meanwhile: either way the store knows.
        core.store.apply(steps, now).await?;
        let mut unmarked = core.unmarked.lock();
        for it in chunk {
            if unmarked.get(&it.place.id).is_some_and(|now| now.fence == it.fence) {
                unmarked.remove(&it.place.id);
            }
        }
    }
    Ok(old.len())
}
