//! The requirements on every store. In reading order: inserts, contents, moves, leases, searches, ends,
//! executors, and that the account is right at all times.

mod sample;
pub mod walk;

pub mod identity;
pub mod insert;

pub mod content;

pub mod changes;
pub mod moves;

pub mod dispatch;
pub mod facts;
pub mod leases;
pub mod retries;

pub mod chunks;
pub mod labels;
pub mod lookup;
pub mod overdue;
pub mod scan;
pub mod settings;

pub mod namespaces;
pub mod retire;

pub mod agenda;
pub mod audit;
pub mod books;
pub mod bulk;
pub mod cluster;
pub mod executors;
pub mod ledger;
pub mod replies;
pub mod tokens;

pub mod durable;

pub use sample::facts;

use punctual_contract::Store;

/// Checked after every case: account, rows and register agree, and every task has a state.
///
/// # Panics
/// When they do not.
pub async fn conserved(store: &dyn Store) {
    balanced(store).await;
    ledger::conserved(store).await;
}

/// The running account equals the rows, and every task has a state.
///
/// # Panics
/// When it does not.
pub async fn balanced(store: &dyn Store) {
    let books = store.books().await.unwrap();
    assert_eq!(books, store.audit().await.unwrap(), "books against rows");
    assert_eq!(books.unaccounted(), 0, "{books:?}");
    assert!(books.tallies.iter().all(|tally| tally.tasks > 0), "no zeros: {books:?}");
    let order = books.tallies.iter().map(|tally| (&tally.queue, tally.state));
    assert!(order.is_sorted_by(|a, b| a < b), "sorted: {books:?}");
}
