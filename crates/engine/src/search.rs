//! A search of callers. Where no key answers, the store passes over tasks page by page, and most pages may have nothing: so that
//! a caller does not go through them, it is looked on for a while. Bounded in time; what was looked through is said.

use crate::core::Core;
use punctual_contract::{
    Error,
    store::{Page, Query},
};
use std::time::Duration;
use tokio::time::Instant;

/// A page that has found nothing is no answer as long as the next one can be there by then. Short enough that a person who looks at a page in the console sees how far
/// it was looked within 200 ms; a program pays for one more call.
const PATIENCE: Duration = Duration::from_millis(100);

/// The first page that has something; or none has, as far as it was looked.
pub(crate) async fn first_found(core: &Core, query: &Query) -> Result<Page, Error> {
    let began = Instant::now();
    let mut page = core.store.list(query).await?;
    let (mut query, mut pages) = (query.clone(), 1);
    // Pages pass over as much as each other.
    while page.tasks.is_empty() && page.has_next() && began.elapsed() * (pages + 1) / pages <= PATIENCE {
        (query.before_id, query.behind_due) = (page.next_before_id, page.next_behind_due);
        query.after_id = page.next_after_id;
        page = core.store.list(&query).await?;
        pages += 1;
    }
    Ok(page)
}
