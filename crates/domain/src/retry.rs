//! The delay until the next attempt. Pure: the random number is an argument, so a test can fix it.

use serde::{Deserialize, Serialize};

/// Longest delay a policy may ask for: 365 days.
pub const DELAY_MAX_MS: i64 = 365 * 24 * 3_600 * 1_000;
/// Most entries of a list of delays.
pub const LIST_LEN_MAX: usize = 100;
pub const FACTOR_MAX: f64 = 100.0;

/// The delay after a failed attempt. All delays are in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "strategy", rename_all = "snake_case", deny_unknown_fields)]
pub enum RetryPolicy {
    Immediate {},
    Fixed {
        delay_ms: i64,
    },
    /// The delay is `delay_ms * factor^(attempt - 1)`, at most `max_delay_ms`, plus up to `jitter` of itself.
    Exponential {
        delay_ms: i64,
        #[serde(default = "default_factor")]
        factor: f64,
        #[serde(default = "default_max_delay_ms")]
        max_delay_ms: i64,
        #[serde(default)]
        jitter: f64,
    },
    /// The n-th failure waits for the n-th delay; beyond the end, for the last one.
    List {
        delays_ms: Vec<i64>,
    },
}

const fn default_factor() -> f64 {
    2.0
}
const fn default_max_delay_ms() -> i64 {
    600_000
}

impl Default for RetryPolicy {
    /// One second, doubled each time up to ten minutes, a fifth of jitter.
    fn default() -> Self {
        Self::Exponential {
            delay_ms: 1_000,
            factor: default_factor(),
            max_delay_ms: default_max_delay_ms(),
            jitter: 0.2,
        }
    }
}

/// Names the field, so that an API can point at it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct InvalidRetry {
    pub field: &'static str,
    pub problem: &'static str,
}

impl RetryPolicy {
    /// # Errors
    /// When a delay is negative or over a year, a factor under 1 or over 100, jitter outside 0..=1, or a list is
    /// empty or over-long.
    pub fn check(&self) -> Result<(), InvalidRetry> {
        let delay = |field, delay_ms: i64| {
            let ok = (0..=DELAY_MAX_MS).contains(&delay_ms);
            if ok {
                Ok(())
            } else {
                Err(InvalidRetry { field, problem: "must be 0 ms to 365 days, in milliseconds" })
            }
        };
        match self {
            Self::Immediate {} => Ok(()),
            Self::Fixed { delay_ms } => delay("delay_ms", *delay_ms),
            Self::Exponential { delay_ms, factor, max_delay_ms, jitter } => {
                delay("delay_ms", *delay_ms)?;
                delay("max_delay_ms", *max_delay_ms)?;
                if !(1.0..=FACTOR_MAX).contains(factor) {
                    return Err(InvalidRetry { field: "factor", problem: "must be 1 to 100" });
                }
                if !(0.0..=1.0).contains(jitter) {
                    return Err(InvalidRetry { field: "jitter", problem: "must be 0 to 1" });
                }
                Ok(())
            }
            Self::List { delays_ms } => {
                if delays_ms.is_empty() || delays_ms.len() > LIST_LEN_MAX {
                    return Err(InvalidRetry { field: "delays_ms", problem: "must have 1 to 100 entries" });
                }
                delays_ms.iter().try_for_each(|number| delay("delays_ms", *number))
            }
        }
    }

    /// Milliseconds from the failure of attempt `attempt` (1-based) to the next one. `unit` is uniform in 0..1.
    /// Jitter only ever adds: a retry is never earlier than its policy says.
    #[must_use]
    pub fn delay_ms(&self, attempt: u32, unit: f64) -> i64 {
        match self {
            Self::Immediate {} => 0,
            Self::Fixed { delay_ms } => *delay_ms,
            Self::Exponential { delay_ms, factor, max_delay_ms, jitter } => {
                let nominal = grown(*delay_ms, *factor, attempt.saturating_sub(1), *max_delay_ms);
                let added = to_f64(nominal) * jitter.clamp(0.0, 1.0) * unit.clamp(0.0, 1.0);
                nominal.saturating_add(to_i64(added))
            }
            Self::List { delays_ms } => {
                let nth = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX);
                delays_ms.get(nth).or_else(|| delays_ms.last()).copied().unwrap_or(0)
            }
        }
    }
}

/// A factor is taken to millionths, and a delay between two steps to nanoseconds.
const MILLIONTHS: u128 = 1_000_000;
const NANOS_PER_MS: u128 = 1_000_000;

/// Computes `delay_ms * factor^steps`, at most `max_ms`, rounded up. It computes with integers, so that no power
/// overflows or is "not a number", for any number of steps.
fn grown(delay_ms: i64, factor: f64, steps: u32, max_ms: i64) -> i64 {
    let nanos = |ms: i64| u128::from(ms.unsigned_abs()) * NANOS_PER_MS;
    let (factor, max) = (millionths(factor), nanos(max_ms.max(0)));
    let mut delay = nanos(delay_ms.max(0)).min(max);
    // A task has at most a thousand attempts.
    for _ in 0..steps {
        let next = ((delay * factor + MILLIONTHS / 2) / MILLIONTHS).min(max);
        if next == delay {
            break;
        }
        delay = next;
    }
    i64::try_from(delay.div_ceil(NANOS_PER_MS)).unwrap_or(max_ms)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is from 1 to 100; a float cast saturates, and of what is no number it makes 0"
)]
fn millionths(factor: f64) -> u128 {
    (factor.clamp(1.0, FACTOR_MAX) * 1e6).round() as u128
}

#[expect(clippy::cast_precision_loss, reason = "delays are below 2^53 milliseconds")]
fn to_f64(ms: i64) -> f64 {
    ms as f64
}

#[expect(clippy::cast_possible_truncation, reason = "a float cast saturates; the result is at most a year")]
fn to_i64(ms: f64) -> i64 {
    ms.ceil() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_strategy_waits_as_it_says() {
        let list = RetryPolicy::List { delays_ms: vec![60_000, 300_000] };
        let fixed = RetryPolicy::Fixed { delay_ms: 300 };
        let table = [(1, 60_000), (2, 300_000), (3, 300_000)];
        for (attempt, want) in table {
            assert_eq!(list.delay_ms(attempt, 0.5), want);
            assert_eq!(fixed.delay_ms(attempt, 0.5), 300);
            assert_eq!(RetryPolicy::Immediate {}.delay_ms(attempt, 0.5), 0);
        }
    }

    #[test]
    fn exponential_doubles_up_to_its_bound_and_jitter_only_adds() {
        let exponential =
            RetryPolicy::Exponential { delay_ms: 1_000, factor: 2.0, max_delay_ms: 10_000, jitter: 0.2 };
        let plain: Vec<i64> = (1..7).map(|n| exponential.delay_ms(n, 0.0)).collect();
        assert_eq!(plain, [1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
        assert_eq!(exponential.delay_ms(1, 1.0), 1_200);
        assert_eq!(exponential.delay_ms(u32::MAX, 0.0), 10_000);
    }

    #[test]
    fn exponential_stays_what_it_says_at_any_attempt() {
        let delay = |delay_ms, factor, max_delay_ms, attempt| {
            RetryPolicy::Exponential { delay_ms, factor, max_delay_ms, jitter: 0.0 }.delay_ms(attempt, 0.0)
        };
        for attempt in [1, 155, 156, 200, 1_000, u32::MAX] {
            assert_eq!(delay(0, 100.0, 600_000, attempt), 0, "nothing times anything, attempt {attempt}");
            assert_eq!(delay(1, 100.0, 1, attempt), 1, "attempt {attempt}");
            assert_eq!(delay(7, 1.0, DELAY_MAX_MS, attempt), 7, "attempt {attempt}");
        }
        assert_eq!(delay(1, 100.0, DELAY_MAX_MS, u32::MAX), DELAY_MAX_MS);
        assert_eq!(delay(DELAY_MAX_MS, 100.0, DELAY_MAX_MS, 2), DELAY_MAX_MS);
        let exact: Vec<i64> = (1..=4).map(|attempt| delay(1_000, 1.1, 600_000, attempt)).collect();
        assert_eq!(exact, [1_000, 1_100, 1_210, 1_331], "1.1 has no exact double, and the delays are exact");
    }

    #[test]
    fn the_json_form_is_the_one_in_the_api() {
        let json =
            r#"{"strategy":"exponential","delay_ms":1000,"factor":2,"max_delay_ms":600000,"jitter":0.2}"#;
        assert_eq!(serde_json::from_str::<RetryPolicy>(json).unwrap(), RetryPolicy::default());
        assert!(serde_json::from_str::<RetryPolicy>(r#"{"strategy":"fixed","delay":3}"#).is_err());
        assert!(serde_json::from_str::<RetryPolicy>(r#"{"strategy":"immediate"}"#).is_ok());
    }

    #[test]
    fn nonsense_is_refused_by_field() {
        let bad = RetryPolicy::Exponential { delay_ms: 1, factor: f64::NAN, max_delay_ms: 1, jitter: 0.0 };
        assert_eq!(bad.check().unwrap_err().field, "factor");
        assert_eq!(RetryPolicy::Fixed { delay_ms: -1 }.check().unwrap_err().field, "delay_ms");
        assert_eq!(RetryPolicy::List { delays_ms: vec![] }.check().unwrap_err().field, "delays_ms");
    }
}
