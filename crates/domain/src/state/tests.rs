//! Holds the table against itself, against every SQL script that moves a task, and against the docs.

use super::*;
use std::{collections::HashSet, env, fs, path::Path, path::PathBuf};

fn repo() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn each_event_has_one_row() {
    let mut seen = HashSet::new();
    assert!(TRANSITIONS.iter().all(|transition| seen.insert(transition.event)));
    for transition in TRANSITIONS {
        assert_eq!(Event::from_word(transition.event.word()), Some(transition.event));
        assert_eq!(serde_json::to_value(transition.event).unwrap(), transition.event.word());
    }
}

#[test]
fn every_state_has_one_code_and_one_word() {
    for state in State::ALL {
        assert_eq!(State::from_code(state.code()), Some(state));
        assert_eq!(State::from_word(state.word()), Some(state));
        assert_eq!(serde_json::to_value(state).unwrap(), state.word());
    }
}

#[test]
fn every_state_is_reachable_and_every_unfinished_one_has_an_exit() {
    for state in State::ALL {
        let entry = matches!(state, Scheduled | Blocked);
        assert!(
            entry || TRANSITIONS.iter().any(|transition| transition.to == state),
            "{state:?} is unreachable"
        );
        let exit =
            TRANSITIONS.iter().any(|transition| transition.from.contains(&state) && transition.to != state);
        assert!(exit || state == Stopped, "{state:?} is a trap");
    }
}

#[test]
fn only_a_callers_wish_or_the_end_of_retention_leaves_a_finished_state() {
    for transition in TRANSITIONS {
        let leaves_end = transition.from.iter().any(|from| from.is_finished());
        assert_eq!(
            leaves_end,
            transition.event.revives() || matches!(transition.event, Event::Retire | Event::Amend),
            "{:?}",
            transition.event
        );
    }
}

#[test]
fn each_state_is_waiting_in_flight_finished_or_blocked_and_phases_agree() {
    for state in State::ALL {
        let classes = [state.is_waiting(), state.is_in_flight(), state.is_finished(), state == Blocked];
        assert_eq!(classes.iter().filter(|class| **class).count(), 1, "{state:?}");
        assert_eq!(state.is_in_flight(), state.phase() == Phase::Processing, "{state:?}");
    }
}

#[test]
fn what_has_fired_is_not_cancelled_but_withdrawn() {
    assert!(Ready.after(Event::Cancel).is_err());
    assert!(Dispatched.after(Event::Cancel).is_err());
    assert_eq!(Ready.after(Event::Withdraw), Ok(Cancelled));
}

/// A script states its move once, in a comment: `-- moves: <event> from (<codes>) to <code>`. The comment
/// must equal the table and the codes must be the literals that the script uses, so it cannot drift.
#[test]
fn scripts_match_the_table() {
    let mut moved = HashSet::new();
    for (path, text) in scripts(&repo().join("crates/store/src")) {
        for line in text.lines().filter_map(|line| line.trim().strip_prefix("-- moves: ")) {
            let word = line.split(' ').next().unwrap();
            let event = Event::from_word(word).unwrap_or_else(|| panic!("{}: {line:?}", path.display()));
            let codes: Vec<String> = event.sources().iter().map(|source| source.code().to_string()).collect();
            let (from, to) = (codes.join(", "), event.target().code());
            assert_eq!(line, format!("{word} from ({from}) to {to}"), "{}", path.display());
            assert!(text.contains(&format!("state IN ({from})")), "{}: no guard", path.display());
            assert!(text.contains(&format!("state = {to}")), "{}: no target", path.display());
            moved.insert(event);
        }
    }
    let missing: Vec<_> =
        TRANSITIONS.iter().filter(|transition| !moved.contains(&transition.event)).collect();
    assert!(missing.is_empty(), "no script for {missing:?}");
}

/// `UPDATE_EXPECT=1 cargo test -p punctual-domain` rewrites the diagram; otherwise an outdated one fails. The
/// text below it is written manually, and checked by `ratchets::states` of testkit.
#[test]
fn diagram_is_current() {
    let path = repo().join("docs/state-machine.md");
    let want = format!("{INTRO}```mermaid\n{}```\n", mermaid());
    let page = fs::read_to_string(&path).unwrap_or_default();
    if env::var_os("UPDATE_EXPECT").is_some() {
        let (_, by_hand) = page.split_once("```\n\n").unwrap_or_default();
        fs::write(&path, format!("{want}\n{by_hand}")).unwrap();
    }
    let page = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(page.get(..want.len()), Some(want.as_str()), "run with UPDATE_EXPECT=1");
}

const INTRO: &str = "# Task states\n\nFor developers. Generated from `domain::state::TRANSITIONS` by a test, up to the end of the diagram; do not edit that part.\n\n";

/// Each statement of the files of SQL, which begins with its name.
fn scripts(dir: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(scripts(&path));
        } else if path.extension().is_some_and(|ending| ending == "sql") {
            let text = fs::read_to_string(&path).unwrap();
            found.extend(text.split("-- name: ").skip(1).map(|one| (path.clone(), one.to_owned())));
        }
    }
    found
}
