//! The statements of each event, in `moves.sql`.

use super::{alike::Alike, statements::sql};
use punctual_domain::state::Event;

static CLAIM: Alike = Alike::new(sql!(moves, claim_by_key));
static DISPATCH: Alike = Alike::new(sql!(moves, dispatch_by_key));
static START: Alike = Alike::new(sql!(moves, start_by_key));
static SUCCEED: Alike = Alike::or_each(sql!(moves, succeed_by_key));

/// The guarded statement of an event for rows that are alike, where there is one.
pub(crate) const fn alike_of_event(event: Event) -> Option<&'static Alike> {
    match event {
        Event::Claim => Some(&CLAIM),
        Event::Dispatch => Some(&DISPATCH),
        Event::Start => Some(&START),
        Event::Succeed => Some(&SUCCEED),
        _ => None,
    }
}

/// The guarded statement of an event. `None` means only an insert makes it.
pub(crate) const fn of_event(event: Event) -> Option<&'static str> {
    Some(match event {
        Event::Replace => return None,
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
    })
}
