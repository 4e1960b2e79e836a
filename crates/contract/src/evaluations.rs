//! Marks of evaluations: set before, removed after, so that the surviving engines know which subject an
//! engine died of. Durable; does not know what is evaluated, and no task.

use crate::error::Error;
use async_trait::async_trait;
use punctual_domain::{name::Name, time::Millis};
use std::fmt;

/// A subject that this many engines have died of is no longer evaluated.
pub const DEATHS_MAX: usize = 2;

/// Promises, for every method:
/// - **Durable.** `Ok` means committed, and synced to the medium.
/// - **Complete.** A unit of work runs to its end whatever happens to the caller.
/// - **An engine without a heartbeat is dead.** A mark of a live engine is no death, whichever engine
///   evaluates the same subject. If no engines share the store, all except the caller are dead.
/// - **Own marks only.** No engine removes a mark of another live engine, or of another pass of the same
///   engine.
#[async_trait]
pub trait EvaluationStore: Send + Sync + fmt::Debug + 'static {
    /// Marks subjects that are about to be evaluated, except those that [`Crowd`] forbids. Returns the
    /// resulting marks of each, in order.
    async fn begin_evaluations(
        &self,
        pass: &EvaluationPass,
        subjects: &[Subject],
        crowd: Crowd,
        now: Millis,
    ) -> Result<Vec<SubjectMarks>, Error>;

    /// Removes the marks of one pass.
    async fn end_evaluations(&self, pass: &EvaluationPass, ids: &[i64]) -> Result<(), Error>;

    /// Removes the marks that dead engines have left at these. How many.
    async fn release_evaluations(
        &self,
        kind: EvaluationKind,
        ids: &[i64],
        engine: &str,
    ) -> Result<usize, Error>;

    /// Returns subjects that are set aside: [`DEATHS_MAX`] engines have died of each. At most `limit`.
    async fn set_aside(&self, engine: &str, limit: usize) -> Result<Vec<SetAside>, Error>;

    /// Returns subjects with marks of dead engines that no engine evaluates any more: they were deleted, or have
    /// ended. At most `limit`.
    async fn ended_subjects(&self, engine: &str, limit: usize) -> Result<Vec<(EvaluationKind, i64)>, Error>;

    /// Removes all marks of an engine that stops.
    async fn leave_evaluations(&self, engine: &str) -> Result<(), Error>;
}

/// Stored by code; a code is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EvaluationKind {
    Schedule,
    Workflow,
    Bulk,
}

impl EvaluationKind {
    pub const ALL: [Self; 3] = [Self::Schedule, Self::Workflow, Self::Bulk];

    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Schedule => 1,
            Self::Workflow => 2,
            Self::Bulk => 3,
        }
    }

    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// The name of the kind for people.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Workflow => "workflow",
            Self::Bulk => "bulk operation",
        }
    }
}

/// One pass of an engine, with all that it evaluates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvaluationPass {
    pub kind: EvaluationKind,
    /// The engine, as in its heartbeats. Each process start has another one.
    pub engine: String,
    /// Counted by the engine.
    pub number: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    pub id: i64,
    pub namespace: Name,
    /// The name of the subject for people.
    pub name: String,
}

/// The number of other engines, dead or alive, that may have marked the same subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crowd {
    /// No engine has died of the subject: it is evaluated together with others.
    Together,
    /// Fewer than [`DEATHS_MAX`] engines have died of it: evaluated alone, so that nothing else is in flight
    /// if the engine dies.
    Alone,
}

impl Crowd {
    /// This many other evaluations forbid it.
    #[must_use]
    pub const fn others_max(self) -> usize {
        match self {
            Self::Together => 1,
            Self::Alone => DEATHS_MAX,
        }
    }
}

/// The marks of one subject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubjectMarks {
    /// True if the calling pass has marked the subject.
    pub is_marked: bool,
    /// Other engines that have marked it and are dead.
    pub died: usize,
    /// Other engines that have marked it and live.
    pub at_work: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    pub kind: EvaluationKind,
    pub id: i64,
    pub namespace: Name,
    pub name: String,
    /// The beginning of the last evaluation that an engine died of.
    pub since: Millis,
    /// The number of engines that died of the subject.
    pub died: usize,
}
