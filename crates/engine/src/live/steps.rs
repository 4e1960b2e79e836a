//! The one table of legal moves, and the function that reads it.
//! No other file may name the stage that follows. An illegal pair changes nothing.

use super::stage::{Gate, HolderReport, Stage, TaskEvent};
use Next::{Gone, To};
use Stage::{
    Claiming, Granting, HandedOver, Held, InDoubt, Leased, Leasing, Offered, Passed, Ready, Waiting,
};
use TaskEvent::{
    Blocked, ClaimRefused, Claimed, Due, Ended, GivenUp, GrantBegun, GrantEnded, Granted, LeaseBegun,
    LeaseDropped, Lined, NotClaimed, NotGranted, NotReported, Opened, PassedOn, PutBack, ReportBegun,
    Reported, Settled, Taken, Withdrawn,
};

/// The result of a legal event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another stage, or the same one.
    To(Stage),
    /// The task leaves the table.
    Gone,
}

const CLAIMING: Stage = Claiming { due: false };
const CLAIMING_DUE: Stage = Claiming { due: true };
const LEASING: Stage = Leasing { due: false };
const LEASING_DUE: Stage = Leasing { due: true };
/// The task is in the line of its queue, in its order.
pub(super) const SERVED: Stage = Ready { gate: None };
pub(super) const GATED: Stage = Ready { gate: Some(Gate::Database) };
pub(super) const RETRY: Stage = Ready { gate: Some(Gate::Retry) };
pub(super) const BLOCKED: TaskEvent = Blocked(Gate::Database);
pub(super) const AWAITING_RETRY: TaskEvent = Blocked(Gate::Retry);
pub(super) const PARKED: Stage = Ready { gate: Some(Gate::Lane) };
pub(super) const PUT_ASIDE: TaskEvent = Blocked(Gate::Lane);

pub(super) const UNREPORTED: Stage = HandedOver { report: HolderReport::Owed };
const REPORTING: Stage = HandedOver { report: HolderReport::Asked };
pub(super) const REPORTED: Stage = HandedOver { report: HolderReport::Done };
pub(super) const FOR_LATER: Stage = HandedOver { report: HolderReport::ForLater };

/// Every legal move, one block a stage.
#[rustfmt::skip]
pub(crate) const STEPS: &[(Stage, &[(TaskEvent, Next)])] = &[
    (CLAIMING,     &[(Claimed, To(Waiting)), (NotClaimed, To(Waiting)), (ClaimRefused, Gone), (Due, To(CLAIMING_DUE)),
                     (Withdrawn, Gone), (GivenUp, Gone)]),
    (CLAIMING_DUE, &[(Claimed, Gone), (NotClaimed, Gone), (ClaimRefused, Gone), (GivenUp, Gone)]),
    (Waiting,      &[(LeaseBegun, To(LEASING)), (Due, Gone), (Withdrawn, Gone), (GivenUp, Gone)]),
    (LEASING,      &[(Granted, To(Leased)), (NotGranted, To(Waiting)), (Due, To(LEASING_DUE)), (Withdrawn, To(Held)),
                     (LeaseDropped, To(Waiting)), (GivenUp, Gone)]),
    (LEASING_DUE,  &[(Granted, Gone), (NotGranted, Gone), (LeaseDropped, Gone), (GivenUp, Gone)]),
    (Leased,       &[(Due, Gone), (Withdrawn, Gone), (LeaseDropped, To(Waiting)), (GivenUp, Gone)]),
    (Held,         &[(PutBack, To(LEASING)), (Granted, Gone), (NotGranted, Gone), (LeaseDropped, Gone), (GivenUp, Gone)]),
    (Offered,      &[(GrantBegun, To(Granting)), (Lined, To(SERVED)), (BLOCKED, To(GATED)), (AWAITING_RETRY, To(RETRY)),
                     (PUT_ASIDE, To(PARKED)), (PassedOn, To(Passed)), (Settled, Gone)]),
    (Passed,       &[(Lined, To(SERVED)), (PUT_ASIDE, To(PARKED)), (GrantBegun, To(Granting)), (PassedOn, To(Passed)),
                     (Taken, To(Offered))]),
    (SERVED,       &[(GrantBegun, To(Granting)), (Lined, To(SERVED)), (Taken, To(Offered)), (BLOCKED, To(GATED)),
                     (AWAITING_RETRY, To(RETRY)), (PUT_ASIDE, To(PARKED))]),
    (PARKED,       &[(GrantBegun, To(Granting)), (Taken, To(Offered)), (BLOCKED, To(GATED)), (AWAITING_RETRY, To(RETRY)),
                     (Opened, To(SERVED))]),
    (GATED,        &[(GrantBegun, To(Granting)), (Taken, To(Offered)), (BLOCKED, To(GATED))]),
    (RETRY,        &[(GrantBegun, To(Granting)), (Lined, To(SERVED)), (Taken, To(Offered)), (BLOCKED, To(GATED)),
                     (AWAITING_RETRY, To(RETRY)), (PUT_ASIDE, To(PARKED))]),
    (Granting,     &[(GrantBegun, To(Granting)), (GrantEnded, To(Offered)), (BLOCKED, To(GATED)), (Lined, To(SERVED))]),
    (InDoubt,      &[(Settled, Gone)]),
    (UNREPORTED,   &[(ReportBegun, To(REPORTING)), (Reported, To(REPORTED)), (Ended, Gone)]),
    (REPORTING,    &[(Reported, To(REPORTED)), (NotReported, To(UNREPORTED)), (Ended, Gone)]),
    (REPORTED,     &[(Ended, Gone), (Settled, Gone)]),
    (FOR_LATER,    &[(Settled, Gone)]),
];

/// The result of `event` in `stage`. `None` if the event is illegal there.
pub(crate) fn step(stage: Stage, event: TaskEvent) -> Option<Next> {
    let (_, moves) = STEPS.iter().find(|(from, _)| *from == stage)?;
    let (_, next) = moves.iter().find(|(on, _)| *on == event)?;
    Some(*next)
}

/// A lease is requested or made, and its answer or the due time is still awaited.
pub(crate) const fn has_lease(stage: Stage) -> bool {
    matches!(stage, Leasing { .. } | Leased | Held)
}

/// True if no lease is requested.
pub(crate) const fn is_before_lease(stage: Stage) -> bool {
    matches!(stage, Claiming { .. } | Waiting)
}

/// The task has not fired, and no caller has withdrawn it.
pub(crate) const fn has_not_fired(stage: Stage) -> bool {
    matches!(stage, CLAIMING | Waiting | LEASING | Leased)
}

/// The task has fired, and no executor is known to have it.
pub(crate) const fn awaits_executor(stage: Stage) -> bool {
    matches!(stage, Offered | Passed | Ready { .. } | Granting)
}

/// The task has fired, and this engine keeps it: no other part need offer it.
pub(crate) const fn is_kept(stage: Stage) -> bool {
    matches!(stage, GATED | Granting)
}

/// Executors that ask here get it, now or when its lane opens.
pub(crate) const fn is_served(stage: Stage) -> bool {
    matches!(stage, SERVED | PARKED)
}

/// The table knows an executor's lease of the task, made or in doubt. The entry has the fence of the lease.
/// If the hot set has the task at this fence, the lease was returned.
pub(crate) const fn is_executors(stage: Stage) -> bool {
    matches!(stage, InDoubt | HandedOver { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hashbrown::HashSet;

    const EVENTS: [TaskEvent; 25] = [
        PutBack,
        Claimed,
        NotClaimed,
        ClaimRefused,
        LeaseBegun,
        Granted,
        NotGranted,
        Due,
        Withdrawn,
        LeaseDropped,
        GivenUp,
        GrantBegun,
        GrantEnded,
        BLOCKED,
        AWAITING_RETRY,
        PUT_ASIDE,
        Opened,
        Lined,
        PassedOn,
        Taken,
        ReportBegun,
        Reported,
        NotReported,
        Ended,
        Settled,
    ];

    /// All stages that can be reached from a stage in which entries are loaded: claimed, or fired.
    fn reached(from: Stage, events: &[TaskEvent]) -> Vec<Stage> {
        let (mut reached, mut next) = (vec![from], 0);
        while let Some(&stage) = reached.get(next) {
            for event in events {
                match step(stage, *event) {
                    Some(To(stage)) if !reached.contains(&stage) => reached.push(stage),
                    _ => {}
                }
            }
            next += 1;
        }
        reached
    }

    #[test]
    fn each_stage_is_reached_and_has_one_block_without_a_pair_twice() {
        // An entry with an executor's lease is loaded with it.
        let first = [CLAIMING, Waiting, Offered, InDoubt, UNREPORTED, FOR_LATER];
        let reached = first.map(|first| reached(first, &EVENTS)).concat();
        assert_eq!(
            reached.iter().collect::<HashSet<_>>().len(),
            STEPS.len(),
            "no stage before the firing leads to one after it, or back"
        );
        for (stage, moves) in STEPS {
            assert_eq!(STEPS.iter().filter(|(other, _)| other == stage).count(), 1, "{stage:?}");
            assert!(reached.contains(stage), "{stage:?}");
            for event in EVENTS {
                assert!(moves.iter().filter(|(on, _)| *on == event).count() <= 1, "{stage:?} {event:?}");
            }
        }
        let is_used =
            |event: &TaskEvent| STEPS.iter().any(|(_, moves)| moves.iter().any(|(on, _)| on == event));
        assert!(EVENTS.iter().all(is_used));
    }

    #[test]
    fn without_the_instant_no_stage_is_due_and_each_ends_with_the_partition() {
        let without_due: Vec<TaskEvent> = EVENTS.into_iter().filter(|event| *event != Due).collect();
        let is_due = |stage: &Stage| matches!(stage, Claiming { due: true } | Leasing { due: true });
        assert!(!reached(CLAIMING, &without_due).iter().any(is_due));
        let has_fired = |stage: Stage| awaits_executor(stage) || is_executors(stage);
        let ends = |stage: &Stage| step(*stage, GivenUp) == Some(Gone) || has_fired(*stage);
        assert!(
            STEPS.iter().all(|(stage, _)| ends(stage)),
            "what has fired stays, whichever engine owns its partition"
        );
    }

    #[test]
    fn what_was_withdrawn_is_not_given_and_comes_back_only_with_its_entry() {
        assert_eq!([CLAIMING, Waiting, Leased].map(|stage| step(stage, Withdrawn)), [Some(Gone); 3]);
        assert_eq!(step(LEASING, Withdrawn), Some(To(Held)));
        assert_eq!((step(Held, Granted), step(Held, Due)), (Some(Gone), None));
        assert_eq!(step(Held, PutBack), Some(To(LEASING)));
        for stage in [CLAIMING_DUE, LEASING_DUE] {
            assert_eq!(step(stage, Withdrawn), None, "{stage:?} has fired");
        }
    }
}
