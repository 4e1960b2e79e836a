//! What was committed here and could not be loaded, because the hot set did not answer this engine: it lies behind its owner's
//! frontier, and only the owner's sweep would find it, late. Remembered as one span of time a partition, and loaded from the
//! store as soon as the hot set answers again, whoever owns the partition. Never the only way: a crash forgets it, and the
//! sweep finds what is overdue.

pub(crate) mod state;

use crate::{core::Core, parts, pipeline::preload};
use punctual_contract::Error;
use punctual_domain::{place::Partition, time::Millis};
use state::widen;
use std::sync::Arc;

/// Entries loaded, each part of the store by itself. What fails is tried again with the next run.
pub(crate) async fn load(core: &Arc<Core>) -> Result<usize, Error> {
    if core.filling.missed.spans.lock().is_empty() {
        return Ok(0);
    }
    parts::each(core, "missed", parts::PATIENCE, |core, part| async move { load_in(&core, part).await }).await
}

async fn load_in(core: &Arc<Core>, part: usize) -> Result<usize, Error> {
    let is_there = |it: &Partition, _: &mut (Millis, Millis)| parts::is_in(core, part, *it);
    let spans: Vec<_> = core.filling.missed.spans.lock().extract_if(is_there).collect();
    let (mut loaded, mut result) = (0, Ok(()));
    for (partition, span) in spans {
        match preload::load_span(core, partition, span).await {
            Ok(count) => loaded += count,
            Err(error) => {
                widen(&mut core.filling.missed.spans.lock(), partition, span);
                result = Err(error);
            }
        }
    }
    result.map(|()| loaded)
}
