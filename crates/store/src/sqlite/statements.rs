//! The files of statements, one a subject, beside the modules that use them; and the statement of each event.

use punctual_domain::state::Event;

crate::subject::subjects!(
    access,
    agenda,
    audit,
    bulk,
    cluster,
    evaluations,
    executors,
    insert,
    labels,
    lease,
    ledger,
    moves,
    namespaces,
    open,
    query,
    reply,
    retention,
    schedules,
    settings,
    workflows
);

/// The text of a statement: `sql!(lease, extend)` is `extend` in `lease.sql`.
macro_rules! sql {
    ($subject:ident, $name:ident) => {
        const { $crate::sqlite::statements::subjects::$subject.statement(stringify!($name)) }
    };
}
pub(crate) use sql;

/// The guarded statement of an event.
pub(crate) const fn of_event(event: Event) -> &'static str {
    match event {
        Event::Replace => sql!(moves, replace),
        Event::Unblock => sql!(moves, unblock),
        Event::Claim => sql!(moves, claim),
        Event::Reclaim => sql!(moves, reclaim),
        Event::HandBack => sql!(moves, hand_back),
        Event::Fire => sql!(moves, fire),
        Event::Dispatch => sql!(moves, dispatch),
        Event::FailDispatch => sql!(moves, fail_dispatch),
        Event::Release => sql!(moves, release),
        Event::Start => sql!(moves, start),
        Event::Succeed => sql!(moves, succeed),
        Event::Retry => sql!(moves, retry),
        Event::Snooze => sql!(moves, snooze),
        Event::Bury => sql!(moves, bury),
        Event::Expire => sql!(moves, expire),
        Event::DeadLetter => sql!(moves, dead_letter),
        Event::Cancel => sql!(moves, cancel),
        Event::Withdraw => sql!(moves, withdraw),
        Event::Abort => sql!(moves, abort),
        Event::Reschedule => sql!(moves, reschedule),
        Event::Amend => sql!(moves, amend),
        Event::Redrive => sql!(moves, redrive),
        Event::Retire => sql!(moves, retire),
    }
}
