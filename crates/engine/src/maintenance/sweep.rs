//! Finds tasks that are overdue in the store and in no hot set: what a crash between a commit and the load that
//! follows it leaves, or a hot set that lost its memory. What could not be sent it shows to the compensator; what lies in
//! this engine has fired, and is left there. Changes no row. Bounded: it goes on where it stopped, and starts over at the
//! end.

use crate::{
    core::Core,
    maintenance::stuck::Stuck,
    parts,
    pipeline::{fire, from_store, preload},
};
use parking_lot::Mutex;
use punctual_contract::{Error, hot::HotEntry, store::Scan};
use punctual_domain::{place::Partition, time::Millis};
use std::sync::Arc;

/// Rows looked at in one partition in one run.
const SWEEP_LIMIT: usize = 500;

#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// By partition, where to go on.
    positions: Mutex<Vec<Option<(Millis, i64)>>>,
    stuck: Stuck,
}

impl Sweep {
    /// Tasks that had to be loaded again.
    pub(crate) async fn run_once(self: &Arc<Self>, core: &Arc<Core>, now: Millis) -> Result<usize, Error> {
        if core.from_store.is_away() {
            return Ok(0);
        }
        parts::each(core, "sweep", parts::PATIENCE, |core, part| {
            let sweep = Arc::clone(self);
            async move { sweep.sweep(&core, part, now).await }
        })
        .await
    }

    /// One part of the store.
    async fn sweep(&self, core: &Arc<Core>, part: usize, now: Millis) -> Result<usize, Error> {
        let until = now.plus(-core.options.overdue_after_ms);
        let (mut found, mut result) = (0, Ok(()));
        for partition in parts::owned(core, part) {
            match self.sweep_partition(core, partition, until, now).await {
                Ok(count) => found += count,
                Err(error) => result = Err(error),
            }
        }
        if found > 0 {
            tracing::warn!(tasks = found, "overdue tasks were in no hot set and have been loaded");
            core.meters.swept(found);
            // They are overdue: they are claimed as they fire.
            result = result.and(fire::fire_all(core).await.map(drop));
        }
        result.map(|()| found)
    }

    async fn sweep_partition(
        &self,
        core: &Arc<Core>,
        partition: Partition,
        until: Millis,
        now: Millis,
    ) -> Result<usize, Error> {
        let nth = usize::from(partition.0);
        let after = self.positions.lock().get(nth).copied().flatten();
        let page = core.store.scan(Scan { partition, until, after, limit: SWEEP_LIMIT }).await?;
        let next = (page.len() == SWEEP_LIMIT).then(|| page.last().map(HotEntry::key)).flatten();
        self.remember(nth, next);
        let mut page = core.unsent.sort_out(page, now);
        page.retain(|it| !core.has(it));
        let page = self.stuck.sort_out(core, page, now).await?;
        if page.is_empty() { Ok(0) } else { load(core, page).await }
    }

    fn remember(&self, nth: usize, position: Option<(Millis, i64)>) {
        let mut positions = self.positions.lock();
        if positions.len() <= nth {
            positions.resize(nth + 1, None);
        }
        if let Some(it) = positions.get_mut(nth) {
            *it = position;
        }
    }
}

/// What there is no room for fires from the store: it is overdue.
async fn load(core: &Arc<Core>, mut page: Vec<HotEntry>) -> Result<usize, Error> {
    let (reload, leased) = core.ahead.reload(&mut page, core.now());
    preload::give_back_soon(core, leased);
    match core.hot.load(page.clone()).await {
        Ok(loaded) => {
            reload.answered();
            Ok(loaded)
        }
        Err(error) => {
            tracing::warn!(%error, tasks = page.len(), "overdue tasks cannot be loaded, and fire from the store");
            from_store::fire(core, page).await?;
            Ok(0)
        }
    }
}
