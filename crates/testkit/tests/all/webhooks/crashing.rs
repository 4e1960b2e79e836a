//! A dispatcher that dies between two steps of a delivery: its lease ends, and another one delivers the next attempt.

use super::rig::{WebhookSite, dispatcher_over, on_each_ground, tasks};
use async_trait::async_trait;
use punctual_domain::{name::QueueKey, time::Millis};
use punctual_protocol::{LeasedTask, Outcome};
use punctual_server::EngineTasks;
use punctual_testkit::patience::until;
use punctual_webhook::{HeldLease, LeaseState, LeaseTerms, RecordState, TaskSource, WebhookQueue};
use serde_json::{Value, json};
use std::{future::pending, sync::Arc};
use tokio::sync::Notify;

/// As short as a lease of a dead dispatcher may be, so that the test does not wait.
const LEASE_MS: i64 = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dies {
    BeforeTheRequest,
    BeforeTheOutcome,
    BeforeTheLeaseIsExtended,
}

/// The engine's tasks, for a dispatcher that does nothing more after one step.
#[derive(Debug)]
struct Dying {
    inner: EngineTasks,
    dies: Dies,
    leased: Arc<Notify>,
}

#[async_trait]
impl TaskSource for Dying {
    fn now(&self) -> Millis {
        self.inner.now()
    }

    fn webhook_queues(&self) -> Vec<WebhookQueue> {
        self.inner.webhook_queues()
    }

    async fn lease(&self, queue: &Arc<QueueKey>, terms: LeaseTerms) -> Result<Vec<LeasedTask>, String> {
        let leased = self.inner.lease(queue, LeaseTerms { lease_ms: LEASE_MS, ..terms }).await?;
        if !leased.is_empty() {
            self.leased.notify_one();
            if self.dies == Dies::BeforeTheRequest {
                pending::<()>().await;
            }
        }
        Ok(leased)
    }

    async fn extend(&self, leases: Vec<HeldLease>) -> Vec<LeaseState> {
        match self.dies {
            Dies::BeforeTheLeaseIsExtended => pending().await,
            _ => vec![LeaseState::Unknown; leases.len()],
        }
    }

    async fn record(&self, queue: &QueueKey, outcomes: Vec<Outcome>) -> Vec<RecordState> {
        match self.dies {
            Dies::BeforeTheOutcome => pending().await,
            _ => self.inner.record(queue, outcomes).await,
        }
    }

    async fn pause(&self, queue: &QueueKey, reason: String) -> Result<(), String> {
        self.inner.pause(queue, reason).await
    }

    fn report(&self, _: Vec<(Arc<QueueKey>, String)>) {}
}

/// A dispatcher of the first engine dies after one step, and one that lives takes over.
async fn takes_over(site: WebhookSite, dies: Dies, status: u16) -> (WebhookSite, Value) {
    for node in &site.nodes {
        node.dispatcher.stop().await;
    }
    let answers_with =
        move |seen: &super::rig::Seen| (if seen.id.ends_with(".1") { status } else { 200 }, Value::Null);
    site.receive(answers_with).await;
    site.set_webhook("q", "/hook", &json!({})).await;
    let (leased, engine) = (Arc::new(Notify::new()), &site.nodes[0].engine);
    let dying = dispatcher_over(Dying { inner: tasks(engine), dies, leased: Arc::clone(&leased) });
    dying.run_once();
    let retry = json!({ "strategy": "immediate" });
    let r#ref = site.insert(0, &json!({ "queue": "q", "retry": retry })).await;
    leased.notified().await;
    if dies != Dies::BeforeTheRequest {
        until("the request is sent", || async { site.seen().len() == 1 }).await;
    }
    let living = dispatcher_over(tasks(&site.nodes[site.nodes.len() - 1].engine));
    living.run_once();
    let task = site.until_state(&r#ref, "succeeded").await;
    assert_eq!(task["attempt"], 2, "{task}");
    assert_eq!(site.seen().last().unwrap().id, format!("{ref}.2"));
    living.stop().await;
    (site, task)
}

on_each_ground!(
    after_the_lease_before_the_request,
    after_the_request_before_the_outcome,
    after_the_receiver_has_kept_it_before_the_lease_is_extended,
);

async fn after_the_lease_before_the_request(site: WebhookSite) {
    let (site, _) = takes_over(site, Dies::BeforeTheRequest, 200).await;
    assert_eq!(site.seen().len(), 1, "nothing was sent twice");
}

async fn after_the_request_before_the_outcome(site: WebhookSite) {
    let (site, task) = takes_over(site, Dies::BeforeTheOutcome, 200).await;
    let ids: Vec<String> = site.seen().into_iter().map(|seen| seen.id).collect();
    let r#ref = task["ref"].as_str().unwrap();
    assert_eq!(ids, [format!("{ref}.1"), format!("{ref}.2")], "each attempt has its own id");
}

async fn after_the_receiver_has_kept_it_before_the_lease_is_extended(site: WebhookSite) {
    let (site, task) = takes_over(site, Dies::BeforeTheLeaseIsExtended, 202).await;
    // What the receiver reports of the first attempt comes too late.
    let token = site.seen()[0].body["token"].clone();
    let outcome = json!({ "outcomes": [{ "ref": task["ref"], "token": token, "outcome": "failed" }] });
    let (_, receipt) = site.call(0, "POST", "/v1/outcomes", &outcome).await;
    assert_eq!(receipt["results"][0]["status"], "stale", "{receipt}");
}
