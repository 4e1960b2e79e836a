//! The cost limit of a piece of work, counted by the code that does it: the same on every machine. Users'
//! payloads, conditions and calendars are bounded by this, never by the form of their text.

use crate::pool::TimeSlice;
use std::fmt;

/// Steps of one evaluation of one expression.
pub const EVALUATION_STEPS: u64 = 50_000;
/// Bytes that one evaluation of one expression may make.
pub const EVALUATION_BYTES: u64 = 1 << 20;
/// Steps of all evaluations of one request together.
pub const REQUEST_STEPS: u64 = 10_000_000;
/// Bytes that all evaluations of one request may make together.
pub const REQUEST_BYTES: u64 = 64 << 20;
/// Steps between two checks of the deadline: some tens of microseconds.
const STEPS_BETWEEN_LOOKS: u64 = 1_024;

/// The stable code of an exceeded budget.
pub const BUDGET_CODE: &str = "expression.budget";

/// The bound that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    Steps,
    Bytes,
    /// The work's deadline has passed, or its caller is gone. Not a property of the work: a repetition may
    /// succeed.
    Time,
}

/// The work would cost more than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    pub bound: Bound,
    /// The bound. 0 for time.
    pub max: u64,
    /// True if the bound is for the complete request, not for this part of it.
    pub is_shared: bool,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bound, max, is_shared } = self;
        let with = if *is_shared { ", with what was evaluated before in the same request" } else { "" };
        match bound {
            Bound::Steps => write!(f, "{BUDGET_CODE}: it takes more than {max} steps{with}"),
            Bound::Bytes => write!(f, "{BUDGET_CODE}: it makes more than {max} bytes{with}"),
            Bound::Time => f.write_str("it took too long on this machine; it can be tried again"),
        }
    }
}

impl std::error::Error for Exceeded {}

/// Steps and bytes that are left. One for each request, of which every evaluation gets a part.
#[derive(Clone, Debug)]
pub struct Budget {
    steps: Counter,
    bytes: Counter,
    /// The number of steps until the next check of the deadline.
    steps_to_look: u64,
    slice: Option<TimeSlice>,
}

#[derive(Clone, Copy, Debug)]
struct Counter {
    max: u64,
    left: u64,
    /// Smaller than usual, because earlier parts have used some of it.
    is_shared: bool,
}

impl Counter {
    const fn of(max: u64) -> Self {
        Self { max, left: max, is_shared: false }
    }

    /// If `count` exceeds the rest, nothing is left.
    fn spend(&mut self, count: u64, bound: Bound) -> Result<(), Exceeded> {
        let left = self.left.checked_sub(count);
        self.left = left.unwrap_or(0);
        left.map(drop).ok_or(Exceeded { bound, max: self.max, is_shared: self.is_shared })
    }

    fn part(&self, max: u64) -> Self {
        if self.left < max {
            // The message names the bound of the whole.
            Self { max: self.max, left: self.left, is_shared: true }
        } else {
            Self::of(max)
        }
    }
}

impl Budget {
    #[must_use]
    pub const fn new(steps: u64, bytes: u64) -> Self {
        let (steps, bytes) = (Counter::of(steps), Counter::of(bytes));
        Self { steps, bytes, steps_to_look: STEPS_BETWEEN_LOOKS, slice: None }
    }

    /// The budget of a request, whose work ends with its turn on the pool.
    #[must_use]
    pub fn of_request(slice: &TimeSlice) -> Self {
        Self { slice: Some(slice.clone()), ..Self::new(REQUEST_STEPS, REQUEST_BYTES) }
    }

    /// Moves the work to another turn, with which it ends from now on.
    pub fn during(&mut self, slice: &TimeSlice) {
        self.slice = Some(slice.clone());
    }

    /// # Errors
    /// The rest is smaller. From then on nothing is left.
    pub fn spend_steps(&mut self, count: u64) -> Result<(), Exceeded> {
        self.steps.spend(count, Bound::Steps)?;
        match self.steps_to_look.checked_sub(count) {
            Some(left) => self.steps_to_look = left,
            None => self.look()?,
        }
        Ok(())
    }

    /// # Errors
    /// They are not left.
    pub fn spend_bytes(&mut self, count: u64) -> Result<(), Exceeded> {
        self.bytes.spend(count, Bound::Bytes)
    }

    /// Checks the deadline, which counting also does every thousand steps.
    ///
    /// # Errors
    /// It has passed, or the caller is gone.
    pub fn look(&mut self) -> Result<(), Exceeded> {
        self.steps_to_look = STEPS_BETWEEN_LOOKS;
        match &self.slice {
            Some(slice) if slice.is_over() => {
                Err(Exceeded { bound: Bound::Time, max: 0, is_shared: self.steps.is_shared })
            }
            _ => Ok(()),
        }
    }

    /// Runs `work` with at most a part of the rest; its cost is deducted from the total.
    pub fn within<T>(&mut self, steps: u64, bytes: u64, work: impl FnOnce(&mut Self) -> T) -> T {
        let (steps, bytes) = (self.steps.part(steps), self.bytes.part(bytes));
        let mut part = Self { steps, bytes, steps_to_look: self.steps_to_look, slice: self.slice.take() };
        let done = work(&mut part);
        self.steps.left -= steps.left - part.steps.left;
        self.bytes.left -= bytes.left - part.bytes.left;
        (self.steps_to_look, self.slice) = (part.steps_to_look, part.slice);
        done
    }

    pub(crate) const fn bytes_left(&self) -> u64 {
        self.bytes.left
    }

    #[must_use]
    pub const fn spent_steps(&self) -> u64 {
        self.steps.max - self.steps.left
    }

    #[must_use]
    pub const fn spent_bytes(&self) -> u64 {
        self.bytes.max - self.bytes.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_is_counted_and_what_does_not_fit_leaves_nothing() {
        let mut budget = Budget::new(10, 100);
        assert_eq!((budget.spend_steps(10), budget.spend_bytes(99)), (Ok(()), Ok(())));
        let problem = budget.spend_steps(1).unwrap_err();
        assert_eq!(problem, Exceeded { bound: Bound::Steps, max: 10, is_shared: false });
        assert_eq!(budget.spend_bytes(2).unwrap_err().bound, Bound::Bytes);
        assert_eq!((budget.spent_steps(), budget.spent_bytes()), (10, 100));
    }

    #[test]
    fn parts_are_bounded_by_themselves_and_by_the_whole() {
        let mut budget = Budget::new(10, 100);
        let own = budget.within(4, 100, |part| part.spend_steps(5)).unwrap_err();
        assert_eq!((own.max, own.is_shared, budget.spent_steps()), (4, false, 4));
        budget.within(4, 100, |part| part.spend_steps(4)).unwrap();
        let shared = budget.within(4, 100, |part| part.spend_steps(3)).unwrap_err();
        assert_eq!((shared.max, shared.is_shared), (10, true));
        assert!(shared.to_string().starts_with("expression.budget: "));
    }

    #[test]
    fn what_is_over_is_seen_while_steps_are_counted() {
        let slice = TimeSlice::over();
        let mut budget = Budget::of_request(&slice);
        let steps = (1_u64..).find(|_| budget.spend_steps(1).is_err()).unwrap();
        assert_eq!(steps, STEPS_BETWEEN_LOOKS + 1);
        assert_eq!(budget.spend_steps(STEPS_BETWEEN_LOOKS * 2).unwrap_err().bound, Bound::Time);
    }
}
