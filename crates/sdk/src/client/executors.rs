//! The calls of an executor that pulls. Each is sent once: what a failure means differs from call to call, and the
//! worker has the patience for it.

use std::time::Duration;

use punctual_protocol::{
    HeartbeatAnswer, HeartbeatRequest, LeaseAnswer, LeaseRequest, LeasedTask, Outcome, OutcomeReceipt,
    OutcomesAnswer,
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
    /// Waits for work of a queue. After an `Indeterminate` error, tasks may be leased that nobody knows of; they come
    /// back when their lease ends.
    pub async fn lease(&self, queue: &str, request: &LeaseRequest) -> Result<Vec<LeasedTask>, Error> {
        request.check()?;
        let mut call =
            self.new_call(Method::POST, format!("/v1/queues/{}/lease", segment(queue)), body(request)?);
        call.timeout += Duration::from_millis(request.wait_ms);
        let answer: LeaseAnswer = self.call(call, Repeat::Never).await?;
        Ok(answer.tasks)
    }

    /// Reports outcomes; the receipts are in their order. Sending them again is safe: a lease takes one outcome.
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
