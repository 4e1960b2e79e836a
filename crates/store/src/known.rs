//! Decides which facts of a caller a move may use. A move without usable facts reads the row. Must keep nothing from one call
//! to the next.

use punctual_contract::store::{Assignment, Change, Facts, Grant, LeaseFacts, Step};
use punctual_domain::time::Millis;

/// The facts of a grant.
pub(crate) fn of_grant(grant: &Grant) -> Option<&Facts> {
    grant.known.as_ref().filter(|facts| facts.may_go())
}

/// The facts of a step: only a success is written without a read.
pub(crate) fn of_step(step: &Step) -> Option<&LeaseFacts> {
    let is_success = step.fence.is_some() && matches!(step.change, Change::Succeed { .. });
    step.known.as_ref().filter(|_| is_success)
}

/// The assignment of a grant, if the task's row is as the facts state.
pub(crate) fn assigned(grant: &Grant, facts: &Facts, since: Millis, lease_until: Millis) -> Assignment {
    let ask = &facts.ask;
    Assignment {
        place: facts.place,
        queue: (*facts.queue).clone(),
        task_id: facts.task_id,
        task_version: facts.task_version,
        fence: grant.fence + 1,
        attempt: facts.attempt + 1,
        max_attempts: ask.max_attempts,
        kind: facts.kind.clone(),
        priority: facts.priority,
        payload: ask.payload.clone(),
        execute_at: ask.execute_at,
        due_at: grant.place.due_at,
        fired_at: grant.fired_at,
        leased_since: since,
        lease_until,
        timeout_ms: ask.timeout_ms,
        labels: ask.labels.clone(),
        traceparent: ask.traceparent.clone(),
    }
}
