//! The verdict over a whole recording: each task by itself, and of a task that breaks the specification the shortest
//! beginning of its history that does. Must never count a task that was not decided as one that passed.

use crate::{
    history::{OpKind, RecordedOp, Recording},
    search::{Found, search},
    spec::{Spec, SpecRules},
};
use std::{collections::BTreeMap, fmt};

/// More than any history of a task that a client has without looking for trouble needs.
pub const STATES_MAX: usize = 200_000;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinearReport {
    pub tasks: usize,
    pub ops: usize,
    /// Pairs of calls placed and state that were looked at.
    pub states: usize,
    /// Tasks whose search met the bound: nothing is known of them.
    pub undecided: Vec<i64>,
    pub violations: Vec<Violation>,
}

impl LinearReport {
    #[must_use]
    pub fn holds(&self) -> bool {
        self.violations.is_empty() && self.undecided.is_empty()
    }
}

impl fmt::Display for LinearReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tasks, ops, states, undecided, violations } = self;
        let (violated, undecided) = (violations.len(), undecided.len());
        write!(
            f,
            "{tasks} histories of {ops} calls: {} linearizable, {violated} not, {undecided} undecided ({states} states)",
            tasks - violated - undecided
        )
    }
}

/// A history that no single task can have had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub task: i64,
    /// The shortest beginning that shows it, in the order in which the calls were made.
    pub ops: Vec<RecordedOp>,
    /// How far an order of it leads, and what fits none.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "task {}: {}", self.task, self.text)?;
        let begun = self.ops.first().map_or(0, |op| op.called);
        for op in &self.ops {
            let returned =
                op.returned.map_or_else(|| "never".to_owned(), |returned| (returned - begun).to_string());
            writeln!(f, "  {:>9} to {returned:>9}  {:?}", op.called - begun, op.kind)?;
        }
        Ok(())
    }
}

/// Checks each task of a recording.
#[must_use]
pub fn check(recording: &Recording, rules: SpecRules, states_max: usize) -> LinearReport {
    let mut of_tasks: BTreeMap<i64, Vec<RecordedOp>> = BTreeMap::new();
    for op in &recording.ops {
        of_tasks.entry(op.task).or_default().push(op.clone());
    }
    let mut report =
        LinearReport { tasks: of_tasks.len(), ops: recording.ops.len(), ..LinearReport::default() };
    for (task, mut ops) in of_tasks {
        ops.sort_by_key(|op| (op.called, op.returned.unwrap_or(i64::MAX)));
        let spec = Spec { rules, unseen_max: unseen_max(&ops, recording) };
        match search(&ops, &spec, states_max, &mut report.states) {
            Found::Order => {}
            Found::Undecided => report.undecided.push(task),
            Found::NoOrder { .. } => report.violations.push(shortest(task, &ops, &spec, states_max)),
        }
    }
    report
}

/// Calls for work of its queue that may have been handed this task and lost it.
fn unseen_max(ops: &[RecordedOp], recording: &Recording) -> u32 {
    let inserts = ops.iter().filter_map(|op| match op.kind {
        OpKind::Insert { queue, .. } => Some((queue, op.from_us)),
        _ => None,
    });
    let Some((queue, from_us)) = inserts.min_by_key(|insert| insert.1) else { return 0 };
    let may_have = recording
        .lost_calls
        .iter()
        .filter(|lost_work| lost_work.queue == queue && lost_work.until_us >= from_us);
    // A few show all that many would.
    u32::try_from(may_have.take(8).count()).unwrap_or(8)
}

/// A beginning of what is no history is none either, from some answer on: the first such answer.
fn shortest(task: i64, ops: &[RecordedOp], spec: &Spec, states_max: usize) -> Violation {
    let mut answers: Vec<i64> = ops.iter().filter_map(|op| op.returned).collect();
    answers.sort_unstable();
    let found = |until: i64| {
        let begun = beginning(ops, until);
        let mut states = 0;
        (search(&begun, spec, states_max, &mut states), begun)
    };
    let is_fine = |until: &i64| !matches!(found(*until).0, Found::NoOrder { .. });
    let first = answers.partition_point(is_fine);
    let until = answers.get(first).copied().unwrap_or(i64::MAX);
    let (found, begun) = found(until);
    let text = match found {
        Found::NoOrder { placed, state, next } => {
            let next = next.iter().filter_map(|nth| begun.get(*nth)).map(|op| name(&op.kind));
            format!(
                "no order of {} calls; after {placed} of them the task is {:?}, and none fits of: {}",
                begun.len(),
                state.phase,
                next.collect::<Vec<_>>().join(", ")
            )
        }
        Found::Order | Found::Undecided => "no order".to_owned(),
    };
    Violation { task, ops: begun, text }
}

/// What clients knew by then. A call that was not answered yet may have happened or not, whatever it was answered later.
fn beginning(ops: &[RecordedOp], until: i64) -> Vec<RecordedOp> {
    let begun = ops.iter().filter(|op| op.called <= until).cloned();
    begun
        .map(|mut op| {
            if op.returned.is_some_and(|returned| returned > until) {
                (op.returned, op.until_us) = (None, i64::MAX);
                forget_answer(&mut op.kind);
            }
            op
        })
        .collect()
}

pub(crate) fn forget_answer(kind: &mut OpKind) {
    match kind {
        OpKind::Insert { answer, .. } => *answer = None,
        OpKind::Cancel { answer, .. } | OpKind::Reschedule { answer, .. } | OpKind::Redrive { answer } => {
            *answer = None;
        }
        OpKind::Outcome { answer, .. } => *answer = None,
        OpKind::Extend { held, .. } => *held = None,
        OpKind::Fire { .. } | OpKind::Read { .. } => {}
    }
}

const fn name(kind: &OpKind) -> &'static str {
    match kind {
        OpKind::Insert { .. } => "insert",
        OpKind::Cancel { .. } => "cancel",
        OpKind::Reschedule { .. } => "reschedule",
        OpKind::Redrive { .. } => "redrive",
        OpKind::Fire { .. } => "fire",
        OpKind::Extend { .. } => "extend",
        OpKind::Outcome { .. } => "outcome",
        OpKind::Read { .. } => "read",
    }
}
