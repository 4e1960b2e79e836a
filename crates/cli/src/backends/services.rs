//! What runs beside an engine's own services: workflows, bulk operations, traces, and inboxes, what the store needs after an upgrade. Holds
//! no step of theirs, only how often each runs and what wakes it.

use crate::config::{InboxPlace, Settings};
use anyhow::{Context as _, Result};
use punctual_bulk::Runner as Bulk;
use punctual_engine::{Engine, Running, Topic};
use punctual_inbox::{Intake, Relay};
use punctual_schedules::Planner;
use punctual_server::{EngineIntake, ServerOptions};
use punctual_store::{MysqlInbox, MysqlStore};
use punctual_traces::Traces;
use punctual_workflows::Runner as Workflows;
use std::{future::pending, sync::Arc, time::Duration};

/// Between two looks which workflows are to be looked at; reported ones continue at once.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// What could not be gone on with, because the store was away, is tried again then.
const GO_ON_EVERY: Duration = Duration::from_secs(1);
const RECONCILE_EVERY: Duration = Duration::from_secs(30);
/// Between two looks for bulk operations that another engine has begun or changed.
const BULK_EVERY: Duration = Duration::from_millis(500);
/// Between two messages to a collector of traces.
const TRACE_EVERY: Duration = Duration::from_secs(1);
/// A database that was added, or that did not answer, has its payloads counted within this.
const COUNT_EVERY: Duration = Duration::from_secs(60);

/// After an upgrade, once: what each later run costs is a look.
pub(super) fn supervise_payloads(running: &Running, store: Arc<MysqlStore>) {
    running.supervise("payload_bytes", COUNT_EVERY, move |_| {
        let store = Arc::clone(&store);
        async move { store.count_old_payloads().await }
    });
}

/// The relays of the inboxes that are set. None is asked yet: the users' databases may be away.
pub(super) fn inboxes(settings: &Settings, engine: &Engine) -> Result<Vec<Relay>> {
    let options = ServerOptions {
        payload_max_bytes: settings.payloads.payload_max_bytes,
        payload_advice: settings.payloads.advice(),
        ..ServerOptions::default()
    };
    let intake = Arc::new(EngineIntake::new(engine.clone(), options));
    let relay = |place: &InboxPlace| {
        let table = MysqlInbox::new(&place.url).with_context(|| format!("inbox.url: {}", place.name))?;
        Ok(Relay::new(&place.name, Arc::new(table), Arc::clone(&intake) as Arc<dyn Intake>))
    };
    settings.inboxes.iter().map(relay).collect()
}

pub(super) fn supervise_inbox(running: &Running, relay: Relay) {
    running.supervise("inbox", punctual_inbox::PERIOD, move |now| {
        let relay = relay.clone();
        async move { relay.run_once(now).await }
    });
}

pub(super) fn supervise_traces(running: &Running, telling: Traces) {
    running.supervise("traces", TRACE_EVERY, move |_| {
        let telling = telling.clone();
        async move { Ok(telling.run_once().await) }
    });
}

pub(super) fn supervise_schedules(running: &Running, interval: Duration, planner: &Planner) {
    let planning = planner.clone();
    running.supervise_topic((Topic::Schedules, "schedules"), interval, pending, move |now| {
        let planning = planning.clone();
        async move { planning.run_once(now).await }
    });
}

pub(super) fn supervise_workflows(running: &Running, workflows: &Workflows) {
    let looking = workflows.clone();
    running.supervise_topic((Topic::Workflows, "workflows"), LOOK_EVERY, pending, move |now| {
        let looking = looking.clone();
        async move { looking.run_once(now).await }
    });
    let (reported, going_on) = (workflows.clone(), workflows.clone());
    let asked = move || {
        let reported = reported.clone();
        async move { reported.until_reported().await }
    };
    running.supervise_when("workflow_ends", GO_ON_EVERY, asked, move |now| {
        let going_on = going_on.clone();
        async move {
            let moved = going_on.go_on().await;
            going_on.tidy_marks(now).await?;
            moved
        }
    });
    let reconciling = workflows.clone();
    running.supervise("workflow_reconciler", RECONCILE_EVERY, move |_| {
        let reconciling = reconciling.clone();
        async move { reconciling.reconcile().await }
    });
}

pub(super) fn supervise_bulk(running: &Running, bulk: &Bulk) {
    let (asking, carrying_on) = (bulk.clone(), bulk.clone());
    let has_work = move || {
        let asking = asking.clone();
        async move { asking.until_there_is_work().await }
    };
    running.supervise_topic((Topic::Bulk, "bulk"), BULK_EVERY, has_work, move |now| {
        let carrying_on = carrying_on.clone();
        async move { carrying_on.run_once(now).await }
    });
}
