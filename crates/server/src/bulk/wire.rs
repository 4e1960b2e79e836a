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

/// Converts a request that the wire has checked.
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
            let at = || args.execute_at_ms().map(|execute| NewTime::At(Millis(execute)));
            Action::Reschedule(args.by_ms.map(NewTime::ByMs).or_else(at).ok_or_else(missing)?)
        }
        BulkAction::SetPriority => {
            let bad = |detail: String| Refusal::field("/args/priority", detail);
            let level = args.priority.ok_or_else(|| bad("is missing".to_owned()))?;
            Action::SetPriority { priority: Priority::new(level).map_err(|error| bad(error.to_string()))? }
        }
        BulkAction::SetQueue => {
            let bad = |detail: String| Refusal::field("/args/queue", detail);
            let queue = args.queue.as_deref().ok_or_else(|| bad("is missing".to_owned()))?;
            Action::SetQueue { queue: Name::chosen(queue).map_err(|error| bad(error.to_string()))? }
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
    let at = |instant: &Option<Instant>| instant.as_ref().and_then(Instant::ms).map(Millis);
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

pub(super) fn shown(bulk: &StoredBulk) -> BulkOperation {
    let progress = &bulk.progress;
    let (action, args) = asked(&bulk.bulk.action);
    let left = if bulk.state.is_ended() { 0 } else { progress.count.saturating_sub(progress.accounted()) };
    BulkOperation {
        id: bulk.id,
        revision: bulk.step,
        namespace: bulk.namespace.as_str().to_owned(),
        action,
        args,
        filter: shown_filter(&bulk.bulk.filter),
        rate: bulk.bulk.rate,
        reason: bulk.bulk.reason.clone(),
        state: state(bulk.state),
        states: bulk.bulk.states().into_iter().map(answer::state).collect(),
        count: progress.count,
        count_is_exact: progress.count_is_exact,
        counted_all: progress.count_is_exact,
        takes_ms: bulk.bulk.takes_ms(left),
        done: progress.tally.done,
        skipped: progress.tally.skipped,
        failed: progress.tally.failed,
        sample: None,
        waits_for: progress.waits_for(),
        set_aside: None,
        note: progress.note.clone(),
        created_at: At::from_ms(bulk.created_at.0),
        created_at_ms: bulk.created_at.0,
        created_by: bulk.created_by.clone(),
        confirmed_at: progress.confirmed_at.map(|confirmed_at| At::from_ms(confirmed_at.0)),
        confirmed_at_ms: progress.confirmed_at.map(|confirmed_at| confirmed_at.0),
        confirmed_by: progress.confirmed_by.clone(),
        ended_at: progress.ended_at.map(|ended_at| At::from_ms(ended_at.0)),
        ended_at_ms: progress.ended_at.map(|ended_at| ended_at.0),
    }
}

/// The operation for the audit, without its next tasks.
pub(super) fn for_the_audit(bulk: &StoredBulk) -> Value {
    let tally = bulk.progress.tally;
    json!({
        "id": bulk.id, "action": bulk.bulk.action, "filter": bulk.bulk.filter, "rate": bulk.bulk.rate, "state": bulk.state.word(),
        "count": bulk.progress.count, "count_is_exact": bulk.progress.count_is_exact,
        "done": tally.done, "skipped": tally.skipped, "failed": tally.failed,
    })
}

pub(super) fn failure(failure: Failure) -> BulkFailure {
    BulkFailure {
        task_ref: failure.place.to_string(),
        error: failure.error,
        at: At::from_ms(failure.at.0),
        at_ms: failure.at.0,
    }
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

fn shown_filter(filter: &Filter) -> BulkFilter {
    let instant = |at: Option<Millis>| at.map(|at| Instant::Text(At::from_ms(at.0).to_string()));
    let text = |name: &Option<Name>| name.as_ref().map(|name| name.as_str().to_owned());
    BulkFilter {
        queue: text(&filter.queue),
        state: filter.state.map(answer::state),
        phase: filter.phase.map(answer::phase),
        kind: text(&filter.kind),
        label: filter.label.as_ref().map(|(key, value)| {
            let between = if key.contains('=') { ':' } else { '=' };
            format!("{key}{between}{value}")
        }),
        due_after: instant(filter.due_after),
        due_before: instant(filter.due_before),
        error: filter.error.clone(),
    }
}

const fn state(state: DomainState) -> BulkState {
    match state {
        DomainState::Previewed => BulkState::Previewed,
        DomainState::Running => BulkState::Running,
        DomainState::Paused => BulkState::Paused,
        DomainState::Stopped => BulkState::Stopped,
        DomainState::Done => BulkState::Done,
    }
}
