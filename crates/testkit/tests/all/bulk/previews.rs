//! Nothing is said to match nothing before all was looked at: previews and searches among tasks of which few match.

use super::{
    CANCEL, DEFAULT, name,
    rig::{HOUR_MS, Rig, START, bulk, on_both},
};
use punctual_bulk::{Options as BulkOptions, Runner};
use punctual_contract::{Store as _, store::Query};
use punctual_domain::{
    bulk::{Bulk, BulkState, Filter},
    name::QueueKey,
    state::State,
    task::NewTask,
};

/// As many as a user had when the page said "No task matches now.", and 111 matched.
const TASKS: i64 = 65_000;
const MATCHING: i64 = 111;
const BATCH: i64 = 5_000;

/// Those that match came first: a walk from the newest on meets them last.
async fn fill(rig: &Rig) {
    let ask = |nth: i64| {
        let queue = QueueKey { namespace: DEFAULT(), queue: name("mail") };
        NewTask::new(queue, name(if nth < MATCHING { "odd" } else { "k" }), START.plus(HOUR_MS))
    };
    for from in (0..TASKS).step_by(usize::try_from(BATCH).unwrap()) {
        let asks = (from..from + BATCH).map(ask).collect();
        rig.store.insert(asks, "test", rig.now()).await.unwrap();
    }
}

/// No index leads to a kind without its queue.
fn of_kind() -> Bulk {
    Bulk { filter: Filter { kind: Some(name("odd")), ..Filter::default() }, ..bulk(CANCEL, "mail") }
}

/// A full page, or the last: as many calls as a slow machine needs, each of which says that it has not come to an end.
async fn page(rig: &Rig, query: &mut Query) -> Vec<i64> {
    let (wanted, mut ids) = (query.limit, Vec::new());
    loop {
        let found = rig.engine.search(query, wanted - ids.len(), |_| true).await.unwrap();
        ids.extend(found.page.tasks.iter().map(|task| task.place.id));
        query.before_id = found.page.next_before_id;
        if found.is_complete {
            assert!(ids.len() == wanted || query.before_id.is_none(), "not full, and not the last");
            return ids;
        }
        assert!(query.before_id.is_some() && found.page.examined > 0, "it says where it goes on");
    }
}

on_both!(a_preview_that_has_not_looked_at_all_says_at_least_and_is_counted_on);
async fn a_preview_that_has_not_looked_at_all_says_at_least_and_is_counted_on(rig: Rig) {
    fill(&rig).await;
    let whole = rig.runner.preview(&DEFAULT(), of_kind(), "ada").await.unwrap();
    assert_eq!((whole.stored.progress.count, whole.stored.progress.count_is_exact), (111, true));
    let found = rig.runner.tasks(&whole.stored, None, 20).await.unwrap();
    assert_eq!((found.tasks.len(), found.is_complete), (20, true), "some of them are shown");
    // The same where a caller waits for one look only.
    let options = BulkOptions { preview_looks: 1, ..BulkOptions::default() };
    let runner = Runner::new(rig.engine.clone(), rig.bulks.clone(), options, None);
    let begun = runner.preview(&DEFAULT(), of_kind(), "ada").await.unwrap().stored;
    assert_eq!((begun.progress.count, begun.progress.count_is_exact), (0, false), "at least none");
    let found = runner.tasks(&begun, None, 20).await.unwrap();
    assert_eq!((found.tasks.len(), found.is_complete, found.next.is_some()), (0, false, true));
    assert!(found.examined >= 19_000, "{}", found.examined);
    let mut last = begun.clone();
    for _ in 0..10 {
        runner.run_once(rig.now()).await.unwrap();
        last = rig.get(begun.id).await;
        assert_eq!(last.state, BulkState::Previewed);
        if last.progress.count_is_exact {
            break;
        }
    }
    assert_eq!((last.progress.count, last.progress.count_is_exact, last.wake_at), (111, true, None));
    assert!(last.step > begun.step);
    let confirmed = runner.confirm(&DEFAULT(), begun.id, |step| step == begun.step, "ada").await.unwrap();
    assert_eq!(confirmed.after.state, BulkState::Running, "it is the preview that was looked at");
}

on_both!(what_is_confirmed_before_its_count_is_complete_is_done_to_all);
async fn what_is_confirmed_before_its_count_is_complete_is_done_to_all(rig: Rig) {
    fill(&rig).await;
    let options = BulkOptions { preview_looks: 1, ..BulkOptions::default() };
    let runner = Runner::new(rig.engine.clone(), rig.bulks.clone(), options, None);
    let id = runner.preview(&DEFAULT(), of_kind(), "ada").await.unwrap().stored.id;
    runner.run_once(rig.now()).await.unwrap();
    let confirmed = runner.confirm(&DEFAULT(), id, |step| step == 1, "ada").await.unwrap().after;
    assert_eq!((confirmed.progress.count_is_exact, confirmed.progress.counting_below), (false, None));
    let ended = rig.until_the_end(id).await;
    assert_eq!((ended.state, ended.progress.tally.done), (BulkState::Done, 111));
    let cancelled = Query {
        namespace: Some(DEFAULT()),
        queue: Some(name("mail")),
        state: Some(State::Cancelled),
        ..Query::default()
    };
    assert_eq!(
        page(&rig, &mut Query { limit: 200, ..cancelled }).await.len(),
        111,
        "the state within the queue"
    );
}

on_both!(a_page_is_full_unless_nothing_more_matches);
async fn a_page_is_full_unless_nothing_more_matches(rig: Rig) {
    fill(&rig).await;
    let of = |queue: Option<&str>| Query {
        namespace: Some(DEFAULT()),
        queue: queue.map(name),
        kind: Some(name("odd")),
        limit: 50,
        ..Query::default()
    };
    for queue in [None, Some("mail")] {
        let (mut query, mut ids) = (of(queue), Vec::new());
        for full in [50, 50, 11] {
            let found = page(&rig, &mut query).await;
            assert_eq!(found.len(), full, "{queue:?}");
            ids.extend(found);
        }
        assert!(query.before_id.is_none() && ids.windows(2).all(|pair| pair[0] > pair[1]), "{queue:?}");
    }
    // Sifted by the caller, too: one in ten is seen.
    let found = rig.engine.search(&of(Some("mail")), 11, |task| task.place.id % 10 == 0).await.unwrap();
    assert!(found.page.tasks.len() >= 10 || !found.is_complete, "{}", found.page.tasks.len());
    let nobody = Query { queue: Some(name("nobody")), ..of(None) };
    let found = rig.engine.search(&nobody, 50, |_| true).await.unwrap();
    assert_eq!((found.page.tasks.len(), found.is_complete, found.page.examined), (0, true, 0));
}
