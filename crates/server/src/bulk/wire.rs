//! Bulk operations between the wire and the domain.

use crate::{answer, refusal::Refusal};
use punctual_contract::bulk::{BulkFailure as Failure, StoredBulk};
use punctual_domain::{
    bulk::{Action, Bulk, BulkState as DomainState, Filter, NewTime},
    name::Name,
    task::Priority,
    time::Millis,
};
use punctual_protocol::{
    At, BULK_RATE_DEFAULT, BulkAction, BulkArgs, BulkFailure, BulkFilter, BulkOperation, BulkState,
    CreateBulk, Instant,
};
use serde_json::{Value, json};

/// As the wire has checked it.
pub(super) fn domain(asked: &CreateBulk) -> Result<Bulk, Refusal> {
    Ok(Bulk {
        action: action(asked)?,
        filter: filter(&asked.filter)?,
        rate: asked.rate.unwrap_or(BULK_RATE_DEFAULT),
        reason: asked.reason.clone(),
    })
}

fn action(asked: &CreateBulk) -> Result<Action, Refusal> {
    let args = &asked.args;
    Ok(match asked.action {
        BulkAction::Cancel => Action::Cancel { stop_if_fired: args.stop_if_fired },
        BulkAction::Reschedule => {
            let missing = || Refusal::field("/args", "give one of by_ms, execute_at and execute_at_ms");
            let at = || args.execute_at_ms().map(|it| NewTime::At(Millis(it)));
            Action::Reschedule(args.by_ms.map(NewTime::ByMs).or_else(at).ok_or_else(missing)?)
        }
        BulkAction::SetPriority => {
            let bad = |detail: String| Refusal::field("/args/priority", detail);
            let level = args.priority.ok_or_else(|| bad("is missing".to_owned()))?;
            Action::SetPriority { priority: Priority::new(level).map_err(|it| bad(it.to_string()))? }
        }
        BulkAction::SetQueue => {
            let bad = |detail: String| Refusal::field("/args/queue", detail);
            let queue = args.queue.as_deref().ok_or_else(|| bad("is missing".to_owned()))?;
            Action::SetQueue { queue: Name::chosen(queue).map_err(|it| bad(it.to_string()))? }
        }
        BulkAction::RunNow => Action::RunNow,
        BulkAction::Redrive => Action::Redrive,
        BulkAction::Bury => Action::Bury,
        BulkAction::Delete => Action::Delete,
        BulkAction::Export => Action::Export,
    })
}

fn filter(asked: &BulkFilter) -> Result<Filter, Refusal> {
    let name = |pointer: &str, text: &Option<String>| {
        let checked = text.as_deref().map(Name::chosen).transpose();
        checked.map_err(|error| Refusal::field(pointer, error.to_string()))
    };
    let at = |it: &Option<Instant>| it.as_ref().and_then(Instant::ms).map(Millis);
    Ok(Filter {
        queue: name("/filter/queue", &asked.queue)?,
        state: asked.state.map(answer::domain_state),
        phase: asked.phase.map(answer::domain_phase),
        kind: name("/filter/kind", &asked.kind)?,
        label: asked.label().map(|(key, value)| (key.to_owned(), value.to_owned())),
        due_after: at(&asked.due_after),
        due_before: at(&asked.due_before),
        error: asked.error.clone(),
    })
}

pub(super) fn shown(it: &StoredBulk) -> BulkOperation {
    let progress = &it.progress;
    let (action, args) = asked(&it.bulk.action);
    let left = if it.state.is_ended() { 0 } else { progress.count.saturating_sub(progress.accounted()) };
    BulkOperation {
        id: it.id,
        revision: it.step,
        namespace: it.namespace.as_str().to_owned(),
        action,
        args,
        filter: shown_filter(&it.bulk.filter),
        rate: it.bulk.rate,
        reason: it.bulk.reason.clone(),
        state: state(it.state),
        states: it.bulk.states().into_iter().map(answer::state).collect(),
        count: progress.count,
        count_is_exact: progress.count_is_exact,
        counted_all: progress.count_is_exact,
        takes_ms: it.bulk.takes_ms(left),
        done: progress.tally.done,
        skipped: progress.tally.skipped,
        failed: progress.tally.failed,
        sample: None,
        waits_for: progress.waits_for(),
        set_aside: None,
        note: progress.note.clone(),
        created_at: At::from_ms(it.created_at.0),
        created_at_ms: it.created_at.0,
        created_by: it.created_by.clone(),
        confirmed_at: progress.confirmed_at.map(|it| At::from_ms(it.0)),
        confirmed_at_ms: progress.confirmed_at.map(|it| it.0),
        confirmed_by: progress.confirmed_by.clone(),
        ended_at: progress.ended_at.map(|it| At::from_ms(it.0)),
        ended_at_ms: progress.ended_at.map(|it| it.0),
    }
}

/// Without the tasks that come next.
pub(super) fn for_the_audit(it: &StoredBulk) -> Value {
    let tally = it.progress.tally;
    json!({
        "id": it.id, "action": it.bulk.action, "filter": it.bulk.filter, "rate": it.bulk.rate, "state": it.state.word(),
        "count": it.progress.count, "count_is_exact": it.progress.count_is_exact,
        "done": tally.done, "skipped": tally.skipped, "failed": tally.failed,
    })
}

pub(super) fn failure(it: Failure) -> BulkFailure {
    BulkFailure { task_ref: it.place.to_string(), error: it.error, at: At::from_ms(it.at.0), at_ms: it.at.0 }
}

fn asked(action: &Action) -> (BulkAction, BulkArgs) {
    let none = BulkArgs::default;
    match action {
        Action::Cancel { stop_if_fired } => {
            (BulkAction::Cancel, BulkArgs { stop_if_fired: *stop_if_fired, ..none() })
        }
        Action::Reschedule(NewTime::ByMs(ms)) => {
            (BulkAction::Reschedule, BulkArgs { by_ms: Some(*ms), ..none() })
        }
        Action::Reschedule(NewTime::At(at)) => {
            (BulkAction::Reschedule, BulkArgs { execute_at_ms: Some(at.0), ..none() })
        }
        Action::SetPriority { priority } => {
            (BulkAction::SetPriority, BulkArgs { priority: Some(priority.level()), ..none() })
        }
        Action::SetQueue { queue } => {
            (BulkAction::SetQueue, BulkArgs { queue: Some(queue.as_str().to_owned()), ..none() })
        }
        Action::RunNow => (BulkAction::RunNow, none()),
        Action::Redrive => (BulkAction::Redrive, none()),
        Action::Bury => (BulkAction::Bury, none()),
        Action::Delete => (BulkAction::Delete, none()),
        Action::Export => (BulkAction::Export, none()),
    }
}

fn shown_filter(it: &Filter) -> BulkFilter {
    let instant = |at: Option<Millis>| at.map(|it| Instant::Text(At::from_ms(it.0).to_string()));
    let text = |name: &Option<Name>| name.as_ref().map(|it| it.as_str().to_owned());
    BulkFilter {
        queue: text(&it.queue),
        state: it.state.map(answer::state),
        phase: it.phase.map(answer::phase),
        kind: text(&it.kind),
        label: it.label.as_ref().map(|(key, value)| {
            let between = if key.contains('=') { ':' } else { '=' };
            format!("{key}{between}{value}")
        }),
        due_after: instant(it.due_after),
        due_before: instant(it.due_before),
        error: it.error.clone(),
    }
}

const fn state(it: DomainState) -> BulkState {
    match it {
        DomainState::Previewed => BulkState::Previewed,
        DomainState::Running => BulkState::Running,
        DomainState::Paused => BulkState::Paused,
        DomainState::Stopped => BulkState::Stopped,
        DomainState::Done => BulkState::Done,
    }
}
