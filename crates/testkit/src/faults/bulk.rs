//! A store of bulk operations with two dials.

use super::Faults;
use crate::decorators::{methods_of, names::*};
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

    fn inner(&self) -> &dyn BulkStore {
        &*self.inner
    }
}

methods_of! { EvaluationStore passes(inner) FaultyBulk {} }

methods_of! { BulkStore fails(run BulkGroup) FaultyBulk {} }
