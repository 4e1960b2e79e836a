//! The effect of an insert if the same task exists: every row of requirement A2, as a pure function. Stores
//! call it inside the transaction of the insert; no other code decides.

use crate::state::{Phase, State};

/// The stored task with the same namespace and task id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Existing {
    /// The state of the same version, if there is one.
    pub same_version: Option<State>,
    /// The highest version there is.
    pub highest_version: Option<i64>,
}

/// The requested treatment of an existing task with the same version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// Requirement A2: a task that has not begun, or has failed, is replaced.
    #[default]
    Replace,
    /// An existing task stays: a caller that inserts a task twice creates one, however late the second insert
    /// is.
    Keep,
    /// The same, and the later caller gets an error.
    Fail,
}

impl OnConflict {
    #[must_use]
    pub const fn on(self, decision: Decision) -> Decision {
        match (self, decision) {
            (Self::Keep, Decision::Replace) => Decision::ReturnExisting,
            (Self::Fail, Decision::Replace | Decision::ReturnExisting) => Decision::Exists,
            (_, decision) => decision,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// This version does not exist: it is stored.
    Create,
    /// The same version is pending, failed or stopped: the new task replaces it.
    Replace,
    /// The same version is processing or has succeeded: the answer is that task.
    ReturnExisting,
    /// A higher version exists: refused, and the answer shows that one.
    Superseded,
    /// The existing task must not be changed, or belongs to another caller: the insert is refused, and the
    /// answer shows it.
    Exists,
}

#[must_use]
pub fn decide(version: i64, existing: Existing) -> Decision {
    if existing.highest_version.is_some_and(|highest_version| highest_version > version) {
        return Decision::Superseded;
    }
    match existing.same_version.map(State::phase) {
        None => Decision::Create,
        Some(Phase::Processing | Phase::Success) => Decision::ReturnExisting,
        Some(Phase::Pending | Phase::Failed | Phase::Stopped) => Decision::Replace,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Event;

    #[test]
    fn every_row_of_requirement_a2() {
        for state in State::ALL {
            let same = Existing { same_version: Some(state), highest_version: Some(7) };
            let want = match state.phase() {
                Phase::Processing | Phase::Success => Decision::ReturnExisting,
                Phase::Pending | Phase::Failed | Phase::Stopped => Decision::Replace,
            };
            assert_eq!(decide(7, same), want, "same version, {state:?}");
            assert_eq!(
                decide(6, Existing { same_version: None, ..same }),
                Decision::Superseded,
                "lower, {state:?}"
            );
            assert_eq!(
                decide(8, Existing { same_version: None, ..same }),
                Decision::Create,
                "higher, {state:?}"
            );
        }
        assert_eq!(decide(0, Existing { same_version: None, highest_version: None }), Decision::Create);
        let both = Existing { same_version: Some(State::Scheduled), highest_version: Some(9) };
        assert_eq!(decide(7, both), Decision::Superseded, "the same version, under a higher one");
    }

    #[test]
    fn what_is_to_be_kept_is_never_replaced() {
        let all = [
            Decision::Create,
            Decision::Replace,
            Decision::ReturnExisting,
            Decision::Superseded,
            Decision::Exists,
        ];
        for decision in all {
            assert_eq!(OnConflict::Replace.on(decision), decision);
            let kept = if decision == Decision::Replace { Decision::ReturnExisting } else { decision };
            assert_eq!(OnConflict::Keep.on(decision), kept);
            let current = matches!(decision, Decision::Replace | Decision::ReturnExisting);
            let refused = if current { Decision::Exists } else { decision };
            assert_eq!(OnConflict::Fail.on(decision), refused);
        }
    }

    #[test]
    fn what_is_replaced_has_a_move_in_the_table() {
        for state in State::ALL {
            let same = Existing { same_version: Some(state), highest_version: Some(1) };
            assert_eq!(
                decide(1, same) == Decision::Replace,
                state.after(Event::Replace).is_ok(),
                "{state:?}"
            );
        }
    }
}
