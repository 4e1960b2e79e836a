//! The time of a task in a request: one of `execute_at`, `execute_at_ms`, `delay_ms`. Only code with a clock
//! knows which instant a delay means, so this module never resolves one by itself.

use crate::At;
use crate::fields::FieldError;
use crate::limits::{EXECUTE_AT_MS_MIN, INSTANT_MAX_MS};

/// An instant, or a delay from the time when the request is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Epoch milliseconds. May be in the past: then the task is due immediately.
    AtMs(i64),
    /// Milliseconds from now.
    AfterMs(i64),
}

impl When {
    /// The instant, in epoch milliseconds, for a clock at `now_ms`.
    pub fn resolve(self, now_ms: i64) -> Result<i64, FieldError> {
        match self {
            Self::AtMs(at_ms) => Ok(at_ms),
            Self::AfterMs(delay_ms) => now_ms
                .checked_add(delay_ms)
                .filter(|at_ms| *at_ms <= INSTANT_MAX_MS)
                .ok_or_else(|| FieldError::new("/delay_ms", "must not lead beyond the year 9999")),
        }
    }
}

/// The three fields of a request as one; `None` if it has none of them.
pub(crate) fn schedule(
    execute_at: Option<&str>,
    execute_at_ms: Option<i64>,
    delay_ms: Option<i64>,
) -> Result<Option<When>, FieldError> {
    match (execute_at, execute_at_ms, delay_ms) {
        (None, None, None) => Ok(None),
        (Some(text), None, None) => text_instant(text).map(Some),
        (None, Some(at_ms), None) => instant_ms(at_ms).map(Some),
        (None, None, Some(delay_ms)) => delay(delay_ms).map(Some),
        (Some(_), _, _) => {
            Err(FieldError::new("/execute_at", "give only one of execute_at, execute_at_ms, delay_ms"))
        }
        (None, _, _) => {
            Err(FieldError::new("/execute_at_ms", "give only one of execute_at, execute_at_ms, delay_ms"))
        }
    }
}

fn text_instant(text: &str) -> Result<When, FieldError> {
    let expected = "must be an RFC 3339 date and time with an offset, between 1970 and 9999, such as 2026-11-20T23:11:00.250Z";
    At::from_rfc3339(text)
        .map(|at| When::AtMs(at.ms()))
        .ok_or_else(|| FieldError::new("/execute_at", expected))
}

fn instant_ms(at_ms: i64) -> Result<When, FieldError> {
    match instant_fault(at_ms) {
        None => Ok(When::AtMs(at_ms)),
        Some(detail) => Err(FieldError::new("/execute_at_ms", detail)),
    }
}

/// The fault of epoch milliseconds. Seconds instead of milliseconds would give an instant in January 1970:
/// long past, and the task would fire immediately.
pub(crate) fn instant_fault(at_ms: i64) -> Option<&'static str> {
    match at_ms {
        EXECUTE_AT_MS_MIN..=INSTANT_MAX_MS => None,
        0..EXECUTE_AT_MS_MIN => Some(
            "lies before 2001 in milliseconds: it looks like seconds, so multiply it by 1000; for a task that is due at once, leave the time out",
        ),
        _ => Some("must be epoch milliseconds between 2001 and 9999"),
    }
}

fn delay(delay_ms: i64) -> Result<When, FieldError> {
    let ok = (0..=INSTANT_MAX_MS).contains(&delay_ms);
    ok.then_some(When::AfterMs(delay_ms))
        .ok_or_else(|| FieldError::new("/delay_ms", "must be at least 0 and not lead beyond the year 9999"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointer(result: Result<Option<When>, FieldError>) -> String {
        result.unwrap_err().pointer
    }

    #[test]
    fn each_of_the_three_is_understood() {
        assert_eq!(schedule(None, None, None), Ok(None));
        assert_eq!(schedule(Some("1970-01-01T00:00:01Z"), None, None), Ok(Some(When::AtMs(1_000))));
        assert_eq!(schedule(None, Some(EXECUTE_AT_MS_MIN), None), Ok(Some(When::AtMs(EXECUTE_AT_MS_MIN))));
        assert_eq!(schedule(None, None, Some(0)), Ok(Some(When::AfterMs(0))));
    }

    #[test]
    fn more_than_one_is_refused() {
        assert_eq!(pointer(schedule(Some("1970-01-01T00:00:01Z"), Some(1_000), None)), "/execute_at");
        assert_eq!(pointer(schedule(Some("1970-01-01T00:00:01Z"), None, Some(0))), "/execute_at");
        assert_eq!(pointer(schedule(None, Some(1), Some(1))), "/execute_at_ms");
    }

    #[test]
    fn instants_lie_between_1970_and_9999_and_delays_are_not_negative() {
        assert_eq!(pointer(schedule(Some("soon"), None, None)), "/execute_at");
        assert_eq!(pointer(schedule(None, Some(-1), None)), "/execute_at_ms");
        assert_eq!(pointer(schedule(None, Some(INSTANT_MAX_MS + 1), None)), "/execute_at_ms");
        assert!(schedule(None, Some(INSTANT_MAX_MS), None).is_ok());
        assert_eq!(pointer(schedule(None, None, Some(-1))), "/delay_ms");
        assert_eq!(pointer(schedule(None, None, Some(i64::MAX))), "/delay_ms");
    }

    #[test]
    fn a_delay_counts_from_now_and_stays_within_9999() {
        assert_eq!(When::AfterMs(50).resolve(1_000), Ok(1_050));
        assert_eq!(When::AtMs(5).resolve(1_000), Ok(5));
        assert_eq!(When::AfterMs(INSTANT_MAX_MS).resolve(0), Ok(INSTANT_MAX_MS));
        assert_eq!(When::AfterMs(INSTANT_MAX_MS).resolve(1).unwrap_err().pointer, "/delay_ms");
    }

    #[test]
    fn seconds_taken_for_milliseconds_are_refused_with_a_sentence() {
        for seconds in [0, 5, 1_795_216_260, EXECUTE_AT_MS_MIN - 1] {
            let fault = schedule(None, Some(seconds), None).unwrap_err();
            assert!(fault.detail.contains("looks like seconds"), "{seconds}: {}", fault.detail);
        }
        assert_eq!(instant_fault(1_795_216_260_000), None);
        assert_eq!(At::from_rfc3339("2001-01-01T00:00:00Z").map(At::ms), Some(EXECUTE_AT_MS_MIN));
    }
}
