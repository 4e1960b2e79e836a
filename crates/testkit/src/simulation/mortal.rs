//! Back ends as one engine sees them, up to the call at which its process dies or pauses: later calls never
//! happen, or happen when the process continues. So an engine can be interrupted between any two of its
//! steps.

use crate::decorators::{methods_of, names::*};
use async_trait::async_trait;
use parking_lot::Mutex;
use std::{fmt, sync::Arc};
use tokio::sync::Notify;

/// The end of a life whose calls are used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LifeEnd {
    Death,
    Sleep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LifePhase {
    Awake,
    Until { left: usize, end: LifeEnd },
    Asleep,
    Dead,
}

/// The life of one engine's process.
#[derive(Debug)]
pub(super) struct Life {
    phase: Mutex<LifePhase>,
    fell_asleep: Notify,
    changed: Notify,
}

impl Life {
    pub(super) fn new() -> Arc<Self> {
        let phase = Mutex::new(LifePhase::Awake);
        Arc::new(Self { phase, fell_asleep: Notify::new(), changed: Notify::new() })
    }

    pub(super) fn end_after(&self, left: usize, end: LifeEnd) {
        *self.phase.lock() = LifePhase::Until { left, end };
    }

    pub(super) fn die(&self) {
        self.go_to(LifePhase::Dead);
    }

    pub(super) fn wake(&self) {
        self.go_to(LifePhase::Awake);
    }

    fn go_to(&self, phase: LifePhase) {
        *self.phase.lock() = phase;
        self.changed.notify_waiters();
    }

    pub(super) fn is_dead(&self) -> bool {
        *self.phase.lock() == LifePhase::Dead
    }

    /// Returns when a call has found that it must wait.
    pub(super) async fn fell_asleep(&self) {
        self.fell_asleep.notified().await;
    }

    fn next(&self) -> LifePhase {
        let mut phase = self.phase.lock();
        *phase = match *phase {
            LifePhase::Until { left: 0, end: LifeEnd::Death } => LifePhase::Dead,
            LifePhase::Until { left: 0, end: LifeEnd::Sleep } => LifePhase::Asleep,
            LifePhase::Until { left, end } => LifePhase::Until { left: left - 1, end },
            other => other,
        };
        *phase
    }

    /// `call` is a future that has not begun: if it is never polled, it never happens.
    async fn call<T>(&self, call: impl Future<Output = Result<T, Error>> + Send) -> Result<T, Error> {
        loop {
            let changed = self.changed.notified();
            match self.next() {
                LifePhase::Awake | LifePhase::Until { .. } => return call.await,
                LifePhase::Dead => return Err(Error::did_not_happen("do anything", "the engine is dead")),
                LifePhase::Asleep => {
                    self.fell_asleep.notify_one();
                    changed.await;
                }
            }
        }
    }
}

/// A back end as one life of an engine sees it.
#[derive(Debug)]
pub(super) struct Mortal<B: ?Sized> {
    pub(super) inner: Arc<B>,
    pub(super) life: Arc<Life>,
}

impl<B: ?Sized> Mortal<B> {
    fn inner(&self) -> &B {
        &self.inner
    }
}

methods_of! { SettingStore lives Mortal<dyn Store> {} }

methods_of! { Store lives Mortal<dyn Store> {
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

methods_of! { Hot lives Mortal<dyn Hot> {
    fn keeps(&self) -> Keeps {
        self.inner.keeps()
    }

    async fn drain(
        &self,
        tenures: &[Tenure],
        until: Millis,
        limit: usize,
    ) -> Vec<Result<Vec<HotEntry>, Error>> {
        let call = async { Ok(self.inner.drain(tenures, until, limit).await) };
        let dead = |error: Error| tenures.iter().map(|_| Err(error.clone())).collect();
        self.life.call(call).await.unwrap_or_else(dead)
    }
} }

methods_of! { Limiter lives Mortal<dyn Limiter> {} }

methods_of! { Ownership lives Mortal<dyn Ownership> {} }

methods_of! { Bus lives Mortal<dyn Bus> {
    async fn publish(&self, messages: Vec<Assignment>) -> Vec<Result<(), Error>> {
        let count = messages.len();
        let published = self.life.call(async { Ok(self.inner.publish(messages).await) }).await;
        let dead = || Err(Error::did_not_happen("publish a message", "the engine is dead"));
        published.unwrap_or_else(|_| (0..count).map(|_| dead()).collect())
    }
} }

methods_of! { IdentityStore lives Mortal<dyn ScheduleStore> {} }

methods_of! { ScheduleStore lives Mortal<dyn ScheduleStore> {} }

methods_of! { IdentityStore lives Mortal<dyn WorkflowStore> {} }

methods_of! { WorkflowStore lives Mortal<dyn WorkflowStore> {} }

/// An engine of the simulation dies between any two calls, again and again. No evaluation is the cause, and marks
/// would set innocent subjects aside. The promises of marks have their own tests (`tests/all/evaluations.rs`).
#[async_trait]
impl<B: ?Sized + fmt::Debug + Send + Sync + 'static> EvaluationStore for Mortal<B> {
    async fn begin_evaluations(
        &self,
        _: &EvaluationPass,
        subjects: &[Subject],
        _: Crowd,
        _: Millis,
    ) -> Result<Vec<SubjectMarks>, Error> {
        Ok(subjects.iter().map(|_| SubjectMarks { is_marked: true, died: 0, at_work: 0 }).collect())
    }

    async fn end_evaluations(&self, _: &EvaluationPass, _: &[i64]) -> Result<(), Error> {
        Ok(())
    }

    async fn release_evaluations(&self, _: EvaluationKind, _: &[i64], _: &str) -> Result<usize, Error> {
        Ok(0)
    }

    async fn set_aside(&self, _: &str, _: usize) -> Result<Vec<SetAside>, Error> {
        Ok(Vec::new())
    }

    async fn ended_subjects(&self, _: &str, _: usize) -> Result<Vec<(EvaluationKind, i64)>, Error> {
        Ok(Vec::new())
    }

    async fn leave_evaluations(&self, _: &str) -> Result<(), Error> {
        Ok(())
    }
}

// Tokens, the audit, labels and the deletion of namespaces are no steps of a task's path: an engine is cut between those, and these do
// not count.
methods_of! { AccessStore passes(inner) Mortal<dyn Store> {} }

methods_of! { AuditStore passes(inner) Mortal<dyn Store> {} }

methods_of! { LabelStore passes(inner) Mortal<dyn Store> {} }

methods_of! { LedgerStore passes(inner) Mortal<dyn Store> {} }

methods_of! { NamespaceStore passes(inner) Mortal<dyn Store> {} }
