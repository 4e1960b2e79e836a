//! The calls of an executor that pulls. Each is sent once: the meaning of a failure differs from call to
//! call, and the worker handles it.

use std::time::Duration;

use bytes::Bytes;
use punctual_protocol::{
    Executor, HeartbeatAnswer, HeartbeatRequest, LeaseAnswer, LeaseRequest, LeasedTask, ListExecutors,
    Outcome, OutcomeReceipt, OutcomesAnswer, Page,
};
use reqwest::Method;
use serde::Serialize;

use super::tasks::{body, segment};
use super::{Client, Repeat};
use crate::error::Error;

#[derive(Serialize)]
struct Outcomes<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    executor: Option<&'a str>,
    outcomes: &'a [&'a Outcome],
}

impl Client {
    /// Waits for tasks of a queue. After an `Indeterminate` error, tasks may be leased that no executor has;
    /// they are retried when their lease ends.
    pub async fn lease(&self, queue: &str, request: &LeaseRequest) -> Result<Vec<LeasedTask>, Error> {
        Ok(self.lease_or_wish(queue, request).await?.tasks)
    }

    /// The same, with the executor's desired state.
    pub async fn lease_or_wish(&self, queue: &str, request: &LeaseRequest) -> Result<LeaseAnswer, Error> {
        request.check()?;
        let mut call =
            self.new_call(Method::POST, format!("/v1/queues/{}/lease", segment(queue)), body(request)?);
        call.timeout += Duration::from_millis(request.wait_ms);
        self.call(call, Repeat::Never).await
    }

    /// Waits for tasks of any of the queues in the request, with the executor's desired state.
    pub async fn lease_from_several(&self, request: &LeaseRequest) -> Result<LeaseAnswer, Error> {
        request.check()?;
        let mut call = self.new_call(Method::POST, "/v1/lease".into(), body(request)?);
        call.timeout += Duration::from_millis(request.wait_ms);
        self.call(call, Repeat::Never).await
    }

    /// A page of the executors of the namespace, by name.
    pub async fn executors(&self, list: &ListExecutors) -> Result<Page<Executor>, Error> {
        list.check()?;
        let query = serde_urlencoded::to_string(list).map_err(|e| Error::configuration(e.to_string()))?;
        self.fetch(format!("/v1/executors?{query}")).await
    }

    /// One executor, with the tasks that it runs.
    pub async fn executor(&self, name: &str) -> Result<Executor, Error> {
        self.fetch(format!("/v1/executors/{}", segment(name))).await
    }

    /// Drains an executor. It gets no new tasks, finishes its tasks, and ends.
    pub async fn drain_executor(&self, name: &str) -> Result<Executor, Error> {
        self.wish(name, "drain").await
    }

    /// Quiets an executor. It gets no new tasks until it is resumed.
    pub async fn quiet_executor(&self, name: &str) -> Result<Executor, Error> {
        self.wish(name, "quiet").await
    }

    /// Revokes either.
    pub async fn resume_executor(&self, name: &str) -> Result<Executor, Error> {
        self.wish(name, "resume").await
    }

    async fn wish(&self, name: &str, wish: &str) -> Result<Executor, Error> {
        self.post(format!("/v1/executors/{}/{wish}", segment(name)), Bytes::new(), Repeat::Safe).await
    }

    /// Reports outcomes; the receipts are in their order. Sending them again is safe: a lease accepts one
    /// outcome.
    pub async fn report(&self, outcomes: &[Outcome]) -> Result<Vec<OutcomeReceipt>, Error> {
        self.report_each(None, &outcomes.iter().collect::<Vec<_>>()).await
    }

    pub(crate) async fn report_each(
        &self,
        executor: Option<&str>,
        outcomes: &[&Outcome],
    ) -> Result<Vec<OutcomeReceipt>, Error> {
        let body = body(&Outcomes { executor, outcomes })?;
        let answer: OutcomesAnswer = self.post("/v1/outcomes".into(), body, Repeat::Never).await?;
        if answer.results.len() == outcomes.len() {
            return Ok(answer.results);
        }
        let source = format!("{} receipts for {} outcomes", answer.results.len(), outcomes.len()).into();
        Err(Error::Indeterminate { source })
    }

    /// Extends leases, and learns which were lost or should stop.
    pub async fn heartbeat(&self, beat: &HeartbeatRequest) -> Result<HeartbeatAnswer, Error> {
        beat.check()?;
        self.post("/v1/heartbeats".into(), body(beat)?, Repeat::Never).await
    }
}
