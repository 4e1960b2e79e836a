//! The services in addition to an engine's own: workflows, bulk operations, traces, inboxes, and the store's work
//! after an upgrade. Holds no step of theirs, only how often each runs and what wakes it.

use crate::config::{InboxPlace, Settings};
use anyhow::{Context as _, Result};
use punctual_bulk::Runner as Bulk;
use punctual_cluster::Watcher;
use punctual_engine::{Engine, Running};
use punctual_inbox::{Intake, Relay};
use punctual_server::{EngineIntake, EngineTasks, ServerOptions};
use punctual_store::{MysqlInbox, MysqlStore};
use punctual_traces::Traces;
use punctual_webhook::Dispatcher;
use punctual_workflows::Runner as Workflows;
use std::{sync::Arc, time::Duration};

/// The pause between two searches for workflows to evaluate; reported ones continue at once.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// The pause before work is tried again that failed because the store was unavailable.
const GO_ON_EVERY: Duration = Duration::from_secs(1);
const RECONCILE_EVERY: Duration = Duration::from_secs(30);
/// The pause between two searches for bulk operations that another engine has begun or changed.
const BULK_EVERY: Duration = Duration::from_millis(500);
/// The pause between two messages to a collector of traces.
const TRACE_EVERY: Duration = Duration::from_secs(1);
/// A database that was added, or that did not answer, has its payloads counted within this.
const COUNT_EVERY: Duration = Duration::from_secs(60);

/// Interval of the check whether a count of the ledger is due, or was requested at another engine.
const LEDGER_EVERY: Duration = Duration::from_secs(10);

pub(super) fn supervise_ledger(running: &Running, watcher: &Watcher) {
    let (asking, counting) = (watcher.clone(), watcher.clone());
    let asked = move || {
        let asking = asking.clone();
        async move { asking.ledger_is_requested().await }
    };
    running.supervise_when("ledger", LEDGER_EVERY, asked, move |now| {
        let counting = counting.clone();
        async move { counting.count_ledgers(now).await }
    });
}

/// Counts payload bytes once after an upgrade: each later run costs a read.
pub(super) fn supervise_payloads(running: &Running, store: Arc<MysqlStore>) {
    running.supervise("payload_bytes", COUNT_EVERY, move |_| {
        let store = Arc::clone(&store);
        async move { store.count_old_payloads().await }
    });
}

/// The relays of the configured inboxes. They are not contacted yet: the users' databases may be unavailable.
pub(super) fn inboxes(settings: &Settings, engine: &Engine) -> Result<Vec<Relay>> {
    let options = ServerOptions {
        payload_max_bytes: settings.payloads.payload_max_bytes,
        payload_advice: settings.payloads.advice(),
        ..ServerOptions::default()
    };
    let intake = Arc::new(EngineIntake::new(engine.clone(), options));
    let relay = |place: &InboxPlace| {
        let table = MysqlInbox::new(&place.url, place.table.clone());
        let table = table.with_context(|| format!("inbox.url: {}", place.name))?;
        let intake = Arc::clone(&intake) as Arc<dyn Intake>;
        Ok(Relay::new(&place.name, place.namespace.clone(), Arc::new(table), intake))
    };
    settings.inboxes.iter().map(relay).collect()
}

/// Each is a service of its own, so that metrics and alerts name the one that fails.
pub(super) fn supervise_inbox(running: &Running, relay: Relay) {
    // Made once for each inbox of the settings, and never given back: that bounds it.
    let name: &'static str = format!("inbox:{}", relay.report().name).leak();
    running.supervise(name, punctual_inbox::PERIOD, move |now| {
        let relay = relay.clone();
        async move { relay.run_once(now).await }
    });
}

/// The dispatcher of webhooks. Every engine has one; leases decide which of them delivers a task.
pub(super) fn webhooks(
    settings: &Settings,
    engine: &Engine,
    workflows: &Workflows,
    traces: Option<Traces>,
) -> Dispatcher {
    let options = ServerOptions {
        payload_max_bytes: settings.payloads.payload_max_bytes,
        payload_advice: settings.payloads.advice(),
        workflows: Some(workflows.clone()),
        traces,
        ..ServerOptions::default()
    };
    Dispatcher::new(Arc::new(EngineTasks::new(engine.clone(), options)))
}

pub(super) fn supervise_webhooks(running: &Running, dispatcher: &Dispatcher) {
    let dispatcher = dispatcher.clone();
    running.supervise("webhooks", punctual_webhook::PERIOD, move |_| {
        let dispatcher = dispatcher.clone();
        async move { Ok(dispatcher.run_once()) }
    });
}

pub(super) fn supervise_traces(running: &Running, telling: Traces) {
    running.supervise("traces", TRACE_EVERY, move |_| {
        let telling = telling.clone();
        async move { Ok(telling.run_once().await) }
    });
}

pub(super) fn supervise_workflows(running: &Running, workflows: &Workflows) {
    let looking = workflows.clone();
    running.supervise("workflows", LOOK_EVERY, move |now| {
        let looking = looking.clone();
        async move { looking.run_once(now).await }
    });
    let (reported, going_on) = (workflows.clone(), workflows.clone());
    let asked = move || {
        let reported = reported.clone();
        async move { reported.until_reported().await }
    };
    running.supervise_when("workflow_ends", GO_ON_EVERY, asked, move |_| {
        let going_on = going_on.clone();
        async move { going_on.go_on().await }
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
    running.supervise_when("bulk", BULK_EVERY, has_work, move |now| {
        let carrying_on = carrying_on.clone();
        async move { carrying_on.run_once(now).await }
    });
}
