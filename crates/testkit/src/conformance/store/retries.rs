//! Retries: a store keeps the policy of a task, and finds a failed task at the instant of its next attempt. The delay is computed in
//! `domain::retry`.

use super::{
    sample::{NEXT, full, insert, read, scan},
    walk::walk_to,
};
use punctual_contract::Store;
use punctual_domain::{retry::RetryPolicy, state::State, task::NewTask};
use std::sync::Arc;

pub async fn every_retry_policy_comes_back_identical(store: Arc<dyn Store>) {
    let policies = [
        RetryPolicy::default(),
        RetryPolicy::Immediate {},
        RetryPolicy::Fixed { delay_ms: 300 },
        RetryPolicy::Exponential { delay_ms: 1, factor: 1.1, max_delay_ms: 7, jitter: 0.3 },
        RetryPolicy::List { delays_ms: vec![60_000, 300_000] },
    ];
    for (id, retry) in (0..).zip(policies) {
        let asked = NewTask { retry, ..full(id) };
        let place = insert(&*store, asked.clone()).await.task.place;
        assert_eq!(read(&*store, place).await.ask, asked);
    }
}

pub async fn a_retry_is_due_at_the_instant_of_the_next_attempt(store: Arc<dyn Store>) {
    let task = walk_to(&*store, 1, State::Retrying).await;
    let partition = task.place.partition;
    assert_eq!(scan(&*store, partition, NEXT.plus(-1)).await, []);
    let entry = scan(&*store, partition, NEXT).await.remove(0);
    assert_eq!((entry.due_at, entry.fence, entry.state), (NEXT, task.fence, State::Retrying));
}
