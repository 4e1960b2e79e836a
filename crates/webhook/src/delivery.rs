//! What an answer means for the attempt. Pure: sends nothing, and knows no clock but its argument.

use punctual_domain::time::Millis;
use punctual_protocol::{Json, Outcome, OutcomeKind};
use std::time::{SystemTime, UNIX_EPOCH};

/// The longest time that a receiver can postpone the next attempt by `Retry-After`.
const RETRY_AFTER_MAX_MS: i64 = 24 * 3_600_000;
/// The bytes of an unfavourable answer that become part of the attempt's error.
const QUOTED_MAX_BYTES: usize = 1_024;
/// The pause before the task of a gone receiver is due again. It then waits for the queue.
const AFTER_GONE_MS: i64 = 1_000;

/// What came back of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Response {
    Answered(ReceiverAnswer),
    /// No whole answer came: no connection, no time left, or a connection that broke.
    Unanswered(String),
    /// The request was given up: the lease was lost, or its task is to stop.
    GivenUp,
    /// The engine stops before the answer.
    Interrupted,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReceiverAnswer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<String>,
    /// `None` if it was longer than the bound.
    pub(crate) body: Option<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryVerdict {
    Succeeded {
        result: Option<Json>,
        note: Option<String>,
    },
    /// The receiver still works on it, and reports the outcome.
    Accepted,
    Failed {
        retry_after_ms: Option<i64>,
        why: String,
    },
    Rejected {
        why: String,
    },
    /// The receiver wants no more requests.
    Gone {
        why: String,
    },
    /// The attempt does not count, and runs again.
    Postponed,
}

pub(crate) fn verdict(response: &Response, now: Millis) -> DeliveryVerdict {
    match response {
        Response::Answered(answer) => of_answer(answer, now),
        Response::Unanswered(why) => DeliveryVerdict::Failed { retry_after_ms: None, why: why.clone() },
        Response::GivenUp => {
            DeliveryVerdict::Failed { retry_after_ms: None, why: "the delivery was given up".to_owned() }
        }
        Response::Interrupted => DeliveryVerdict::Postponed,
    }
}

fn of_answer(answer: &ReceiverAnswer, now: Millis) -> DeliveryVerdict {
    match answer.status {
        202 => DeliveryVerdict::Accepted,
        200..=299 => succeeded(answer.body.as_deref()),
        300..=399 => DeliveryVerdict::Failed {
            retry_after_ms: None,
            why: format!(
                "HTTP {}: redirects are not followed; set `webhook.url` to the new address",
                answer.status
            ),
        },
        410 => DeliveryVerdict::Gone { why: quoted(answer) },
        408 | 409 | 425 | 429 | 500.. => {
            let retry_after_ms = answer.retry_after.as_deref().and_then(|text| retry_after_ms(text, now));
            DeliveryVerdict::Failed { retry_after_ms, why: quoted(answer) }
        }
        _ => DeliveryVerdict::Rejected { why: quoted(answer) },
    }
}

fn succeeded(body: Option<&[u8]>) -> DeliveryVerdict {
    let Some(body) = body else {
        let note = Some("the answer was longer than 1 MiB, and is not stored".to_owned());
        return DeliveryVerdict::Succeeded { result: None, note };
    };
    let text = std::str::from_utf8(body).ok().map(str::trim).filter(|text| !text.is_empty());
    let json = text.and_then(|text| Json::from_text(text.to_owned()).ok());
    DeliveryVerdict::Succeeded { result: json.filter(Json::is_readable), note: None }
}

/// `HTTP 503: text`, with the beginning of the answer on one line.
fn quoted(answer: &ReceiverAnswer) -> String {
    let bytes = answer.body.as_deref().unwrap_or_default();
    let text = String::from_utf8_lossy(bytes.get(..QUOTED_MAX_BYTES).unwrap_or(bytes));
    let line = text.split(|sign: char| sign.is_whitespace() || sign.is_control());
    let line = line.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    if line.is_empty() {
        format!("HTTP {}", answer.status)
    } else {
        format!("HTTP {}: {line}", answer.status)
    }
}

/// Seconds, or an instant.
fn retry_after_ms(text: &str, now: Millis) -> Option<i64> {
    let ms = match text.trim().parse::<u64>() {
        Ok(seconds) => i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX),
        Err(_) => {
            let at: SystemTime = httpdate::parse_http_date(text.trim()).ok()?;
            let at_ms = i64::try_from(at.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()?;
            at_ms.saturating_sub(now.0)
        }
    };
    Some(ms.clamp(0, RETRY_AFTER_MAX_MS))
}

/// The outcome to report. `None` if the receiver reports it.
pub(crate) fn outcome(
    (r#ref, token): (&str, &str),
    response: &Response,
    verdict: &DeliveryVerdict,
) -> Option<Outcome> {
    let status_code = match response {
        Response::Answered(answer) => Some(i64::from(answer.status)),
        _ => None,
    };
    let outcome = |kind| Outcome { status_code, ..Outcome::new(r#ref, token, kind) };
    Some(match verdict.clone() {
        DeliveryVerdict::Accepted => return None,
        DeliveryVerdict::Succeeded { result, note } => {
            Outcome { result, status_msg: note, ..outcome(OutcomeKind::Succeeded) }
        }
        DeliveryVerdict::Failed { retry_after_ms, why } => {
            Outcome { retry_after_ms, status_msg: Some(why), ..outcome(OutcomeKind::Failed) }
        }
        DeliveryVerdict::Rejected { why } => {
            Outcome { status_msg: Some(why), ..outcome(OutcomeKind::Reject) }
        }
        DeliveryVerdict::Gone { why } => Outcome {
            retry_after_ms: Some(AFTER_GONE_MS),
            status_msg: Some(why),
            ..outcome(OutcomeKind::Snooze)
        },
        DeliveryVerdict::Postponed => Outcome { retry_after_ms: Some(0), ..outcome(OutcomeKind::Snooze) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis(784_111_777_000);

    fn of(status: u16, retry_after: Option<&str>, body: &str) -> DeliveryVerdict {
        let answer = ReceiverAnswer {
            status,
            retry_after: retry_after.map(str::to_owned),
            body: Some(body.as_bytes().to_vec()),
        };
        verdict(&Response::Answered(answer), NOW)
    }

    #[test]
    fn each_status_leads_where_it_should() {
        let failed =
            |retry_after_ms, why: &str| DeliveryVerdict::Failed { retry_after_ms, why: why.to_owned() };
        assert_eq!(of(202, None, "{}"), DeliveryVerdict::Accepted);
        for status in [408, 409, 425, 429, 500, 502, 503, 504, 599] {
            assert_eq!(of(status, None, ""), failed(None, &format!("HTTP {status}")), "{status}");
        }
        assert_eq!(of(503, Some("7"), "busy\r\n\tnow \u{1}x"), failed(Some(7_000), "HTTP 503: busy now x"));
        assert_eq!(of(429, Some("Sun, 06 Nov 1994 08:49:47 GMT"), ""), failed(Some(10_000), "HTTP 429"));
        assert_eq!(of(429, Some("Sun, 06 Nov 1994 08:00:00 GMT"), ""), failed(Some(0), "HTTP 429"));
        assert_eq!(of(429, Some("99999999999999999999"), ""), failed(None, "HTTP 429"));
        assert_eq!(of(429, Some("9999999999"), ""), failed(Some(RETRY_AFTER_MAX_MS), "HTTP 429"));
        assert_eq!(of(410, None, "moved on"), DeliveryVerdict::Gone { why: "HTTP 410: moved on".to_owned() });
        for status in [400, 401, 403, 404, 405, 413, 422] {
            assert_eq!(
                of(status, Some("7"), ""),
                DeliveryVerdict::Rejected { why: format!("HTTP {status}") }
            );
        }
        for status in [301, 302, 307, 308] {
            assert!(
                matches!(of(status, None, ""), DeliveryVerdict::Failed { retry_after_ms: None, .. }),
                "{status}"
            );
        }
    }

    #[test]
    fn a_json_body_of_a_success_is_the_result() {
        let result = |body: &str| match of(200, None, body) {
            DeliveryVerdict::Succeeded { result, note: None } => result.map(Json::into_text),
            other => panic!("{other:?}"),
        };
        assert_eq!(result(" {\"sent\": 1.50}\n").as_deref(), Some("{\"sent\": 1.50}"));
        assert_eq!(result("null").as_deref(), Some("null"));
        for body in ["", "OK", "<html></html>", "{\"a\":", &"[".repeat(100_000)] {
            assert_eq!(result(body), None, "{}", &body[..body.len().min(20)]);
        }
    }

    #[test]
    fn an_interrupted_delivery_does_not_count() {
        let interrupted = Response::Interrupted;
        let reported = outcome(("r", "1-30000"), &interrupted, &verdict(&interrupted, NOW)).unwrap();
        assert_eq!((reported.outcome, reported.retry_after_ms), (OutcomeKind::Snooze, Some(0)));
    }
}
