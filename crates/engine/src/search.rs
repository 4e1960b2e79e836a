//! Searches for callers. Without a key, the store reads tasks page by page, and most pages may have no match.
//! So that no page is empty while a task matches, the search continues until the page is full, no more tasks
//! match, or its time is over. Bounded in time, and in the number of concurrent searches; the answer says how
//! far it got.

use crate::core::Core;
use punctual_contract::{
    Error,
    store::{Along, DuePosition, Page, Query},
};
use punctual_domain::task::Task;
use std::time::Duration;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};

/// The time in which a search tries to fill a page: a caller that continues then pays for one more call.
const BUDGET: Duration = Duration::from_secs(2);
/// Searches that continue beyond their first page at the same time, over all engines of this process.
const AT_ONCE: usize = 4;

static LOOKING_ON: Semaphore = Semaphore::const_new(AT_ONCE);

/// The result of a search.
#[derive(Debug)]
pub struct SearchResult {
    /// The page, with the position after the last of its tasks, or after the last one read.
    pub page: Page,
    /// The page is full, or no more tasks match.
    pub is_complete: bool,
}

/// The first `wanted` tasks that match and that `sees` accepts; the query's limit is per read.
pub(crate) async fn filled(
    core: &Core,
    query: &Query,
    wanted: usize,
    sees: impl Fn(&Task) -> bool + Send,
) -> Result<SearchResult, Error> {
    let (mut query, began, wanted) = (query.clone(), Instant::now(), wanted.max(1));
    let (mut tasks, mut examined, mut looks, mut turn) = (Vec::new(), 0_u64, 0_u32, None);
    loop {
        let mut page = core.store.list(&query).await?;
        looks += 1;
        examined = examined.saturating_add(page.examined);
        let seen = std::mem::take(&mut page.tasks);
        tasks.extend(seen.into_iter().filter(&sees));
        if tasks.len() > wanted {
            tasks.truncate(wanted);
            go_on_behind(&mut page, &query, tasks.last());
        }
        let is_complete = tasks.len() >= wanted || !page.has_next();
        // Each look is assumed to take as long as the previous ones.
        let is_over = began.elapsed() * (looks + 1) / looks > BUDGET;
        if !is_complete && !is_over && turn.is_none() {
            turn = timeout_at(began + BUDGET, LOOKING_ON.acquire()).await.ok();
        }
        if is_complete || is_over || turn.is_none() {
            return Ok(SearchResult { page: Page { tasks, examined, ..page }, is_complete });
        }
        (query.before_id, query.behind_due) = (page.next_before_id, page.next_behind_due);
        query.after_id = page.next_after_id;
    }
}

/// The next page begins behind a task of this one.
fn go_on_behind(page: &mut Page, query: &Query, last: Option<&Task>) {
    (page.next_before_id, page.next_after_id, page.next_behind_due, page.newest_id) =
        (None, None, None, None);
    let id = last.map(|task| task.place.id);
    match page.along {
        Along::DueTime => page.next_behind_due = last.map(DuePosition::of),
        _ if query.oldest_first => page.next_after_id = id,
        Along::Ids | Along::Label | Along::Dead | Along::Chunks => page.next_before_id = id,
    }
}
