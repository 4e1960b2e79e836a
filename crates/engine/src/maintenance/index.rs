//! Indexes tasks that were inserted before their queue declared a label as indexed. Works in small batches at
//! a bounded rate, in each database by the engine that leads there. Its progress is in the store, so that any
//! engine can continue.

use crate::{core::Core, parts};
use punctual_contract::Error;
use punctual_domain::time::Millis;
use std::{sync::Arc, time::Duration};

pub(crate) const PERIOD: Duration = Duration::from_millis(500);
/// Ids of one transaction, and transactions of one run: about 40,000 tasks a second, beside all due work.
const BATCH: usize = 1_000;
const BATCHES: usize = 20;

/// Tasks that were passed over.
pub(crate) async fn run_once(core: &Arc<Core>, _: Millis) -> Result<usize, Error> {
    parts::each(core, "index", parts::PATIENCE, run_in).await
}

async fn run_in(core: Arc<Core>, part: usize) -> Result<usize, Error> {
    let mut passed = 0;
    for _ in 0..BATCHES {
        if !core.leads_in(part) {
            break;
        }
        match core.store.index_labels_in(part, BATCH).await? {
            0 => break,
            ids => passed += ids,
        }
    }
    Ok(passed)
}
