//! The bodies of the few calls that a load test makes, written and read manually-picked fields. Deliberately not the
//! server's own wire types: a change there that would break clients must break here.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::io::Write as _;

/// The shape of every task of a run.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) queue: String,
    /// Task `n` has the id `base + n`.
    pub(crate) base: i64,
    payload_bytes: usize,
    /// `xxx…"}`: the end of every payload.
    filler: Vec<u8>,
    /// Tasks have these priorities in turns, from 1 on. 0: they name none.
    priorities: u8,
}

impl Shape {
    pub(crate) fn new(queue: String, base: i64, payload_bytes: usize) -> Self {
        let mut filler = vec![b'x'; payload_bytes];
        filler.extend_from_slice(b"\"}");
        Self { queue, base, payload_bytes, filler, priorities: 0 }
    }

    pub(crate) fn with_priorities(self, priorities: u8) -> Self {
        Self { priorities, ..self }
    }

    pub(crate) fn task_id(&self, n: usize) -> i64 {
        self.base.saturating_add(i64::try_from(n).unwrap_or(i64::MAX))
    }

    /// `None` for no task of this run.
    pub(crate) fn index(&self, task_id: i64) -> Option<usize> {
        usize::try_from(task_id.checked_sub(self.base)?).ok()
    }

    /// Body of `POST /v1/tasks`.
    pub(crate) fn write_task(&self, n: usize, due_ms: i64, out: &mut Vec<u8>) {
        let (queue, task_id) = (&self.queue, self.task_id(n));
        let head = format_args!(
            r#"{{"queue":"{queue}","kind":"load","task_id":{task_id},"execute_at_ms":{due_ms},"payload":"#
        );
        out.write_fmt(head).expect("a vector takes every write");
        out.extend_from_slice(payload_head(n).as_bytes());
        out.extend_from_slice(self.filler_for(n));
        if self.priorities > 0 {
            let priority = 1 + n % usize::from(self.priorities);
            write!(out, r#","priority":{priority}"#).expect("a vector takes every write");
        }
        out.push(b'}');
    }

    /// Body of `POST /v1/tasks/batch`.
    pub(crate) fn write_batch(&self, tasks: impl Iterator<Item = (usize, i64)>, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"tasks":["#);
        for (i, (n, due_ms)) in tasks.enumerate() {
            if i > 0 {
                out.push(b',');
            }
            self.write_task(n, due_ms, out);
        }
        out.extend_from_slice(b"]}");
    }

    /// True if the executor received what was inserted, letter for letter.
    pub(crate) fn is_payload(&self, n: usize, payload: &str) -> bool {
        let rest = payload.as_bytes().strip_prefix(payload_head(n).as_bytes());
        rest == Some(self.filler_for(n))
    }

    /// The part of the filler that makes the payload `payload_bytes` long; at least its end.
    fn filler_for(&self, n: usize) -> &[u8] {
        let wanted = self.payload_bytes.saturating_sub(payload_head(n).len()).max(2);
        self.filler.get(self.filler.len().saturating_sub(wanted)..).unwrap_or(&self.filler)
    }
}

fn payload_head(n: usize) -> String {
    format!(r#"{{"n":{n},"pad":""#)
}

/// The result of an insert.
#[derive(Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum InsertOutcome {
    Created,
    Replaced,
    Existing,
}

/// Answer to a single insert.
#[derive(Deserialize, Debug)]
pub(crate) struct InsertedTask {
    pub(crate) task_id: i64,
    pub(crate) outcome: InsertOutcome,
}

#[derive(Deserialize, Debug)]
pub(crate) struct BatchAnswer<'a> {
    #[serde(borrow)]
    pub(crate) results: Vec<BatchItem<'a>>,
}

#[derive(Deserialize, Debug)]
pub(crate) struct BatchItem<'a> {
    pub(crate) status: u16,
    pub(crate) task: Option<InsertedTask>,
    #[serde(borrow)]
    pub(crate) error: Option<&'a RawValue>,
}

#[derive(Deserialize, Debug)]
pub(crate) struct LeaseAnswer<'a> {
    #[serde(borrow)]
    pub(crate) tasks: Vec<LeasedTask<'a>>,
}

/// `ref` and `token` go back as they came, whatever they are.
#[derive(Deserialize, Debug)]
pub(crate) struct LeasedTask<'a> {
    #[serde(borrow)]
    pub(crate) r#ref: &'a RawValue,
    #[serde(borrow)]
    pub(crate) token: &'a RawValue,
    pub(crate) task_id: i64,
    pub(crate) attempt: u32,
    pub(crate) execute_at_ms: i64,
    pub(crate) fired_at_ms: i64,
    #[serde(default)]
    pub(crate) lease_until_ms: i64,
    #[serde(borrow)]
    pub(crate) payload: Option<&'a RawValue>,
}

impl LeasedTask<'_> {
    /// One item of `POST /v1/outcomes`.
    pub(crate) fn succeeded(&self) -> String {
        let (reference, token) = (self.r#ref.get(), self.token.get());
        [r#"{"ref":"#, reference, r#","token":"#, token, r#","outcome":"succeeded"}"#].concat()
    }
}

/// Body of `POST /v1/queues/{queue}/lease`.
pub(crate) fn lease_request(max: usize, wait_ms: u64, lease_ms: u64, executor: &str) -> Vec<u8> {
    format!(r#"{{"max":{max},"wait_ms":{wait_ms},"lease_ms":{lease_ms},"executor":"{executor}"}}"#)
        .into_bytes()
}

/// Body of `POST /v1/outcomes`.
pub(crate) fn write_outcomes<'a>(items: impl Iterator<Item = &'a str>, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"outcomes":["#);
    for (i, item) in items.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        out.extend_from_slice(item.as_bytes());
    }
    out.extend_from_slice(b"]}");
}

#[derive(Deserialize, Debug)]
pub(crate) struct OutcomesAnswer {
    pub(crate) results: Vec<OutcomeReceipt>,
}

#[derive(Deserialize, Debug)]
pub(crate) struct OutcomeReceipt {
    pub(crate) status: OutcomeStatus,
}

#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OutcomeStatus {
    Accepted,
    Stale,
    Invalid,
    Unavailable,
    /// The engine's journal has it. It is reported again until the database says `accepted` or `stale`: only that is judged.
    AcceptedForLater,
}

impl OutcomeStatus {
    pub(crate) const fn is_reported_again(self) -> bool {
        matches!(self, Self::Unavailable | Self::AcceptedForLater)
    }
}

/// A page of `GET /v1/tasks?task_id=`.
#[derive(Deserialize, Debug)]
pub(crate) struct FoundTasks {
    pub(crate) items: Vec<FoundTask>,
}

#[derive(Deserialize, Debug)]
pub(crate) struct FoundTask {
    pub(crate) task_id: i64,
    pub(crate) phase: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload_of(shape: &Shape, n: usize) -> String {
        let mut body = Vec::new();
        shape.write_task(n, 5, &mut body);
        let task: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(task["task_id"], 1_000 + n);
        assert_eq!(task["execute_at_ms"], 5);
        let text = String::from_utf8(body).unwrap();
        let (_, payload) = text.split_once(r#""payload":"#).unwrap();
        payload.strip_suffix('}').unwrap().to_owned()
    }

    #[test]
    fn payloads_have_the_length_that_was_asked_for() {
        let shape = Shape::new("q".into(), 1_000, 200);
        for n in [0, 9, 123_456] {
            assert_eq!(payload_of(&shape, n).len(), 200);
        }
        let shortest = payload_of(&Shape::new("q".into(), 1_000, 0), 7);
        assert_eq!(shortest, r#"{"n":7,"pad":""}"#);
    }

    #[test]
    fn priorities_go_in_turns_where_they_are_asked_for() {
        let priority = |shape: &Shape, n| {
            let mut body = Vec::new();
            shape.write_task(n, 5, &mut body);
            let task: serde_json::Value = serde_json::from_slice(&body).unwrap();
            task.get("priority").and_then(serde_json::Value::as_u64)
        };
        let plain = Shape::new("q".to_owned(), 1, 20);
        assert_eq!(priority(&plain, 0), None);
        let shape = plain.with_priorities(5);
        assert_eq!([0, 4, 5].map(|n| priority(&shape, n)), [Some(1), Some(5), Some(1)]);
    }

    #[test]
    fn a_payload_that_is_another_is_seen() {
        let shape = Shape::new("q".into(), 1_000, 100);
        let payload = payload_of(&shape, 7);
        assert!(shape.is_payload(7, &payload));
        assert!(!shape.is_payload(8, &payload));
        assert!(!shape.is_payload(7, &payload.replacen('x', "y", 1)));
        assert!(!shape.is_payload(7, &payload.replacen('x', "", 1)));
        assert!(!shape.is_payload(7, "null"));
    }

    #[test]
    fn a_batch_is_one_json_document() {
        let shape = Shape::new("q".into(), 0, 50);
        let mut body = Vec::new();
        shape.write_batch([(3, 30), (4, 40)].into_iter(), &mut body);
        let batch: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(batch["tasks"][1]["payload"]["n"], 4);
        assert_eq!(batch["tasks"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn answers_are_read_past_fields_that_do_not_matter() {
        let json = concat!(
            r#"{"results":[{"status":201,"task":{"ref":"a","task_id":4,"outcome":"created","history":[{}]}},"#,
            r#"{"status":422,"error":{"code":"x"}}]}"#
        );
        let answer: BatchAnswer<'_> = serde_json::from_str(json).unwrap();
        assert_eq!(answer.results[0].task.as_ref().map(|task| task.outcome), Some(InsertOutcome::Created));
        assert_eq!(answer.results[1].error.map(RawValue::get), Some(r#"{"code":"x"}"#));
    }

    #[test]
    fn outcomes_carry_reference_and_token_as_they_came() {
        let json = concat!(
            r#"{"tasks":[{"ref":"a\u0031","token":"t","task_id":1,"attempt":1,"execute_at_ms":5,"#,
            r#""fired_at_ms":6,"payload":null}]}"#
        );
        let answer: LeaseAnswer<'_> = serde_json::from_str(json).unwrap();
        let item = answer.tasks[0].succeeded();
        assert_eq!(item, r#"{"ref":"a\u0031","token":"t","outcome":"succeeded"}"#);
        let mut body = Vec::new();
        write_outcomes([item.as_str(), item.as_str()].into_iter(), &mut body);
        let report: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(report["outcomes"][1]["ref"], "a1");
    }
}
