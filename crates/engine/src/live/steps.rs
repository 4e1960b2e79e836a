//! The one table of legal moves, and the function that reads it.
//! No other file may name the stage that follows. An illegal pair changes nothing.

use super::stage::{Event, Gate, Stage};
use Event::{
    Blocked, Claimed, Due, Ended, Forgotten, GivenUp, GrantBegun, GrantEnded, Granted, LeaseBegun,
    LeaseDropped, NotClaimed, NotGranted, PutBack, Taken, Withdrawn,
};
use Next::{Gone, To};
use Stage::{Claiming, Granting, HandedOver, Held, Known, Leased, Leasing, Ready, Waiting};

/// What a legal event leads to.
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
pub(super) const IN_LINE: Stage = Ready { gate: None };
const GATED: Stage = Ready { gate: Some(Gate::Database) };
const BLOCKED: Event = Blocked(Gate::Database);

/// Every legal move, one block a stage.
#[rustfmt::skip]
pub(crate) const STEPS: &[(Stage, &[(Event, Next)])] = &[
    (CLAIMING,     &[(Claimed, To(Waiting)), (NotClaimed, Gone), (Due, To(CLAIMING_DUE)), (Withdrawn, Gone),
                     (Forgotten, Gone), (GivenUp, Gone)]),
    (CLAIMING_DUE, &[(Claimed, Gone), (NotClaimed, Gone), (Forgotten, Gone), (GivenUp, Gone)]),
    (Waiting,      &[(LeaseBegun, To(LEASING)), (Due, Gone), (Withdrawn, Gone), (Forgotten, Gone), (GivenUp, Gone)]),
    (LEASING,      &[(Claimed, To(LEASING)), (Granted, To(Leased)), (NotGranted, To(Waiting)), (Due, To(LEASING_DUE)),
                     (Withdrawn, To(Held)), (Forgotten, To(LEASING)), (LeaseDropped, To(Waiting)), (GivenUp, Gone)]),
    (LEASING_DUE,  &[(Granted, Gone), (NotGranted, Gone), (Forgotten, To(LEASING_DUE)), (LeaseDropped, Gone),
                     (GivenUp, Gone)]),
    (Leased,       &[(Claimed, To(Leased)), (Due, Gone), (Withdrawn, Gone), (Forgotten, To(Leased)),
                     (LeaseDropped, To(Waiting)), (GivenUp, Gone)]),
    (Held,         &[(PutBack, To(LEASING)), (Granted, Gone), (NotGranted, Gone), (Forgotten, To(Held)), (LeaseDropped, Gone),
                     (GivenUp, Gone)]),
    (IN_LINE,      &[(GrantBegun, To(Granting)), (Taken, Gone), (BLOCKED, To(GATED))]),
    (GATED,        &[(GrantBegun, To(Granting)), (Taken, Gone), (BLOCKED, To(GATED))]),
    (Granting,     &[(GrantBegun, To(Granting)), (GrantEnded, Gone), (BLOCKED, To(GATED)), (Event::HandedOver, To(HandedOver))]),
    (Known,        &[(Forgotten, Gone)]),
    (HandedOver,   &[(Ended, Gone), (Forgotten, Gone)]),
];

/// Where `event` leads from `stage`. None: it is not legal there.
pub(crate) fn step(stage: Stage, event: Event) -> Option<Next> {
    let (_, moves) = STEPS.iter().find(|(from, _)| *from == stage)?;
    let (_, next) = moves.iter().find(|(on, _)| *on == event)?;
    Some(*next)
}

/// A lease is asked for or made, and its answer or its instant has not come.
pub(crate) const fn has_lease(stage: Stage) -> bool {
    matches!(stage, Leasing { .. } | Leased | Held)
}

/// The task has not fired, and nobody has withdrawn it.
pub(crate) const fn is_claimed(stage: Stage) -> bool {
    matches!(stage, CLAIMING | Waiting | LEASING | Leased)
}

/// The task has fired, and this engine looks after it.
pub(crate) const fn is_kept(stage: Stage) -> bool {
    matches!(stage, Ready { .. } | Granting)
}

/// The task is in nobody's hands here.
pub(crate) const fn is_known(stage: Stage) -> bool {
    matches!(stage, Known | HandedOver)
}

/// The task leaves the table and goes on elsewhere with the fence that it has: what is known of it is still good.
pub(crate) const fn goes_on(event: Event) -> bool {
    matches!(event, Claimed | NotClaimed | NotGranted | Due | Taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: [Event; 17] = [
        PutBack,
        Claimed,
        NotClaimed,
        LeaseBegun,
        Granted,
        NotGranted,
        Due,
        Withdrawn,
        Forgotten,
        LeaseDropped,
        GivenUp,
        GrantBegun,
        GrantEnded,
        BLOCKED,
        Taken,
        Event::HandedOver,
        Ended,
    ];

    /// From where an entry comes into the table: claimed, or fired.
    fn reached(from: Stage, events: &[Event]) -> Vec<Stage> {
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
        let reached = [CLAIMING, IN_LINE, Known].map(|stage| reached(stage, &EVENTS)).concat();
        assert_eq!(reached.len(), STEPS.len(), "no stage before the firing leads to one after it, or back");
        for (stage, moves) in STEPS {
            assert_eq!(STEPS.iter().filter(|(other, _)| other == stage).count(), 1, "{stage:?}");
            assert!(reached.contains(stage), "{stage:?}");
            for event in EVENTS {
                assert!(moves.iter().filter(|(on, _)| *on == event).count() <= 1, "{stage:?} {event:?}");
            }
        }
        let is_used = |event: &Event| STEPS.iter().any(|(_, moves)| moves.iter().any(|(on, _)| on == event));
        assert!(EVENTS.iter().all(is_used));
    }

    #[test]
    fn without_the_instant_no_stage_is_due_and_each_ends_with_the_partition() {
        let without_due: Vec<Event> = EVENTS.into_iter().filter(|event| *event != Due).collect();
        let is_due = |stage: &Stage| matches!(stage, Claiming { due: true } | Leasing { due: true });
        assert!(!reached(CLAIMING, &without_due).iter().any(is_due));
        let ends = |stage: &Stage| step(*stage, GivenUp) == Some(Gone) || is_kept(*stage) || is_known(*stage);
        assert!(
            STEPS.iter().all(|(stage, _)| ends(stage)),
            "what has fired is kept, and what is known, whoever owns its partition"
        );
    }

    #[test]
    fn what_was_withdrawn_is_not_given_and_comes_back_only_with_its_entry() {
        assert_eq!(step(Leased, Withdrawn), Some(Gone));
        assert_eq!(step(LEASING, Withdrawn), Some(To(Held)));
        assert_eq!((step(Held, Granted), step(Held, Due)), (Some(Gone), None));
        assert_eq!(step(Held, PutBack), Some(To(LEASING)));
        for stage in [CLAIMING_DUE, LEASING_DUE] {
            assert_eq!(step(stage, Withdrawn), None, "{stage:?} has fired");
        }
    }
}
