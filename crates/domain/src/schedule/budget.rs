//! What a calendar computation may cost, in steps: a day, a month, a change of the clock or an instant that is looked at. Counted
//! by the code that takes the steps, never estimated from the form of a document. A budget that is used up means that the caller
//! looks again later; it never means that there is no instant.

use crate::time::Millis;

/// The steps that are left of a computation.
#[derive(Debug)]
pub struct Budget {
    left: u32,
}

/// The steps are used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spent;

/// The steps are used up. There is no instant up to `from`, inclusive; what comes after it is not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookAgain {
    pub from: Millis,
}

impl Budget {
    #[must_use]
    pub const fn of_steps(steps: u32) -> Self {
        Self { left: steps }
    }

    #[must_use]
    pub const fn left(&self) -> u32 {
        self.left
    }

    /// Counts one step.
    pub(super) fn step(&mut self) -> Result<(), Spent> {
        self.left = self.left.checked_sub(1).ok_or(Spent)?;
        Ok(())
    }
}
