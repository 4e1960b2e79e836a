//! Marks of evaluations, for both back ends: the decision that follows from the stored marks.

use punctual_contract::evaluations::{EvaluationPass, Subject, SubjectMarks};
use std::collections::{BTreeMap, HashMap};

/// A stored mark.
pub(crate) struct Mark {
    pub(crate) id: i64,
    pub(crate) engine: String,
    pub(crate) pass: i64,
    pub(crate) is_alive: bool,
}

/// The marks of each subject, in order. Two marks of one engine count as one engine.
pub(crate) fn marks_of_subject(
    pass: &EvaluationPass,
    subjects: &[Subject],
    marks: Vec<Mark>,
) -> Vec<SubjectMarks> {
    let mut own: HashMap<i64, bool> = HashMap::new();
    let mut others: HashMap<i64, BTreeMap<String, bool>> = HashMap::new();
    for mark in marks {
        if mark.engine == pass.engine {
            *own.entry(mark.id).or_default() |= mark.pass == pass.number;
        } else {
            others.entry(mark.id).or_default().insert(mark.engine, mark.is_alive);
        }
    }
    let of = |subject: &Subject| {
        let others = others.get(&subject.id);
        let count =
            |alive: bool| others.map_or(0, |all| all.values().filter(|is_alive| **is_alive == alive).count());
        SubjectMarks {
            is_marked: own.get(&subject.id).copied().unwrap_or(false),
            died: count(false),
            at_work: count(true),
        }
    };
    subjects.iter().map(of).collect()
}
