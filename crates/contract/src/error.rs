//! The one error of every back end. It says whether the work happened: a caller may repeat work that did not
//! happen, and must check before it repeats work that may have.

use std::sync::Arc;

/// States if the work that failed took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// It did not, and will not.
    No,
    /// It may have: the answer was lost.
    Maybe,
}

#[derive(Clone, Debug, thiserror::Error)]
#[error("{doing}: {source}{}", match .happened { Happened::No => "", Happened::Maybe => " (it may have taken effect)" })]
pub struct Error {
    /// The operation, for a log reader: "insert tasks".
    pub doing: &'static str,
    pub happened: Happened,
    pub source: Arc<dyn std::error::Error + Send + Sync>,
}

impl Error {
    pub fn did_not_happen(
        doing: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { doing, happened: Happened::No, source: Arc::from(source.into()) }
    }

    pub fn may_have_happened(
        doing: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { doing, happened: Happened::Maybe, source: Arc::from(source.into()) }
    }

    /// Converts an error after a part that took effect: a caller that requested both parts must not get the answer
    /// that nothing was done.
    #[must_use]
    pub fn after_a_change(self) -> Self {
        Self { happened: Happened::Maybe, ..self }
    }
}
