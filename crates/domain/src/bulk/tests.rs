//! The states that actions apply to, the stored form of documents, and the rate of operations.

use super::*;
use crate::state::Phase;

fn bulk(action: Action, filter: Filter) -> Bulk {
    Bulk { action, filter, rate: 100, reason: None }
}

fn all() -> Vec<Action> {
    vec![
        Action::Cancel { stop_if_fired: false },
        Action::Cancel { stop_if_fired: true },
        Action::Reschedule(NewTime::ByMs(1)),
        Action::SetPriority { priority: Priority::default() },
        Action::SetQueue { queue: Name::new("sms").unwrap() },
        Action::RunNow,
        Action::Redrive,
        Action::Bury,
        Action::Delete,
        Action::Export,
    ]
}

#[test]
fn every_action_has_a_word_of_the_list() {
    let mut words: Vec<&str> = all().iter().map(Action::word).collect();
    words.dedup();
    assert_eq!(words, Action::WORDS);
}

#[test]
fn no_action_touches_what_it_leaves_behind() {
    for action in all() {
        let target = match action {
            Action::Cancel { .. } => State::Cancelled,
            Action::Redrive => State::Scheduled,
            Action::Bury => State::Dead,
            // Their mark protects these, or they are deleted, or stay as they are.
            _ => continue,
        };
        assert!(!action.leaves(target), "{action:?}");
    }
}

#[test]
fn only_what_an_action_leaves_is_looked_for() {
    let pending = Filter { phase: Some(Phase::Pending), ..Filter::default() };
    let states = bulk(Action::Cancel { stop_if_fired: false }, pending).states();
    assert_eq!(states, [State::Scheduled, State::Dispatching, State::Retrying, State::Blocked]);
    let dead = Filter { state: Some(State::Dead), ..Filter::default() };
    assert_eq!(bulk(Action::Redrive, dead.clone()).states(), [State::Dead]);
    assert_eq!(bulk(Action::Cancel { stop_if_fired: true }, dead).states(), []);
    let none = Filter::default();
    assert_eq!(
        bulk(Action::Delete, none).states(),
        [State::Succeeded, State::Dead, State::Cancelled, State::Stopped]
    );
}

#[test]
fn documents_stand_as_they_are_stored() {
    let filter = Filter {
        queue: Some(Name::new("mail").unwrap()),
        state: Some(State::Dead),
        label: Some(("a".to_owned(), "b".to_owned())),
        due_after: Some(Millis(5)),
        ..Filter::default()
    };
    let one = Bulk { reason: Some("why".to_owned()), ..bulk(Action::Reschedule(NewTime::ByMs(-5)), filter) };
    let text = concat!(
        r#"{"action":{"reschedule":{"by_ms":-5}},"#,
        r#""filter":{"queue":"mail","state":"dead","label":["a","b"],"due_after":5},"rate":100,"reason":"why"}"#
    );
    assert_eq!(serde_json::to_string(&one).unwrap(), text);
    assert_eq!(serde_json::from_str::<Bulk>(text).unwrap(), one);
    for action in all() {
        let text = serde_json::to_string(&action).unwrap();
        assert!(text.contains(action.word()), "{text}");
        assert_eq!(serde_json::from_str::<Action>(&text).unwrap(), action);
    }
}

#[test]
fn an_operation_is_never_faster_than_its_rate() {
    let mut progress = Progress::default();
    let now = Millis(1_000_000);
    progress.pace(now, 50, 100);
    assert_eq!(progress.paced_until, now.plus(-500), "a second that was not used is good");
    progress.pace(now, 50, 100);
    assert_eq!(progress.paced_until, now);
    progress.pace(now, 1, 3);
    assert_eq!(progress.paced_until, now.plus(334), "rounded up");
    progress.pace(now.plus(60_000), 100, 100);
    assert_eq!(progress.paced_until, now.plus(60_000), "a minute that was not used is a second");
}

#[test]
fn a_shift_goes_from_the_instant_that_stands_and_not_before_the_first() {
    assert_eq!(NewTime::ByMs(5).of(Millis(10)), Millis(15));
    assert_eq!(NewTime::ByMs(-50).of(Millis(10)), Millis::ZERO);
    assert_eq!(NewTime::At(Millis(7)).of(Millis(10)), Millis(7));
}
