//! Converts the history of a task to the spans of its trace. Pure.
//!
//! `task` spans all of it, below the caller's span; below it `insert`, and for each attempt `wait` (until it fired), `lease`
//! (until an executor had it), `run` (until it reported) and `outcome`. `run` links to the run before it.

use crate::context::{RUN, SpanId, TraceContext};
use punctual_domain::{
    history::Entry,
    state::{Event, State},
    task::Task,
    time::Millis,
};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TraceSpan {
    pub(crate) name: &'static str,
    pub(crate) id: SpanId,
    /// `None` is the caller's span.
    pub(crate) parent: Option<SpanId>,
    pub(crate) from: Millis,
    pub(crate) until: Millis,
    pub(crate) attempt: u32,
    /// The run of the attempt before.
    pub(crate) link: Option<SpanId>,
    /// The author.
    pub(crate) by: Option<String>,
    /// The result, if any.
    pub(crate) outcome: Option<&'static str>,
    pub(crate) error: Option<String>,
}

/// An attempt, as its history describes it.
#[derive(Clone, Debug, Default)]
struct Attempt {
    number: u32,
    waits_from: Millis,
    fired_at: Option<Millis>,
    leased_at: Option<Millis>,
    by: Option<String>,
}

const fn ends_an_attempt(event: Event) -> bool {
    matches!(
        event,
        Event::Succeed
            | Event::Retry
            | Event::Snooze
            | Event::Bury
            | Event::Expire
            | Event::DeadLetter
            | Event::Abort
    )
}

/// All spans of a task that has ended.
pub(crate) fn of(task: &Task, context: &TraceContext) -> Vec<TraceSpan> {
    let id = |attempt, name| context.span(task.place.id, attempt, name);
    let whole = id(0, "task");
    let until = task.history.last().map_or(task.updated_at, |entry| entry.at);
    let span = |name, attempt, from: Millis, until: Millis| TraceSpan {
        name,
        id: id(attempt, name),
        parent: Some(whole),
        from: from.min(until),
        until,
        attempt,
        link: None,
        by: None,
        outcome: None,
        error: None,
    };
    let mut spans = vec![
        TraceSpan {
            parent: None,
            outcome: Some(task.state.word()),
            error: task.last_error.clone().filter(|_| task.state == State::Dead),
            ..span("task", 0, task.created_at, until)
        },
        span("insert", 0, task.created_at, task.created_at),
    ];
    let mut attempt = Attempt { number: 1, waits_from: task.created_at, ..Attempt::default() };
    let mut last_run = None;
    for entry in &task.history {
        match entry.event {
            Some(Event::Fire) => attempt.fired_at = Some(entry.at),
            Some(Event::Dispatch) => {
                (attempt.leased_at, attempt.by) = (Some(entry.at), Some(entry.by.clone()));
                attempt.number = entry.attempt.max(1);
            }
            Some(event) if ends_an_attempt(event) => {
                let made = of_attempt(task, &attempt, entry, &span);
                let run = made.iter().find(|span| span.name == RUN).map(|span| span.id);
                spans.extend(
                    made.into_iter()
                        .map(|span| TraceSpan { link: last_run.filter(|_| span.name == RUN), ..span }),
                );
                last_run = run.or(last_run);
                let number = attempt.number + 1;
                attempt = Attempt { number, waits_from: entry.at, ..Attempt::default() };
            }
            _ => {}
        }
    }
    spans
}

fn of_attempt(
    task: &Task,
    attempt: &Attempt,
    end: &Entry,
    span: &impl Fn(&'static str, u32, Millis, Millis) -> TraceSpan,
) -> Vec<TraceSpan> {
    let number = attempt.number;
    // The store knows the instant of firing of the last attempt, also where it was not marked by itself.
    let known = task.fired_at.filter(|fired_at| number == task.attempt && *fired_at >= attempt.waits_from);
    let fired_at = attempt.fired_at.or(known).or(attempt.leased_at).unwrap_or(end.at);
    let mut spans = vec![span("wait", number, attempt.waits_from, fired_at)];
    if let Some(leased_at) = attempt.leased_at {
        let by = attempt.by.clone();
        spans.push(TraceSpan { by: by.clone(), ..span("lease", number, fired_at, leased_at.max(fired_at)) });
        let outcome = end.event.map(Event::word);
        let run = span(RUN, number, leased_at.max(fired_at), end.at);
        spans.push(TraceSpan { by, outcome, error: end.error.clone(), ..run });
    }
    let outcome = end.event.map(Event::word);
    spans.push(TraceSpan { by: Some(end.by.clone()), outcome, ..span("outcome", number, end.at, end.at) });
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_domain::{
        name::{Name, QueueKey},
        place::{Partition, TaskRef},
        task::NewTask,
    };

    fn entry(at: i64, event: Option<Event>, attempt: u32) -> Entry {
        Entry {
            at: Millis(at),
            event,
            from: None,
            to: State::Scheduled,
            attempt,
            by: "mailer".to_owned(),
            due_at: None,
            reason: None,
            error: matches!(event, Some(Event::Retry)).then(|| "full".to_owned()),
        }
    }

    fn task(history: Vec<Entry>) -> Task {
        let queue = QueueKey { namespace: Name::default_namespace(), queue: Name::new("mail").unwrap() };
        Task {
            place: TaskRef { partition: Partition(0), due_at: Millis(10), id: 7 },
            ask: NewTask::new(queue, Name::new("send").unwrap(), Millis(10)),
            state: State::Succeeded,
            fence: 1,
            attempt: 2,
            due_at: Millis(10),
            fired_at: Some(Millis(110)),
            created_at: Millis(1),
            updated_at: Millis(150),
            keep_until: None,
            lease: None,
            progress: None,
            log: None,
            result: None,
            last_error: None,
            history,
        }
    }

    #[test]
    fn a_task_that_was_tried_twice_is_one_trace_whose_second_run_links_to_the_first() {
        let context = TraceContext::read("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").unwrap();
        let task = task(vec![
            entry(1, None, 0),
            entry(11, Some(Event::Dispatch), 1),
            entry(20, Some(Event::Start), 1),
            entry(30, Some(Event::Retry), 1),
            entry(112, Some(Event::Dispatch), 2),
            entry(150, Some(Event::Succeed), 2),
        ]);
        let spans = of(&task, &context);
        let reported: Vec<_> =
            spans.iter().map(|span| (span.name, span.attempt, span.from.0, span.until.0)).collect();
        assert_eq!(
            reported,
            [
                ("task", 0, 1, 150),
                ("insert", 0, 1, 1),
                ("wait", 1, 1, 11),
                ("lease", 1, 11, 11),
                ("run", 1, 11, 30),
                ("outcome", 1, 30, 30),
                ("wait", 2, 30, 110),
                ("lease", 2, 110, 112),
                ("run", 2, 112, 150),
                ("outcome", 2, 150, 150),
            ]
        );
        let runs: Vec<&TraceSpan> = spans.iter().filter(|span| span.name == RUN).collect();
        assert_eq!((runs[0].link, runs[1].link), (None, Some(runs[0].id)));
        assert_eq!((runs[0].error.as_deref(), runs[1].outcome), (Some("full"), Some("succeed")));
        assert!(spans[0].parent.is_none() && spans[1..].iter().all(|span| span.parent == Some(spans[0].id)));
        assert!(context.of_attempt(7, 2).contains(&runs[1].id.to_string()), "what the executor was handed");
    }
}
