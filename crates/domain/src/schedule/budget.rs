//! The cost limit of a calendar computation, in steps: a day, a month, a clock change or an instant that is
//! examined. The code that takes the steps counts them; they are never estimated from a document's form. An
//! exhausted budget means that the caller continues later; it never means that there is no instant.

use crate::time::Millis;
use std::fmt;

/// The steps that are left of a computation.
pub struct Budget {
    left: u32,
    /// Returns true if no caller waits for the result any more.
    is_over: Option<Box<dyn Fn() -> bool + Send>>,
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget").field("left", &self.left).finish_non_exhaustive()
    }
}

/// Steps between two checks whether a caller still waits.
const STEPS_BETWEEN_LOOKS: u32 = 64;

/// The steps are used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spent;

/// The budget is exhausted. There is no instant up to and including `from`; later ones are not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookAgain {
    pub from: Millis,
}

impl Budget {
    #[must_use]
    pub const fn of_steps(steps: u32) -> Self {
        Self { left: steps, is_over: None }
    }

    /// The same, which ends as soon as no caller waits for the result.
    #[must_use]
    pub fn until(self, is_over: impl Fn() -> bool + Send + 'static) -> Self {
        Self { is_over: Some(Box::new(is_over)), ..self }
    }

    #[must_use]
    pub const fn left(&self) -> u32 {
        self.left
    }

    /// Counts one step.
    pub(super) fn step(&mut self) -> Result<(), Spent> {
        self.left = self.left.checked_sub(1).ok_or(Spent)?;
        if self.left.is_multiple_of(STEPS_BETWEEN_LOOKS)
            && self.is_over.as_ref().is_some_and(|is_over| is_over())
        {
            self.left = 0;
            return Err(Spent);
        }
        Ok(())
    }
}
