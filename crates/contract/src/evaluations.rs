//! What engines evaluate: a mark before, removed after, so that what an engine has died of is known to whoever is left. Durable;
//! knows nothing of what it is that is evaluated, and of no task.

use crate::error::Error;
use async_trait::async_trait;
use punctual_domain::{name::Name, time::Millis};
use std::fmt;

/// What so many engines have died of is evaluated no more.
pub const DEATHS_MAX: usize = 2;

/// Promises, for every method:
/// - **Durable.** `Ok` means committed, and synced to the medium.
/// - **Whole.** A unit of work runs to its end whatever becomes of the caller.
/// - **Dead is who gives no heartbeat.** A mark of an engine that lives is no death, whoever looks at the same. Where no engines
///   share the store, all but the engine that asks are dead.
/// - **Each its own.** Nobody removes a mark of another engine that lives, or of another turn of the same engine.
#[async_trait]
pub trait EvaluationStore: Send + Sync + fmt::Debug + 'static {
    /// Marks what is about to be evaluated, but for what [`Crowd`] forbids. What stands of each afterwards, in order.
    async fn begin_evaluations(
        &self,
        pass: &EvaluationPass,
        subjects: &[Subject],
        crowd: Crowd,
        now: Millis,
    ) -> Result<Vec<SubjectMarks>, Error>;

    /// Removes the marks of one turn.
    async fn end_evaluations(&self, pass: &EvaluationPass, ids: &[i64]) -> Result<(), Error>;

    /// Removes the marks that dead engines have left at these. How many.
    async fn release_evaluations(
        &self,
        kind: EvaluationKind,
        ids: &[i64],
        engine: &str,
    ) -> Result<usize, Error>;

    /// What is evaluated no more: [`DEATHS_MAX`] engines have died of each. At most `limit`.
    async fn set_aside(&self, engine: &str, limit: usize) -> Result<Vec<SetAside>, Error>;

    /// What dead engines have left marks at, and no engine evaluates any more: it is gone, or over. At most `limit`.
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

    /// For people.
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
    /// As in its heartbeats. Another one each time a process starts.
    pub engine: String,
    /// Counted by the engine.
    pub number: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    pub id: i64,
    pub namespace: Name,
    /// For people.
    pub name: String,
}

/// How many other engines may have marked the same, dead or alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crowd {
    /// None: evaluated together with others.
    Together,
    /// Fewer than [`DEATHS_MAX`]: evaluated alone, so that nothing else is in flight if the engine dies of it.
    Alone,
}

impl Crowd {
    /// So many others forbid it.
    #[must_use]
    pub const fn others_max(self) -> usize {
        match self {
            Self::Together => 1,
            Self::Alone => DEATHS_MAX,
        }
    }
}

/// What stands of one subject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubjectMarks {
    /// By the turn that asked.
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
    /// When the last evaluation began that an engine died of.
    pub since: Millis,
    /// Engines that died of it.
    pub died: usize,
}
