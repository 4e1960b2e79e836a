//! A store of bulk operations with two dials.

use super::Faults;
use async_trait::async_trait;
use punctual_contract::{
    BulkStore, Error,
    bulk::{AdvanceBulk, BulkFailure, Matching, NewBulk, StoredBulk, TaskFilter},
    store::Applied,
};
use punctual_domain::{name::Name, time::Millis};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BulkGroup {
    Read,
    Write,
}

#[derive(Debug)]
pub struct FaultyBulk {
    inner: Arc<dyn BulkStore>,
    pub faults: Faults<BulkGroup>,
}

impl FaultyBulk {
    #[must_use]
    pub fn new(inner: Arc<dyn BulkStore>, seed: u64) -> Self {
        Self { inner, faults: Faults::seeded(seed) }
    }
}

crate::evaluations::passes_evaluations_on!(FaultyBulk);

#[async_trait]
impl BulkStore for FaultyBulk {
    async fn create_bulk(&self, new: NewBulk, now: Millis) -> Result<StoredBulk, Error> {
        let call = self.inner.create_bulk(new, now);
        self.faults.run(BulkGroup::Write, "make a bulk operation", call).await
    }

    async fn bulk(&self, namespace: &Name, id: i64) -> Result<Option<StoredBulk>, Error> {
        let call = self.inner.bulk(namespace, id);
        self.faults.run(BulkGroup::Read, "read a bulk operation", call).await
    }

    async fn bulks(&self, namespace: &Name, below: i64, limit: usize) -> Result<Vec<StoredBulk>, Error> {
        let call = self.inner.bulks(namespace, below, limit);
        self.faults.run(BulkGroup::Read, "list bulk operations", call).await
    }

    async fn due_bulks(&self, slots: u32, now: Millis, limit: usize) -> Result<Vec<StoredBulk>, Error> {
        let call = self.inner.due_bulks(slots, now, limit);
        self.faults.run(BulkGroup::Read, "look for due bulk operations", call).await
    }

    async fn next_bulk_wake(&self) -> Result<Option<Millis>, Error> {
        self.faults
            .run(BulkGroup::Read, "look for the next bulk operation", self.inner.next_bulk_wake())
            .await
    }

    async fn advance_bulk(&self, advance: AdvanceBulk, now: Millis) -> Result<Applied, Error> {
        let call = self.inner.advance_bulk(advance, now);
        self.faults.run(BulkGroup::Write, "move a bulk operation on", call).await
    }

    async fn bulk_failures(&self, bulk: i64, above: i64, limit: usize) -> Result<Vec<BulkFailure>, Error> {
        let call = self.inner.bulk_failures(bulk, above, limit);
        self.faults.run(BulkGroup::Read, "read what failed", call).await
    }

    async fn forget_bulks(&self, unchanged_since: Millis, limit: usize) -> Result<usize, Error> {
        let call = self.inner.forget_bulks(unchanged_since, limit);
        self.faults.run(BulkGroup::Write, "forget old bulk operations", call).await
    }

    async fn matching(&self, look: &TaskFilter) -> Result<Matching, Error> {
        self.faults.run(BulkGroup::Read, "look for matching tasks", self.inner.matching(look)).await
    }
}
