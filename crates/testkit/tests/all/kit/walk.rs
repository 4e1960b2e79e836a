//! Ways to any state by calls of the contract.

use punctual_domain::{
    state::{Event, State, TRANSITIONS},
    time::Millis,
};
use punctual_testkit::conformance::store::walk::{UNREACHABLE, change, path_to};

#[test]
fn the_exceptions_are_exactly_the_states_without_a_way() {
    for state in State::ALL {
        assert_eq!(path_to(state).is_none(), UNREACHABLE.contains(&state), "{state:?}");
    }
}

#[test]
fn every_change_makes_its_own_event() {
    for row in TRANSITIONS {
        let own_method = matches!(row.event, Event::Replace | Event::Dispatch);
        assert_eq!(
            change(row.event, Millis(5)).map(|change| change.event()),
            (!own_method).then_some(row.event)
        );
    }
}
