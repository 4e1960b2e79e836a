//! Broken twins: for a promise, a back end that breaks it on purpose, made by a wrapper around a sound one. They show
//! that the suites notice: `docs/testing.md` names who finds each, and a test runs them all. No product code has a
//! branch for them.

use crate::decorators::{methods_of, names::*};
use punctual_contract::store::Change;
use punctual_domain::{history::Note, insert::Decision};
use std::sync::Arc;

/// What is broken, and in which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Twin {
    /// An insert is acknowledged, and the task is withdrawn at once.
    LosesInserts,
    /// Every second task is found by no scan.
    HidesDue,
    /// What is scanned is due 200 ms early.
    FiresEarly,
    /// A success is acknowledged, and not stored.
    ForgetsSuccess,
    /// An outcome of any attempt is accepted.
    AcceptsAnyFence,
    /// A cancel that was lost is answered as one that was made.
    CancelsWhatFired,
    /// A lease ends at once, and its executor is promised all of it.
    ShortensLeases,
    /// One more is accepted than there is.
    MiscountsBooks,
    /// What is due last is scanned first.
    ScansBackwards,
    /// Each request for a slot is granted, and none is held.
    GrantsEverything,
    /// An engine that lost a partition may renew it.
    RenewsForAnyTerm,
}

impl Twin {
    pub const ALL: [Self; 11] = [
        Self::LosesInserts,
        Self::HidesDue,
        Self::FiresEarly,
        Self::ForgetsSuccess,
        Self::AcceptsAnyFence,
        Self::CancelsWhatFired,
        Self::ShortensLeases,
        Self::MiscountsBooks,
        Self::ScansBackwards,
        Self::GrantsEverything,
        Self::RenewsForAnyTerm,
    ];
}

const EARLY_MS: i64 = 200;
const KEPT_MS: i64 = 120_000;

#[derive(Debug)]
pub struct TwinStore {
    inner: Arc<dyn Store>,
    twin: Twin,
}

impl TwinStore {
    #[must_use]
    pub fn new(inner: Arc<dyn Store>, twin: Twin) -> Self {
        Self { inner, twin }
    }

    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn is(&self, twin: Twin) -> bool {
        self.twin == twin
    }

    fn scanned(&self, mut entries: Vec<HotEntry>) -> Vec<HotEntry> {
        match self.twin {
            Twin::HidesDue => entries.retain(|entry| entry.place.id % 2 == 0),
            Twin::FiresEarly => {
                entries.iter_mut().for_each(|entry| entry.due_at = entry.due_at.plus(-EARLY_MS));
            }
            Twin::ScansBackwards => entries.reverse(),
            _ => {}
        }
        entries
    }

    async fn withdraw(&self, inserted: &Inserted, now: Millis) -> Result<(), Error> {
        let step = Step {
            place: inserted.task.place,
            fence: Some(inserted.task.fence),
            change: Change::Cancel { keep_until: now.plus(KEPT_MS) },
            note: Note::default(),
            fired_at: None,
            known: None,
        };
        self.inner.apply(vec![step], now).await.map(drop)
    }
}

const fn is_outcome(change: &Change) -> bool {
    matches!(
        change,
        Change::Succeed { .. } | Change::Retry { .. } | Change::Snooze { .. } | Change::Bury { .. }
    )
}

methods_of! { SettingStore passes(inner) TwinStore {} }

methods_of! { AccessStore passes(inner) TwinStore {} }

methods_of! { AuditStore passes(inner) TwinStore {} }

methods_of! { LabelStore passes(inner) TwinStore {} }

methods_of! { LedgerStore passes(inner) TwinStore {} }

methods_of! { NamespaceStore passes(inner) TwinStore {} }

methods_of! { Store opens(inner) TwinStore {
    async fn insert_each(
        &self,
        tasks: Vec<NewTask>,
        by: &str,
        now: Millis,
    ) -> Result<Vec<Result<Inserted, Error>>, Error> {
        let answers = self.inner.insert_each(tasks, by, now).await?;
        if self.is(Twin::LosesInserts) {
            for inserted in answers.iter().flatten().filter(|made| made.decision == Decision::Create) {
                self.withdraw(inserted, now).await?;
            }
        }
        Ok(answers)
    }

    async fn apply(&self, mut steps: Vec<Step>, now: Millis) -> Result<Vec<Stepped>, Error> {
        if self.is(Twin::ForgetsSuccess) {
            let moved = Stepped { applied: Applied::Moved, attempt: None };
            let is_success = |step: &Step| matches!(step.change, Change::Succeed { .. });
            let forgotten: Vec<bool> = steps.iter().map(is_success).collect();
            steps.retain(|step| !is_success(step));
            let mut made = self.inner.apply(steps, now).await?.into_iter();
            let answer = |is_forgotten| if is_forgotten { Some(moved.clone()) } else { made.next() };
            return Ok(forgotten.into_iter().filter_map(answer).collect());
        }
        if self.is(Twin::AcceptsAnyFence) {
            for step in steps.iter_mut().filter(|step| is_outcome(&step.change)) {
                (step.fence, step.known) = (None, None);
            }
        }
        let is_cancel = |step: &Step| matches!(step.change, Change::Cancel { .. });
        let cancels: Vec<bool> = steps.iter().map(is_cancel).collect();
        let mut answers = self.inner.apply(steps, now).await?;
        if self.is(Twin::CancelsWhatFired) {
            for (answer, _) in answers.iter_mut().zip(cancels).filter(|(_, is_cancel)| *is_cancel) {
                answer.applied = Applied::Moved;
            }
        }
        Ok(answers)
    }

    async fn dispatch(&self, mut grants: Vec<Grant>, now: Millis) -> Result<Vec<Dispatched>, Error> {
        if !self.is(Twin::ShortensLeases) {
            return self.inner.dispatch(grants, now).await;
        }
        let promised: Vec<Millis> = grants.iter().map(|grant| grant.lease_until).collect();
        grants.iter_mut().for_each(|grant| grant.lease_until = now.plus(1));
        let mut answers = self.inner.dispatch(grants, now).await?;
        for (answer, until) in answers.iter_mut().zip(promised) {
            if let Dispatched::Made(assignment) = answer {
                assignment.lease_until = until;
            }
        }
        Ok(answers)
    }

    async fn extend(&self, beats: Vec<Beat>, now: Millis) -> Result<Vec<Extended>, Error> {
        self.inner.extend(beats, now).await
    }

    async fn scan(&self, scan: Scan) -> Result<Vec<HotEntry>, Error> {
        self.inner.scan(scan).await.map(|entries| self.scanned(entries))
    }

    async fn scan_together(&self, scans: Vec<Scan>) -> Result<Vec<Option<Vec<HotEntry>>>, Error> {
        let found = self.inner.scan_together(scans).await?;
        Ok(found.into_iter().map(|entries| entries.map(|entries| self.scanned(entries))).collect())
    }

    async fn in_flight(
        &self,
        after: Option<LeasePosition>,
        limit: usize,
    ) -> Result<(Vec<Task>, Option<LeasePosition>), Error> {
        self.inner.in_flight(after, limit).await
    }

    async fn read(&self, places: &[TaskRef]) -> Result<Vec<Option<Task>>, Error> {
        self.inner.read(places).await
    }

    async fn books(&self) -> Result<Books, Error> {
        let mut books = self.inner.books().await?;
        books.accepted += i64::from(self.is(Twin::MiscountsBooks));
        Ok(books)
    }

    async fn audit(&self) -> Result<Books, Error> {
        self.inner.audit().await
    }

    fn partitions(&self) -> u16 {
        self.inner.partitions()
    }

    fn parts(&self) -> usize {
        self.inner.parts()
    }

    fn part_of(&self, partition: Partition) -> usize {
        self.inner.part_of(partition)
    }
} }

#[derive(Debug)]
pub struct TwinLimiter {
    inner: Arc<dyn Limiter>,
    twin: Twin,
}

impl TwinLimiter {
    #[must_use]
    pub fn new(inner: Arc<dyn Limiter>, twin: Twin) -> Self {
        Self { inner, twin }
    }

    fn inner(&self) -> &dyn Limiter {
        &*self.inner
    }
}

methods_of! { Limiter opens(inner) TwinLimiter {
    async fn grant(&self, requests: Vec<SlotRequest>, now: Millis) -> Result<Vec<Verdict>, Error> {
        if self.twin == Twin::GrantsEverything {
            return Ok(requests.iter().map(|_| Verdict::Granted).collect());
        }
        self.inner.grant(requests, now).await
    }

    async fn room(&self, limits: &[Limit], rates: &[Flowing], now: Millis) -> Result<Room, Error> {
        if self.twin == Twin::GrantsEverything {
            return Ok(Room { free: usize::MAX, bound: None });
        }
        self.inner.room(limits, rates, now).await
    }
} }

#[derive(Debug)]
pub struct TwinOwnership {
    inner: Arc<dyn Ownership>,
    twin: Twin,
}

impl TwinOwnership {
    #[must_use]
    pub fn new(inner: Arc<dyn Ownership>, twin: Twin) -> Self {
        Self { inner, twin }
    }
}

#[async_trait::async_trait]
impl Ownership for TwinOwnership {
    async fn beat(&self, engine: &str, ttl: Duration, says: &Says) -> Result<Vec<Live>, Error> {
        self.inner.beat(engine, ttl, says).await
    }

    async fn acquire(
        &self,
        engine: &str,
        partitions: &[Partition],
        ttl: Duration,
    ) -> Result<Vec<Option<Tenure>>, Error> {
        self.inner.acquire(engine, partitions, ttl).await
    }

    async fn renew(&self, engine: &str, held: &[Tenure], ttl: Duration) -> Result<Vec<bool>, Error> {
        let renewed = self.inner.renew(engine, held, ttl).await?;
        let is_broken = self.twin == Twin::RenewsForAnyTerm;
        Ok(renewed.into_iter().map(|is_renewed| is_renewed || is_broken).collect())
    }

    async fn raise(&self, engine: &str, held: &[Tenure], above: i64) -> Result<Vec<Option<Tenure>>, Error> {
        self.inner.raise(engine, held, above).await
    }

    async fn release(&self, engine: &str, held: &[Tenure]) -> Result<(), Error> {
        self.inner.release(engine, held).await
    }

    async fn leave(&self, engine: &str) -> Result<(), Error> {
        self.inner.leave(engine).await
    }

    async fn now(&self) -> Result<Option<Millis>, Error> {
        self.inner.now().await
    }

    async fn owners(&self) -> Result<Vec<Owner>, Error> {
        self.inner.owners().await
    }
}
