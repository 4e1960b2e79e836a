//! A store in memory for each world: reset if an earlier world of this thread has left one, which takes a
//! third of the time. It has no data of the earlier world (`punctual-store: a_store_that_is_renewed_…`).

use punctual_contract::Store as _;
use punctual_store::sqlite::{Options, SqliteStore};
use std::{cell::RefCell, sync::Arc};

/// The number of stores that one thread keeps for reuse.
const KEPT_MAX: usize = 4;

thread_local! {
    static KEPT: RefCell<Vec<Arc<SqliteStore>>> = const { RefCell::new(Vec::new()) };
}

pub(super) fn fresh(partitions: u16) -> Arc<SqliteStore> {
    KEPT.with_borrow_mut(|kept| {
        // No world uses it any more.
        let is_free =
            |store: &&Arc<SqliteStore>| Arc::strong_count(store) == 1 && store.partitions() == partitions;
        if let Some(store) = kept.iter().find(is_free) {
            assert!(store.renew().expect("memory is there"), "a store in memory is renewed");
            return Arc::clone(store);
        }
        let options = Options { partitions, ..Options::default() };
        let store = Arc::new(SqliteStore::in_memory(&options).expect("memory is there"));
        if kept.len() < KEPT_MAX {
            kept.push(Arc::clone(&store));
        }
        store
    })
}
