//! A store of schedules with two dials.

use super::Faults;
use crate::decorators::{methods_of, names::*};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScheduleGroup {
    Read,
    Write,
}

#[derive(Debug)]
pub struct FaultySchedules {
    inner: Arc<dyn ScheduleStore>,
    pub faults: Faults<ScheduleGroup>,
}

impl FaultySchedules {
    #[must_use]
    pub fn new(inner: Arc<dyn ScheduleStore>, seed: u64) -> Self {
        Self { inner, faults: Faults::seeded(seed) }
    }

    fn inner(&self) -> &dyn ScheduleStore {
        &*self.inner
    }
}

methods_of! { EvaluationStore passes(inner) FaultySchedules {} }

methods_of! { IdentityStore fails(run ScheduleGroup) FaultySchedules {} }

methods_of! { ScheduleStore fails(run ScheduleGroup) FaultySchedules {} }
