//! The requirements on every limiter: a case per promise, and `model`, which plays random interleavings of
//! engines that grant, crash, finish and reconcile against a plain model.

pub mod cases;
pub mod model;

use punctual_contract::{
    Limiter,
    limiter::{Flowing, Held, Limit, Member, Rebuilding, SlotRequest},
};
use punctual_domain::{
    limits::Scope,
    name::{Name, QueueKey},
    place::{Partition, TaskRef},
    settings::Rate,
    time::Millis,
};
use std::sync::Arc;

fn name(text: &str) -> QueueKey {
    QueueKey { namespace: Name::default_namespace(), queue: Name::new(text).unwrap() }
}

fn queue(text: &str) -> Scope {
    Scope::Queue(name(text))
}

fn key(queue: &str, key: &str) -> Scope {
    Scope::Key(name(queue), key.to_owned())
}

fn limit(scope: Scope, most: u32) -> Limit {
    Limit { scope, most }
}

fn rated(scope: Scope, limit: u32, period_ms: i64, burst: u32) -> Flowing {
    Flowing { scope, rate: Rate { limit, period_ms, burst } }
}

fn member(id: i64) -> Member {
    Member { id, fence: 2 }
}

fn place(id: i64) -> TaskRef {
    TaskRef { partition: Partition(3), due_at: Millis(id), id }
}

fn request(id: i64, limits: Vec<Limit>) -> SlotRequest {
    SlotRequest { member: member(id), place: place(id), until: Millis(5_000), limits, rates: Vec::new() }
}

fn held(id: i64, until: i64, scopes: Vec<Scope>) -> Held {
    let granted_at = Millis(1);
    Held { member: member(id), place: place(id), granted_at, until: Millis(until), scopes }
}

async fn whole(limiter: Arc<dyn Limiter>) -> Arc<dyn Limiter> {
    make_whole(&*limiter).await;
    limiter
}

/// Declares that the limiter's members are all attempts in flight.
///
/// # Panics
/// Rebuilds the limiter. Panics if that fails.
pub async fn make_whole(limiter: &dyn Limiter) {
    let who = Rebuilding(fastrand::u64(..));
    limiter.begin_anew(who).await.unwrap();
    assert!(limiter.make_whole(who).await.unwrap());
}
