//! Webhook queues: the way of the dispatcher into the engine, which is that of executors; and the receivers of queues, as
//! callers set them. Must not send a request to a receiver.

mod receiver;

pub(crate) use receiver::{checked, has_masks};

use crate::{
    access::Who, answer, ask, ask::Context, extract::Caller, options::ServerOptions, reports::workflow_of,
};
use async_trait::async_trait;
use punctual_contract::{
    Error as BackendError,
    store::{Assignment, Beat, Extended},
    workflows::WorkflowId,
};
use punctual_domain::{
    name::{Name, QueueKey},
    place::TaskRef,
    time::Millis,
    webhook::PAUSED_BY_RECEIVER,
};
use punctual_engine::{Engine, LeaseRequest, OutcomeReport, Reported, Submission};
use punctual_protocol::{
    LeasedTask, Outcome, Token,
    limits::{LEASE_MS_MAX, LEASE_MS_MIN},
};
use punctual_webhook::{HeldLease, LeaseState, LeaseTerms, RecordState, TaskSource, WebhookQueue};
use std::{collections::HashMap, sync::Arc};

/// The author of outcomes in histories.
const BY: &str = "webhook";

/// Leases tasks and records outcomes for the dispatcher, as the API does for executors.
#[derive(Clone, Debug)]
pub struct EngineTasks {
    engine: Engine,
    options: ServerOptions,
    /// The dispatcher's name in histories.
    executor: String,
}

impl EngineTasks {
    /// Of the options count the limits of results, workflows and traces.
    #[must_use]
    pub fn new(engine: Engine, options: ServerOptions) -> Self {
        let name = format!("{BY}:{}", engine.name());
        let executor = Name::new(&name).map_or_else(|_| BY.to_owned(), |name| name.as_str().to_owned());
        Self { engine, options, executor }
    }

    fn caller(queue: &QueueKey) -> Caller {
        Caller {
            who: Who::dispatcher(),
            namespace: queue.namespace.clone(),
            idempotency_key: None,
            traceparent: None,
        }
    }

    /// `None` for a reference or a token that no lease has answered.
    fn submission(&self, caller: &Caller, outcome: Outcome) -> Option<Submission> {
        let (token, place) = (outcome.token.parse::<Token>().ok()?, outcome.r#ref.parse::<TaskRef>().ok()?);
        let context =
            Context { caller, now: self.engine.now(), options: &self.options, engine: &self.engine };
        // A result that a task may not have: the outcome counts without it.
        let without = Outcome {
            result: None,
            status_msg: Some("the answer is no result that a task can have, and is not stored".to_owned()),
            ..outcome.clone()
        };
        let checked = |outcome: Outcome| {
            outcome.check().ok()?;
            ask::report(outcome, context).ok()
        };
        let (report, result) = checked(outcome).or_else(|| checked(without))?;
        let report = OutcomeReport { place, fence: token.fence, report, result };
        Some(Submission { of_workflow: token.is_of_workflow, ..report.into() })
    }

    fn beat(&self, lease: &HeldLease) -> Option<Beat> {
        Some(Beat {
            place: lease.r#ref.parse().ok()?,
            fence: lease.token.parse::<Token>().ok()?.fence,
            lease_until: self.engine.now().plus(lease.lease_ms),
            progress: None,
            log: None,
            executor: self.executor.clone(),
            handed_over_at: None,
        })
    }

    /// Workflows learn of the ends of their tasks, as from the outcomes of other executors.
    async fn record_all(
        &self,
        reports: Vec<Submission>,
        of_workflows: &HashMap<TaskRef, Option<WorkflowId>>,
    ) -> Result<Vec<RecordState>, String> {
        let runner = self.options.workflows.as_ref().filter(|_| !of_workflows.is_empty());
        let expected = match runner {
            Some(runner) => Some(runner.expect(of_workflows.values().copied().flatten()).await),
            None => None,
        };
        let tasks: Vec<TaskRef> = reports.iter().map(|submission| submission.report.place).collect();
        let recorded = self.engine.record_submitted(reports, BY).await.map_err(|error| error.to_string())?;
        let mut ended = Vec::new();
        let outcome = |(task, recorded): (TaskRef, Result<Reported, BackendError>)| match recorded {
            Ok(reported) => {
                let of = of_workflows.get(&task).filter(|_| reported == Reported::Accepted);
                ended.extend(of.map(|of| (*of, task)));
                RecordState::Done
            }
            Err(error) => RecordState::Unknown(error.to_string()),
        };
        let outcomes = tasks.into_iter().zip(recorded).map(outcome).collect();
        if let Some(expected) = expected {
            expected.ended(ended);
        }
        Ok(outcomes)
    }
}

#[async_trait]
impl TaskSource for EngineTasks {
    fn now(&self) -> Millis {
        self.engine.now()
    }

    fn webhook_queues(&self) -> Vec<WebhookQueue> {
        let queue = |(queue, settings)| WebhookQueue { queue: Arc::new(queue), settings };
        self.engine.webhook_queues().into_iter().map(queue).collect()
    }

    async fn lease(&self, queue: &Arc<QueueKey>, terms: LeaseTerms) -> Result<Vec<LeasedTask>, String> {
        let request = LeaseRequest {
            queue: Arc::clone(queue),
            max: terms.max,
            wait_ms: terms.wait_ms,
            lease_ms: terms.lease_ms,
            executor: self.executor.clone(),
            version: None,
        };
        let leased = self.engine.lease(request).await.map_err(|error| error.to_string())?;
        let task = |assignment: Assignment| {
            let lease_ms = token_lease_ms(assignment.timeout_ms.unwrap_or(terms.lease_after_202_ms));
            answer::leased(answer::traced(self.options.traces.as_ref(), assignment), lease_ms, false)
        };
        Ok(leased.into_iter().map(task).collect())
    }

    async fn extend(&self, leases: Vec<HeldLease>) -> Vec<LeaseState> {
        let beats: Vec<Option<Beat>> = leases.iter().map(|lease| self.beat(lease)).collect();
        let known: Vec<Beat> = beats.iter().flatten().cloned().collect();
        let Ok(extended) = self.engine.extend_each(known).await else {
            return vec![LeaseState::Unknown; leases.len()];
        };
        let mut extended = extended.into_iter();
        let state = |beat: Option<Beat>| match beat.map(|_| extended.next()) {
            Some(Some(Ok(Extended::Held { cancel_requested: true, .. }))) => LeaseState::CancelRequested,
            Some(Some(Ok(Extended::Held { .. }))) => LeaseState::Held,
            Some(Some(Ok(Extended::Lost))) | None => LeaseState::Lost,
            Some(Some(Err(_)) | None) => LeaseState::Unknown,
        };
        beats.into_iter().map(state).collect()
    }

    async fn record(&self, queue: &QueueKey, outcomes: Vec<Outcome>) -> Vec<RecordState> {
        let (caller, count) = (Self::caller(queue), outcomes.len());
        let mut of_workflows = HashMap::new();
        for outcome in &outcomes {
            if let (Some(of), Ok(task)) = (workflow_of(outcome), outcome.r#ref.parse::<TaskRef>()) {
                of_workflows.insert(task, of);
            }
        }
        let reports: Vec<Option<Submission>> =
            outcomes.into_iter().map(|outcome| self.submission(&caller, outcome)).collect();
        let is_known: Vec<bool> = reports.iter().map(Option::is_some).collect();
        match self.record_all(reports.into_iter().flatten().collect(), &of_workflows).await {
            Ok(recorded) => {
                let mut recorded = recorded.into_iter();
                let missing = || RecordState::Unknown("the engine answered for fewer outcomes".to_owned());
                let one = |is_known: bool| {
                    if is_known { recorded.next().unwrap_or_else(missing) } else { RecordState::Done }
                };
                is_known.into_iter().map(one).collect()
            }
            Err(error) => vec![RecordState::Unknown(error); count],
        }
    }

    async fn pause(&self, queue: &QueueKey, reason: String) -> Result<(), String> {
        let paused = self.engine.pause(queue.clone(), Some(reason), PAUSED_BY_RECEIVER).await;
        paused.map(drop).map_err(|error| error.to_string())
    }

    fn report(&self, held_back: Vec<(Arc<QueueKey>, String)>) {
        self.engine.report_webhooks(held_back);
    }
}

/// The time by which a heartbeat of the receiver extends its lease.
fn token_lease_ms(wanted_ms: i64) -> i64 {
    let bound = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
    wanted_ms.clamp(bound(LEASE_MS_MIN), bound(LEASE_MS_MAX))
}
