//! Connections that a service is lent come back, and are there for a caller that asks next. Tried: a look without a time limit (its
//! connection is closed, and the next look makes another one).

use super::{fresh, name, open, sql};
use punctual_contract::LabelStore as _;

#[tokio::test(flavor = "multi_thread")]
async fn a_look_for_labels_that_are_not_entered_makes_no_connection_each_time() {
    let url = fresh(1).await.remove(0);
    let store = open(std::slice::from_ref(&url)).await;
    let connections = format!(
        "SELECT GROUP_CONCAT(ID ORDER BY ID) FROM information_schema.PROCESSLIST WHERE DB = '{}' AND INFO IS NULL",
        name(&url)
    );
    assert_eq!(store.index_labels_in(0, 10).await.unwrap(), 0);
    let before = sql(&url, &connections).await;
    assert_ne!(before, "NULL", "no connection is kept");
    for _ in 0..3 {
        assert_eq!(store.index_labels_in(0, 10).await.unwrap(), 0);
        assert_eq!(sql(&url, &connections).await, before);
    }
    store.close().await;
}
