//! Outcomes: executors' reports. Each is parsed separately, so that an invalid one does not delay the others,
//! whose leases continue to run.

use serde::{Deserialize, Serialize};

use crate::executors::check_log;
use crate::fields::{Checks, FieldError, Invalid};
use crate::limits::{BATCH_MAX, DURATION_MAX_MS};
use crate::{Base64, Body, Json, NewLogLine, Problem, parse};

/// The end of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeKind {
    /// The task is done.
    Succeeded,
    /// The attempt failed. The retry policy, or `retry_after_ms`, decides when the next one runs.
    Failed,
    /// The executor postpones the task. It runs again after `retry_after_ms`, and this attempt does not count.
    Snooze,
    /// The task is dead at once, even if attempts are left.
    Reject,
}

/// The outcome of one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    pub r#ref: String,
    /// The token of the lease.
    pub token: String,
    pub outcome: OutcomeKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_code: Option<i64>,
    /// The result as text, or the error with its stack. 64 KiB are stored, with the result and in the history. A
    /// longer text is truncated, with a note. A longer error is also stored as `result` (up to 1 MiB) if the outcome
    /// has none. An outcome is never refused because of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_msg: Option<String>,
    /// Any JSON value, stored with the task byte for byte.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "Json::some")]
    pub result: Option<Json>,
    /// Bytes, instead of `result`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_base64: Option<Base64>,
    /// Only for `failed` and `snooze`: the time in milliseconds until the next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub retry_after_ms: Option<i64>,
    /// The handler's log lines since the last heartbeat.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub log: Vec<NewLogLine>,
}

impl Outcome {
    /// An outcome without further detail.
    pub fn new(r#ref: impl Into<String>, token: impl Into<String>, outcome: OutcomeKind) -> Self {
        Self {
            r#ref: r#ref.into(),
            token: token.into(),
            outcome,
            status_code: None,
            status_msg: None,
            result: None,
            result_base64: None,
            retry_after_ms: None,
            log: Vec::new(),
        }
    }

    /// Reads and checks one.
    pub fn from_json(json: &[u8]) -> Result<Self, Invalid> {
        let outcome: Self = parse(json)?;
        outcome.check()?;
        Ok(outcome)
    }

    /// Every rule that needs no store.
    pub fn check(&self) -> Result<(), Invalid> {
        let mut checks = Checks::default();
        checks.readable("/result", self.result.as_ref());
        checks
            .at_most_one(("result", self.result.is_some()), ("result_base64", self.result_base64.is_some()));
        check_log(&mut checks, "/log", &self.log);
        checks.span("/retry_after_ms", self.retry_after_ms, 0..=DURATION_MAX_MS);
        let again = matches!(self.outcome, OutcomeKind::Failed | OutcomeKind::Snooze);
        if self.retry_after_ms.is_some() && !again {
            checks.refuse("/retry_after_ms", "goes with failed or snooze only");
        }
        checks.done()
    }

    /// Takes the result out of the field that has it.
    pub fn take_result(&mut self) -> Option<Body> {
        Body::from_fields(self.result.take(), self.result_base64.take())
    }
}

/// Outcomes of up to 10,000 attempts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OutcomeBatch {
    #[schema(value_type = Vec<Outcome>, max_items = 10000)]
    pub outcomes: Vec<Json>,
    /// The reporter, as shown in histories. Default: `executor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<String>,
}

/// The part of an outcome that can be read even when the rest is not valid.
#[derive(Deserialize)]
struct JustRef {
    r#ref: String,
}

impl OutcomeBatch {
    /// Reads the frame; the items are read by `items`.
    pub fn from_json(json: &[u8]) -> Result<Self, Invalid> {
        let batch: Self = parse(json)?;
        if batch.outcomes.len() > BATCH_MAX {
            return Err(FieldError::new("/outcomes", format!("must have at most {BATCH_MAX} items")).into());
        }
        let mut checks = Checks::default();
        if let Some(executor) = &batch.executor {
            checks.name("/executor", executor);
        }
        checks.done()?;
        Ok(batch)
    }

    /// Each item in order, read and checked; one that is not valid is answered by the receipt in `Err`.
    pub fn items(&self) -> impl Iterator<Item = Result<Outcome, Box<OutcomeReceipt>>> {
        self.outcomes.iter().enumerate().map(|(i, item)| {
            Outcome::from_json(item.get().as_bytes())
                .map_err(|invalid| Box::new(invalid_item(i, item, invalid)))
        })
    }
}

fn invalid_item(i: usize, item: &Json, invalid: Invalid) -> OutcomeReceipt {
    let r#ref = item.read::<JustRef>().map_or_else(|_| String::new(), |just| just.r#ref);
    let error = Some(invalid.under(&format!("/outcomes/{i}")).into());
    OutcomeReceipt { r#ref, status: OutcomeStatus::Invalid, error }
}

/// The result of an outcome report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeStatus {
    /// The outcome counts.
    Accepted,
    /// The task's database does not answer. The outcome is durable at this engine, and counts when the database is back, if the
    /// attempt holds its task then. It need not be reported again.
    AcceptedForLater,
    /// The executor no longer held the lease, or the attempt already has an outcome. The report does not count.
    Stale,
    /// The report is not valid; see `error`. The lease continues.
    Invalid,
    /// The task's database does not answer; see `error`. It is unknown whether the outcome counts. Report it again: then it is
    /// `accepted`, or `stale` if it already counted.
    Unavailable,
}

/// The result of one outcome report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OutcomeReceipt {
    pub r#ref: String,
    pub status: OutcomeStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
}

impl OutcomeReceipt {
    /// A receipt without an error.
    pub fn new(r#ref: impl Into<String>, status: OutcomeStatus) -> Self {
        Self { r#ref: r#ref.into(), status, error: None }
    }
}

/// The results of the outcome reports, in their order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OutcomesAnswer {
    pub results: Vec<OutcomeReceipt>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_nobody_can_read_is_refused() {
        let json = br#"{"ref":"r","token":"t","outcome":"succeeded","result":[1,"\udead"]}"#;
        assert_eq!(Outcome::from_json(json).unwrap_err().errors[0].pointer, "/result/1");
    }

    #[test]
    fn an_outcome_is_read_and_written_back() {
        let json = concat!(
            r#"{"ref":"t_1","token":"k","outcome":"failed","status_code":-3,"status_msg":"no","#,
            r#""result":{"a": 1},"retry_after_ms":0}"#
        );
        let outcome = Outcome::from_json(json.as_bytes()).unwrap();
        assert_eq!(serde_json::to_string(&outcome).unwrap(), json);
    }

    #[test]
    fn rules_are_held() {
        let refused = |tail: &str| {
            let json = format!(r#"{{"ref":"t","token":"k",{tail}}}"#);
            Outcome::from_json(json.as_bytes()).unwrap_err().errors.remove(0).pointer
        };
        assert_eq!(refused(r#""outcome":"fine""#), "/outcome");
        assert_eq!(refused(r#""outcome":"failed","retry_after_ms":-1"#), "/retry_after_ms");
        assert_eq!(refused(r#""outcome":"succeeded","retry_after_ms":1"#), "/retry_after_ms");
        assert_eq!(refused(r#""outcome":"succeeded","result":1,"result_base64":"""#), "/result_base64");
    }

    #[test]
    fn no_message_is_too_long() {
        let outcome =
            Outcome { status_msg: Some("x".repeat(200_000)), ..Outcome::new("t", "k", OutcomeKind::Failed) };
        assert_eq!(outcome.check(), Ok(()));
    }

    #[test]
    fn one_bad_outcome_does_not_hold_back_the_others() {
        let batch = OutcomeBatch::from_json(
            br#"{"outcomes":[{"ref":"a","token":"k","outcome":"succeeded"},{"ref":"b","outcome":"succeeded"},3]}"#,
        )
        .unwrap();
        let items: Vec<_> = batch.items().collect();
        assert_eq!(items[0], Ok(Outcome::new("a", "k", OutcomeKind::Succeeded)));
        let bad = items[1].clone().unwrap_err();
        assert_eq!((bad.r#ref.as_str(), bad.status), ("b", OutcomeStatus::Invalid));
        assert_eq!(bad.error.unwrap().errors[0].pointer, "/outcomes/1/token");
        assert_eq!(items[2].clone().unwrap_err().r#ref, "");
    }

    #[test]
    fn receipts_read_like_this() {
        let answer = OutcomesAnswer {
            results: vec![
                OutcomeReceipt::new("a", OutcomeStatus::Accepted),
                OutcomeReceipt::new("b", OutcomeStatus::Stale),
                OutcomeReceipt::new("c", OutcomeStatus::Unavailable),
                OutcomeReceipt::new("d", OutcomeStatus::AcceptedForLater),
            ],
        };
        let golden = concat!(
            r#"{"results":[{"ref":"a","status":"accepted"},{"ref":"b","status":"stale"},"#,
            r#"{"ref":"c","status":"unavailable"},{"ref":"d","status":"accepted_for_later"}]}"#
        );
        assert_eq!(serde_json::to_string(&answer).unwrap(), golden);
        assert_eq!(serde_json::from_str::<OutcomesAnswer>(golden).unwrap(), answer);
    }
}
