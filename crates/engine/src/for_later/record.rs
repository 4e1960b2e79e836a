//! A report in its current state in the journal: JSON with its length before it, and the bytes of the result behind it. A durable format:
//! a later release must read it. Must not decide whether a report counts.

use crate::pipeline::outcome::{Filed, OutcomeReport};
use punctual_contract::{
    journal::{AttemptKey, NewRecord},
    store::Beat,
};
use punctual_domain::{
    access::Grant,
    outcome::Report,
    task::{Content, TaskResult},
    time::Millis,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A report, with what its executor sent beside it.
#[derive(Clone, Debug)]
pub struct Submission {
    pub report: OutcomeReport,
    /// The handler's last heartbeat, if the store has not received it.
    pub words: Option<Beat>,
    /// The limits of the reporter's token: not yet compared with the task.
    pub within: Option<Grant>,
    /// A workflow waits for it.
    pub of_workflow: bool,
}

impl From<OutcomeReport> for Submission {
    fn from(report: OutcomeReport) -> Self {
        Self { report, words: None, within: None, of_workflow: false }
    }
}

/// A report, with its sender and the time at which it was received.
#[derive(Clone, Debug)]
pub(crate) struct Submitted {
    pub(crate) submission: Submission,
    pub(crate) by: Arc<str>,
    pub(crate) at: Millis,
}

/// An outcome with the number of its record.
pub(super) type Waiting = (u64, Submitted);

#[derive(Serialize, Deserialize)]
struct OutcomeRecord {
    r#ref: String,
    fence: i64,
    at_ms: i64,
    by: String,
    outcome: RecordedOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after_ms: Option<i64>,
    status_code: i64,
    status_msg: String,
    /// The same as `Content::code`. `None` if the outcome has no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result_code: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    words: Option<Words>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    within: Option<Grant>,
    #[serde(default)]
    of_workflow: bool,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RecordedOutcome {
    Succeeded,
    Failed,
    Snooze,
    Reject,
}

#[derive(Serialize, Deserialize)]
struct Words {
    lease_until_ms: i64,
    executor: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    log: Option<String>,
}

impl Submitted {
    pub(super) const fn key(&self) -> AttemptKey {
        let report = &self.submission.report;
        AttemptKey { task: report.place.id, fence: report.fence }
    }

    pub(super) fn filed(&self) -> Filed {
        Filed { report: self.submission.report.clone(), by: Arc::clone(&self.by), at: self.at }
    }

    /// Returns `None` for a report that executors do not send.
    pub(super) fn record(&self) -> Option<NewRecord> {
        let Submission { report, words, within, of_workflow } = &self.submission;
        let (outcome, after_ms) = outcome_of(report.report)?;
        let OutcomeReport { place, fence, result, .. } = report;
        let wire = OutcomeRecord {
            r#ref: place.to_string(),
            fence: *fence,
            at_ms: self.at.0,
            by: self.by.to_string(),
            outcome,
            after_ms,
            status_code: result.status_code,
            status_msg: result.status_msg.clone(),
            result_code: result.content.as_ref().map(Content::code),
            words: words.as_ref().map(|beat| Words {
                lease_until_ms: beat.lease_until.0,
                executor: beat.executor.clone(),
                log: beat.log.clone(),
            }),
            within: within.clone(),
            of_workflow: *of_workflow,
        };
        let json = serde_json::to_vec(&wire).ok()?;
        let mut body = u32::try_from(json.len()).ok()?.to_le_bytes().to_vec();
        body.extend(json);
        body.extend(result.content.iter().flat_map(|content| &content.bytes));
        Some(NewRecord { key: self.key(), digest: digest(report)?, body })
    }

    /// Returns `None` if a later release wrote the body, or it is not a record.
    pub(super) fn read(body: &[u8]) -> Option<Self> {
        let (len, rest) = body.split_first_chunk::<4>()?;
        let (json, bytes) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?)?;
        let wire: OutcomeRecord = serde_json::from_slice(json).ok()?;
        let (place, fence) = (wire.r#ref.parse().ok()?, wire.fence);
        let content = match wire.result_code {
            Some(code) => Some(Content::from_code(code, bytes.to_vec())?),
            None => None,
        };
        let result = TaskResult { status_code: wire.status_code, status_msg: wire.status_msg, content };
        let words = wire.words.map(|words| Beat {
            place,
            fence,
            lease_until: Millis(words.lease_until_ms),
            progress: None,
            log: words.log,
            executor: words.executor,
            handed_over_at: None,
        });
        let report = reported(wire.outcome, wire.after_ms);
        let report = OutcomeReport { place, fence, report, result };
        let submission = Submission { report, words, within: wire.within, of_workflow: wire.of_workflow };
        Some(Self { submission, by: wire.by.into(), at: Millis(wire.at_ms) })
    }
}

const fn outcome_of(report: Report) -> Option<(RecordedOutcome, Option<i64>)> {
    match report {
        Report::Succeeded => Some((RecordedOutcome::Succeeded, None)),
        Report::Failed { after_ms } => Some((RecordedOutcome::Failed, after_ms)),
        Report::Snooze { after_ms } => Some((RecordedOutcome::Snooze, Some(after_ms))),
        Report::Reject => Some((RecordedOutcome::Reject, None)),
        Report::LeaseExpired | Report::TimedOut | Report::PayloadLost => None,
    }
}

fn reported(outcome: RecordedOutcome, after_ms: Option<i64>) -> Report {
    match outcome {
        RecordedOutcome::Succeeded => Report::Succeeded,
        RecordedOutcome::Failed => Report::Failed { after_ms },
        RecordedOutcome::Snooze => Report::Snooze { after_ms: after_ms.unwrap_or_default() },
        RecordedOutcome::Reject => Report::Reject,
    }
}

/// FNV-1a over the attempt's outcome as the executor reported it. The same in every release, because files
/// contain it.
pub(super) fn digest(report: &OutcomeReport) -> Option<u64> {
    let (outcome, after_ms) = outcome_of(report.report)?;
    let numbers = [i64::from(outcome as u8), after_ms.unwrap_or(-1), report.result.status_code];
    let content = report.result.content.iter().flat_map(|content| content.bytes.iter().copied());
    let bytes = numbers.into_iter().flat_map(i64::to_le_bytes);
    let bytes = bytes.chain(report.result.status_msg.bytes()).chain([0]).chain(content);
    Some(
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_domain::{
        access::Role,
        place::{Partition, TaskRef},
    };

    fn submitted(report: Report, content: Option<Content>) -> Submitted {
        let place = TaskRef { partition: Partition(3), due_at: Millis(5), id: 77 };
        let result = TaskResult { status_code: -4, status_msg: "no \u{1f980}".to_owned(), content };
        let report = OutcomeReport { place, fence: 9, report, result };
        Submitted { submission: report.into(), by: "ann".into(), at: Millis(1_000) }
    }

    fn read_back(report: &Submitted) -> Submitted {
        Submitted::read(&report.record().unwrap().body).unwrap()
    }

    #[test]
    fn what_an_executor_reports_is_read_as_it_was_written() {
        let contents = [None, Some(Content::json("{\"a\":1}")), Some(Content::binary(vec![0, 255, 1]))];
        let reports = [
            Report::Succeeded,
            Report::Failed { after_ms: None },
            Report::Failed { after_ms: Some(7) },
            Report::Snooze { after_ms: 0 },
            Report::Reject,
        ];
        for content in contents {
            for report in reports {
                let before = submitted(report, content.clone());
                assert_eq!(format!("{:?}", read_back(&before)), format!("{before:?}"));
            }
        }
        let mut before = submitted(Report::Succeeded, Some(Content::json("1")));
        before.submission.of_workflow = true;
        before.submission.within = Some(Grant::everywhere(Role::Executor));
        before.submission.words = Some(Beat {
            place: before.submission.report.place,
            fence: 9,
            lease_until: Millis(4_000),
            progress: None,
            log: Some("a line".to_owned()),
            executor: "ann".to_owned(),
            handed_over_at: None,
        });
        assert_eq!(format!("{:?}", read_back(&before)), format!("{before:?}"));
    }

    #[test]
    fn the_bytes_are_pinned_because_files_were_written_so() {
        let record =
            submitted(Report::Failed { after_ms: Some(7) }, Some(Content::json("1"))).record().unwrap();
        let json = concat!(
            r#"{"ref":"t00300000000002g000000000004d","fence":9,"at_ms":1000,"by":"ann","outcome":"failed","#,
            r#""after_ms":7,"status_code":-4,"status_msg":"no 🦀","result_code":1,"of_workflow":false}"#
        );
        let (len, rest) = record.body.split_first_chunk::<4>().unwrap();
        let (said, content) = rest.split_at(usize::try_from(u32::from_le_bytes(*len)).unwrap());
        let place = record.key.task;
        assert_eq!((place, record.key.fence, content), (77, 9, &b"1"[..]));
        let said: serde_json::Value = serde_json::from_slice(said).unwrap();
        let mut wanted: serde_json::Value = serde_json::from_str(json).unwrap();
        wanted["ref"] = said["ref"].clone();
        assert_eq!(said, wanted);
    }

    #[test]
    fn what_no_executor_reports_is_not_written_and_what_is_not_understood_is_not_read() {
        for report in [Report::LeaseExpired, Report::TimedOut, Report::PayloadLost] {
            assert!(submitted(report, None).record().is_none());
        }
        let body = submitted(Report::Reject, None).record().unwrap().body;
        for len in 0..body.len() {
            assert!(Submitted::read(&body[..len]).is_none(), "{len}");
        }
        let at = body.windows(8).position(|word| word == b"\"reject\"").unwrap();
        let mut other = body.clone();
        other[at..at + 8].copy_from_slice(b"\"reheat\"");
        assert!(Submitted::read(&body).is_some() && Submitted::read(&other).is_none());
    }

    #[test]
    fn reports_that_say_something_else_have_another_digest() {
        let of = |report, content: Option<&str>| {
            digest(&submitted(report, content.map(Content::json)).submission.report).unwrap()
        };
        let all = [
            of(Report::Succeeded, None),
            of(Report::Succeeded, Some("1")),
            of(Report::Reject, None),
            of(Report::Failed { after_ms: None }, None),
            of(Report::Failed { after_ms: Some(0) }, None),
            of(Report::Snooze { after_ms: 0 }, None),
        ];
        for (nth, one) in all.iter().enumerate() {
            assert!(!all[..nth].contains(one), "{nth}");
        }
        assert_eq!(of(Report::Succeeded, Some("1")), all[1]);
    }
}
