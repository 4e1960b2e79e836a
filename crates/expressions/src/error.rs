//! Why an expression has no value: which expression, which part of it, and why.

use crate::budget::{Bound, Exceeded};
use std::fmt;

/// Longest part of an expression that a message quotes, in characters.
const QUOTED_MAX: usize = 60;

/// A mistake, before its expression is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    pub(crate) at: usize,
    pub(crate) end: usize,
    pub(crate) why: Why,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Wrong(String),
    Exceeded(Exceeded),
}

impl Mistake {
    pub(crate) fn new(at: usize, end: usize, problem: impl Into<String>) -> Self {
        Self { at, end, why: Why::Wrong(problem.into()) }
    }

    pub(crate) fn of(self, expression: &str) -> Problem {
        let part = expression.get(self.at..self.end.max(self.at)).unwrap_or_default();
        let is_whole = part.trim() == expression.trim();
        let place = (!is_whole).then(|| ErrorPosition { at: self.at, part: shortened(part) });
        Problem { expression: Some(expression.into()), place, why: self.why }
    }
}

fn shortened(part: &str) -> Box<str> {
    match part.char_indices().nth(QUOTED_MAX) {
        None => part.into(),
        Some((cut, _)) => format!("{}…", part.get(..cut).unwrap_or_default()).into(),
    }
}

/// The position in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ErrorPosition {
    /// Bytes before it.
    at: usize,
    part: Box<str>,
}

/// Why an expression cannot be read, or has no value; or why a payload cannot be filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    expression: Option<Box<str>>,
    place: Option<ErrorPosition>,
    why: Why,
}

impl Problem {
    /// The problem of something that is no expression.
    pub(crate) fn plain(problem: impl Into<String>) -> Self {
        Self { expression: None, place: None, why: Why::Wrong(problem.into()) }
    }

    pub(crate) fn wrong(expression: &str, problem: impl Into<String>) -> Self {
        Self { expression: Some(expression.into()), place: None, why: Why::Wrong(problem.into()) }
    }

    pub(crate) fn exceeded(expression: &str, exceeded: Exceeded) -> Self {
        Self { expression: Some(expression.into()), place: None, why: Why::Exceeded(exceeded) }
    }

    /// The bound that was reached, if that is the problem.
    #[must_use]
    pub const fn exceeded_bound(&self) -> Option<Bound> {
        match &self.why {
            Why::Exceeded(exceeded) => Some(exceeded.bound),
            Why::Wrong(_) => None,
        }
    }

    /// It costs more than it may, on any machine.
    #[must_use]
    pub const fn is_over_budget(&self) -> bool {
        matches!(self.exceeded_bound(), Some(Bound::Steps | Bound::Bytes))
    }

    /// True if the evaluation exceeded its time here; a repetition may succeed.
    #[must_use]
    pub const fn is_out_of_time(&self) -> bool {
        matches!(self.exceeded_bound(), Some(Bound::Time))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(expression) = &self.expression {
            write!(f, "expression {expression:?}")?;
            match &self.place {
                Some(ErrorPosition { at, part }) if part.is_empty() => write!(f, ", at its byte {at}: ")?,
                Some(ErrorPosition { at, part }) => write!(f, ", at its byte {at} ({part}): ")?,
                None => f.write_str(": ")?,
            }
        }
        match &self.why {
            Why::Wrong(problem) => f.write_str(problem),
            Why::Exceeded(exceeded) => exceeded.fmt(f),
        }
    }
}

impl std::error::Error for Problem {}

impl From<Problem> for String {
    fn from(problem: Problem) -> Self {
        problem.to_string()
    }
}
