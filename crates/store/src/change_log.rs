//! One log line for each committed change of a task's state, for operators who search logs rather than histories. It is
//! written at level debug under the target `punctual_task`, after the commit. While the log filter omits that target,
//! nothing is built or copied. A call that fails in part writes no lines, and the end of retention, which moves many
//! tasks at once, writes none. Must never fail a call, wait, or write a line before the commit.

use punctual_contract::{
    Error,
    store::{Applied, Beat, Dispatched, Extended, Grant, Inserted, Step, Stepped},
};
use punctual_domain::{
    history::Note,
    insert::Decision,
    place::TaskRef,
    state::{Event, State},
    time::Millis,
};

fn is_on() -> bool {
    tracing::enabled!(target: "punctual_task", tracing::Level::DEBUG)
}

/// The lines of a call, prepared before it: the call takes its arguments.
pub(crate) struct ChangeLog<T>(Vec<T>);

struct ChangeLine<'a> {
    place: TaskRef,
    event: &'a str,
    to: State,
    attempt: Option<u32>,
    by: &'a str,
    due_at: Option<Millis>,
    reason: Option<&'a str>,
    error: Option<&'a str>,
}

fn write(line: &ChangeLine<'_>) {
    tracing::debug!(
        target: "punctual_task",
        task = %line.place,
        event = line.event,
        to = line.to.word(),
        attempt = line.attempt,
        by = line.by,
        due_at_ms = line.due_at.map(|due_at| due_at.0),
        reason = line.reason,
        error = line.error,
        "a task changed its state"
    );
}

/// The lines of an insert need nothing but its answer.
pub(crate) fn inserted(answers: &[Result<Inserted, Error>], by: &str) {
    if !is_on() {
        return;
    }
    for answer in answers.iter().flatten() {
        let event = match answer.decision {
            Decision::Create => "insert",
            Decision::Replace => Event::Replace.word(),
            Decision::ReturnExisting | Decision::Superseded | Decision::Exists => continue,
        };
        write(&ChangeLine {
            place: answer.task.place,
            event,
            to: State::Scheduled,
            attempt: None,
            by,
            due_at: Some(answer.task.due_at),
            reason: None,
            error: None,
        });
    }
}

impl ChangeLog<(TaskRef, Event, Note)> {
    pub(crate) fn of_steps(steps: &[Step]) -> Self {
        let line = |step: &Step| (step.place, step.change.event(), step.note.clone());
        Self(if is_on() { steps.iter().map(line).collect() } else { Vec::new() })
    }

    pub(crate) fn stepped(&self, answers: &[Stepped]) {
        for ((place, event, note), answer) in self.0.iter().zip(answers) {
            if answer.applied == Applied::Moved {
                write(&ChangeLine {
                    place: *place,
                    event: event.word(),
                    to: event.target(),
                    attempt: None,
                    by: &note.by,
                    due_at: note.due_at,
                    reason: note.reason.as_deref(),
                    error: note.error.as_deref(),
                });
            }
        }
    }
}

/// The executors of grants.
impl ChangeLog<String> {
    pub(crate) fn of_grants(grants: &[Grant]) -> Self {
        Self(if is_on() { grants.iter().map(|grant| grant.executor.clone()).collect() } else { Vec::new() })
    }

    pub(crate) fn dispatched(&self, answers: &[Dispatched]) {
        for (executor, answer) in self.0.iter().zip(answers) {
            if let Dispatched::Made(assignment) = answer {
                write(&ChangeLine {
                    place: assignment.place,
                    event: Event::Dispatch.word(),
                    to: Event::Dispatch.target(),
                    attempt: Some(assignment.attempt),
                    by: executor,
                    due_at: None,
                    reason: None,
                    error: None,
                });
            }
        }
    }
}

/// Heartbeats: those that begin a task, and reports of engines which executor has a task that was leased ahead.
impl ChangeLog<(TaskRef, String, bool)> {
    pub(crate) fn of_beats(beats: &[Beat]) -> Self {
        let line = |beat: &Beat| (beat.place, beat.executor.clone(), beat.handed_over_at.is_some());
        Self(if is_on() { beats.iter().map(line).collect() } else { Vec::new() })
    }

    pub(crate) fn extended(&self, answers: &[Extended]) {
        for ((place, executor, is_report), answer) in self.0.iter().zip(answers) {
            let Extended::Held { has_begun, .. } = answer else { continue };
            let event = match (is_report, has_begun) {
                (true, _) => Event::Dispatch,
                (false, true) => Event::Start,
                (false, false) => continue,
            };
            write(&ChangeLine {
                place: *place,
                event: event.word(),
                to: event.target(),
                attempt: None,
                by: executor,
                due_at: None,
                reason: None,
                error: None,
            });
        }
    }
}
