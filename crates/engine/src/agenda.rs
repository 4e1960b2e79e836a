//! One read of each database a few times a second tells all services that wait for something there whether there is work: new
//! settings or tokens, a schedule, a workflow, a bulk operation, a lease that has ended, labels to index. A service that has nothing
//! by the agenda reads nothing. The agenda decides nothing else, and is never the only way to learn something: where it is missing
//! or old, because its database failed or is silent, all services are called and read for themselves. So each does every five seconds in
//! any case.

pub(crate) mod state;

use crate::{core::Core, parts};
use punctual_contract::{Error, store::Agenda, workflows::MARK_STALE_AFTER_MS};
use punctual_domain::time::Millis;
use state::Topic;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Calls no service that runs at a longer interval than this: it was set so.
pub(crate) const CALLS_WITHIN: Duration = Duration::from_secs(1);
/// The part that has all but leases and labels.
const CATALOG: usize = 0;

/// Reads the agendas, and calls the services that have work; all of them where an agenda is missing. Returns how many were called.
pub(crate) async fn run_once(core: &Arc<Core>) -> Result<usize, Error> {
    let read = parts::each(core, "agenda", parts::PATIENCE, read_part).await;
    let now = Instant::now();
    let is_missing = |part: usize| is_read(core, part) && core.agendas.of(part, now).is_none();
    if (0..core.store.parts()).any(is_missing) {
        Topic::ALL.into_iter().for_each(|topic| core.agendas.call(topic));
    }
    read
}

/// Other parts have something only for the engine that leads there.
fn is_read(core: &Core, part: usize) -> bool {
    part == CATALOG || core.leads_in(part)
}

async fn read_part(core: Arc<Core>, part: usize) -> Result<usize, Error> {
    if !is_read(&core, part) {
        return Ok(0);
    }
    let asked_at = Instant::now();
    let agenda = match core.store.agenda_in(part).await {
        Ok(agenda) => agenda,
        Err(error) => {
            core.agendas.forget(part);
            if core.leads_in(part) {
                // As the service that ends leases would have found.
                core.maintenance.lease_looks.failed(part);
            }
            return Err(error);
        }
    };
    core.agendas.keep(part, agenda, asked_at);
    if part == CATALOG {
        core.settings.try_again();
    }
    let mut called = 0;
    for topic in Topic::ALL {
        if is_due(&core, topic, part, &agenda) {
            core.agendas.call(topic);
            called += 1;
        }
    }
    Ok(called)
}

/// Whether a service need not read: fresh agendas of all parts that it reads show no work, and it has read for itself lately.
pub(crate) fn has_nothing(core: &Core, topic: Topic) -> bool {
    let now = Instant::now();
    if core.agendas.reads_itself(topic, now) {
        return false;
    }
    let has_nothing =
        |part| core.agendas.of(part, now).is_some_and(|agenda| !is_due(core, topic, part, &agenda));
    match topic {
        Topic::Leases | Topic::Labels => {
            (0..core.store.parts()).all(|part| !core.leads_in(part) || has_nothing(part))
        }
        _ => has_nothing(CATALOG),
    }
}

fn is_due(core: &Core, topic: Topic, part: usize, agenda: &Agenda) -> bool {
    let now = core.now();
    let is_past = |at: Option<Millis>| at.is_some_and(|at| at <= now);
    match topic {
        Topic::Leases => {
            core.leads_in(part)
                && (is_past(agenda.leases_at) || core.maintenance.lease_looks.is_in_doubt(part))
        }
        Topic::Labels => core.leads_in(part) && agenda.has_labels_left,
        _ if part != CATALOG => false,
        Topic::Settings => {
            !core.settings.is_loaded() || core.settings.known().revision != agenda.settings_revision
        }
        Topic::Access => !core.callers.access.is_current(agenda.access_revision),
        Topic::Schedules => is_past(agenda.schedules_at),
        Topic::Workflows => {
            is_past(agenda.workflows_at) || is_past(agenda.marked_at.map(|at| at.plus(MARK_STALE_AFTER_MS)))
        }
        Topic::Bulk => is_past(agenda.bulks_at),
    }
}
