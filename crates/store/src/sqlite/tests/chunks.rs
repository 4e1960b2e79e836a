//! Tests of the index of chunks: tasks that are older than the index, and deleted tasks.

use super::{files::Place, *};
use punctual_contract::{LabelStore as _, store::Query};
use rusqlite::Connection;

fn of(queue: &str) -> Query {
    let (namespace, queue) = (Some(Name::default_namespace()), Some(Name::new(queue).unwrap()));
    Query { namespace, queue, limit: 100, ..Query::default() }
}

/// Ids of rows, over all pages.
async fn found(store: &SqliteStore, queue: &str) -> Vec<i64> {
    let (mut query, mut ids) = (of(queue), Vec::new());
    loop {
        let page = store.list(&query).await.unwrap();
        ids.extend(page.tasks.iter().map(|task| task.place.id));
        query.before_id = page.next_before_id;
        if query.before_id.is_none() {
            return ids;
        }
    }
}

fn rows(conn: &Connection) -> Vec<(String, i64)> {
    let mut all = conn.prepare("SELECT DISTINCT queue, chunk FROM task_chunk ORDER BY 1, 2").unwrap();
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    all.query_map([], row).unwrap().collect::<rusqlite::Result<_>>().unwrap()
}

async fn fill(store: &SqliteStore) -> Vec<i64> {
    let asks = (0..3_000).map(|nth| ask(if nth % 500 == 7 { "orders" } else { "mail" })).collect();
    let stored = store.insert(asks, "test", NOW).await.unwrap();
    let orders = stored.iter().filter(|inserted| inserted.task.ask.queue.queue.as_str() == "orders");
    let mut ids: Vec<i64> = orders.map(|order| order.task.place.id).collect();
    ids.reverse();
    ids
}

#[tokio::test]
async fn what_stood_before_an_upgrade_is_found_before_it_is_entered_and_after() {
    let place = Place::new();
    let store = place.open();
    let orders = fill(&store).await;
    store.close();
    let before = Connection::open(place.path()).unwrap();
    let entered = rows(&before);
    before
        .execute_batch(
            "DELETE FROM task_chunk; UPDATE meta SET value = (SELECT max(id) + 1 FROM task) WHERE key = 'chunks_below'",
        )
        .unwrap();
    let store = place.open();
    assert_eq!(found(&store, "orders").await, orders, "walked to");
    let newer = one(&store, ask("orders")).await.place.id;
    let all: Vec<i64> = [newer].into_iter().chain(orders).collect();
    assert_eq!(found(&store, "orders").await, all);
    // Half of it, as if the engine were killed there, and the rest after it was started again.
    assert!(store.index_labels_in(0, 1_500).await.unwrap() > 0);
    assert_eq!(found(&store, "orders").await, all);
    store.close();
    let store = place.open();
    while store.index_labels_in(0, 1_000).await.unwrap() > 0 {}
    assert_eq!(found(&store, "orders").await, all);
    let nobody = store.list(&of("nobody")).await.unwrap();
    assert_eq!((nobody.tasks.len(), nobody.next_before_id, nobody.examined), (0, None, 0));
    store.close();
    assert_eq!(rows(&before), entered, "as if they had been entered when they came");
}

#[tokio::test]
async fn a_chunk_without_tasks_is_forgotten_and_the_one_that_is_filled_is_not() {
    let place = Place::new();
    let store = place.open();
    fill(&store).await;
    store.close();
    let conn = Connection::open(place.path()).unwrap();
    conn.execute_batch("DELETE FROM task WHERE id < 1024").unwrap();
    assert!(rows(&conn).iter().all(|row| row.1 > 0), "{:?}", rows(&conn));
    conn.execute_batch("DELETE FROM task").unwrap();
    assert!(!rows(&conn).is_empty() && rows(&conn).iter().all(|row| row.1 == 2), "{:?}", rows(&conn));
    let store = place.open();
    let id = one(&store, ask("mail")).await.place.id;
    assert_eq!(found(&store, "mail").await, [id]);
}

/// No trigger notices that a chunk gets no more tasks: the one that begins the next chunk does.
#[tokio::test]
async fn a_chunk_that_was_emptied_while_it_was_filled_is_forgotten_with_the_next() {
    let place = Place::new();
    let store = place.open();
    store.insert((1..1_024).map(|_| ask("mail")).collect(), "test", NOW).await.unwrap();
    let conn = Connection::open(place.path()).unwrap();
    conn.execute_batch("DELETE FROM task").unwrap();
    assert_eq!(rows(&conn), [(String::new(), 0), ("mail".to_owned(), 0)]);
    let id = one(&store, ask("mail")).await.place.id;
    assert_eq!((id, rows(&conn)), (1_024, vec![(String::new(), 1), ("mail".to_owned(), 1)]));
    assert_eq!(found(&store, "mail").await, [id]);
}

/// A cut before the row of the chunk, one behind it, and in the last step before the commit: neither the row is there nor the task, and
/// the next task of the chunk is not hidden by what the writer remembers.
#[tokio::test]
async fn what_was_undone_with_its_transaction_is_not_remembered() {
    for cut in [
        "BEFORE UPDATE ON meta WHEN new.key = 'accepted'",
        "AFTER INSERT ON task_chunk WHEN new.queue = 'orders'",
        "BEFORE INSERT ON books",
    ] {
        let place = Place::new();
        let store = place.open();
        let conn = Connection::open(place.path()).unwrap();
        let trigger = format!("CREATE TRIGGER cut {cut} BEGIN SELECT RAISE(ROLLBACK, 'cut'); END");
        conn.execute_batch(&trigger).unwrap();
        store.insert(vec![ask("orders")], "test", NOW).await.unwrap_err();
        conn.execute_batch("DROP TRIGGER cut").unwrap();
        assert!(rows(&conn).is_empty(), "{cut}");
        let id = one(&store, ask("orders")).await.place.id;
        assert_eq!(found(&store, "orders").await, [id], "{cut}");
        assert_eq!(rows(&conn), [(String::new(), 0), ("orders".to_owned(), 0)], "{cut}");
    }
}
