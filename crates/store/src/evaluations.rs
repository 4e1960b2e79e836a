//! What both back ends do with marks of evaluations: what follows from the marks that stand.

use punctual_contract::evaluations::{Standing, Subject, Turn};
use std::collections::{BTreeMap, HashMap};

/// A mark that stands.
pub(crate) struct Mark {
    pub(crate) id: i64,
    pub(crate) engine: String,
    pub(crate) turn: i64,
    pub(crate) is_alive: bool,
}

/// Of each subject, in order. Two marks of one engine are one engine.
pub(crate) fn standing(turn: &Turn, subjects: &[Subject], marks: Vec<Mark>) -> Vec<Standing> {
    let mut own: HashMap<i64, bool> = HashMap::new();
    let mut others: HashMap<i64, BTreeMap<String, bool>> = HashMap::new();
    for mark in marks {
        if mark.engine == turn.engine {
            *own.entry(mark.id).or_default() |= mark.turn == turn.number;
        } else {
            others.entry(mark.id).or_default().insert(mark.engine, mark.is_alive);
        }
    }
    let of = |subject: &Subject| {
        let others = others.get(&subject.id);
        let count =
            |alive: bool| others.map_or(0, |all| all.values().filter(|is_alive| **is_alive == alive).count());
        Standing {
            is_marked: own.get(&subject.id).copied().unwrap_or(false),
            died: count(false),
            at_work: count(true),
        }
    };
    subjects.iter().map(of).collect()
}
