//! A store of schedules with two dials.

use super::Faults;
use async_trait::async_trait;
use punctual_contract::{
    Error, IdentityStore, ScheduleStore,
    schedules::{
        Advance, OlderDocuments, RecordRun, Run, RunKey, RunQuery, RunTask, SaveSchedule, ScheduleKey,
        StoredSchedule,
    },
    store::Applied,
};
use punctual_domain::{identity::IdentitySecret, name::Name, schedule::Outcome, time::Millis};
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
}

crate::evaluations::passes_evaluations_on!(FaultySchedules);

#[async_trait]
impl IdentityStore for FaultySchedules {
    async fn identity_secret(&self, offered: IdentitySecret) -> Result<IdentitySecret, Error> {
        let call = self.inner.identity_secret(offered);
        self.faults.run(ScheduleGroup::Write, "keep the secret of ids", call).await
    }
}

#[async_trait]
impl ScheduleStore for FaultySchedules {
    async fn schedule(&self, key: &ScheduleKey) -> Result<Option<StoredSchedule>, Error> {
        self.faults.run(ScheduleGroup::Read, "read a schedule", self.inner.schedule(key)).await
    }

    async fn schedules(
        &self,
        namespace: &Name,
        after: &str,
        limit: usize,
    ) -> Result<Vec<StoredSchedule>, Error> {
        let call = self.inner.schedules(namespace, after, limit);
        self.faults.run(ScheduleGroup::Read, "list schedules", call).await
    }

    async fn save_schedule(&self, save: SaveSchedule, now: Millis) -> Result<Option<StoredSchedule>, Error> {
        let call = self.inner.save_schedule(save, now);
        self.faults.run(ScheduleGroup::Write, "save a schedule", call).await
    }

    async fn remove_schedule(&self, id: i64, step: i64) -> Result<Applied, Error> {
        let call = self.inner.remove_schedule(id, step);
        self.faults.run(ScheduleGroup::Write, "remove a schedule", call).await
    }

    async fn due_schedules(
        &self,
        slots: u32,
        now: Millis,
        limit: usize,
    ) -> Result<Vec<StoredSchedule>, Error> {
        let call = self.inner.due_schedules(slots, now, limit);
        self.faults.run(ScheduleGroup::Read, "look for due schedules", call).await
    }

    async fn next_wake(&self) -> Result<Option<Millis>, Error> {
        self.faults.run(ScheduleGroup::Read, "look for the next schedule", self.inner.next_wake()).await
    }

    async fn advance_schedules(&self, all: Vec<Advance>, now: Millis) -> Result<Vec<Applied>, Error> {
        let call = self.inner.advance_schedules(all, now);
        self.faults.run(ScheduleGroup::Write, "move schedules on", call).await
    }

    async fn record_runs(&self, runs: Vec<RecordRun>) -> Result<(), Error> {
        self.faults.run(ScheduleGroup::Write, "settle runs", self.inner.record_runs(runs)).await
    }

    async fn unsettled_runs(
        &self,
        of: Option<OlderDocuments>,
        before: Millis,
        limit: usize,
    ) -> Result<Vec<(StoredSchedule, Run)>, Error> {
        let call = self.inner.unsettled_runs(of, before, limit);
        self.faults.run(ScheduleGroup::Read, "look for runs that are not settled", call).await
    }

    async fn put_off_runs(&self, runs: Vec<RunKey>, now: Millis) -> Result<(), Error> {
        self.faults.run(ScheduleGroup::Write, "put runs off", self.inner.put_off_runs(runs, now)).await
    }

    async fn runs(&self, query: &RunQuery) -> Result<Vec<Run>, Error> {
        self.faults.run(ScheduleGroup::Read, "read runs", self.inner.runs(query)).await
    }

    async fn run_tasks(&self, runs: Vec<RunKey>) -> Result<Vec<RunTask>, Error> {
        self.faults.run(ScheduleGroup::Read, "read the tasks of runs", self.inner.run_tasks(runs)).await
    }

    async fn withdraw_runs(&self, runs: Vec<RunKey>, outcome: Outcome, reason: &str) -> Result<(), Error> {
        self.faults
            .run(ScheduleGroup::Write, "cancel runs", self.inner.withdraw_runs(runs, outcome, reason))
            .await
    }

    async fn forget_runs(&self, created_before: Millis, limit: usize) -> Result<usize, Error> {
        let call = self.inner.forget_runs(created_before, limit);
        self.faults.run(ScheduleGroup::Write, "forget runs", call).await
    }
}
