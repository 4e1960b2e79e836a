//! The retry policy in a request. The domain computes the delays.

use serde::{Deserialize, Serialize};

use crate::fields::Checks;
use crate::limits::{
    RETRY_DELAY_MAX_MS, RETRY_DELAYS_MAX, RETRY_FACTOR_DEFAULT, RETRY_FACTOR_MAX, RETRY_JITTER_DEFAULT,
    RETRY_MAX_DELAY_MS_DEFAULT,
};

/// The delay of the next attempt after a failed one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "strategy", rename_all = "snake_case", deny_unknown_fields)]
pub enum Retry {
    /// Immediately.
    #[schema(title = "RetryImmediate")]
    Immediate {},
    /// The delay is the same every time.
    #[schema(title = "RetryFixed")]
    Fixed {
        #[schema(minimum = 0, maximum = 31_536_000_000_i64)]
        delay_ms: i64,
    },
    /// The delay is `delay_ms`, then `factor` times longer each time, up to `max_delay_ms`. The default of
    /// `max_delay_ms` is ten minutes, and it is never less than `delay_ms`. `jitter`, 0 to 1, is the largest share of
    /// the delay that is added at random.
    #[schema(title = "RetryExponential")]
    Exponential {
        #[schema(minimum = 0, maximum = 31_536_000_000_i64)]
        delay_ms: i64,
        #[serde(default = "factor_default")]
        #[schema(minimum = 1, maximum = 100)]
        factor: f64,
        #[serde(default = "max_delay_ms_default")]
        #[schema(minimum = 0, maximum = 31_536_000_000_i64)]
        max_delay_ms: i64,
        #[serde(default = "jitter_default")]
        #[schema(minimum = 0, maximum = 1)]
        jitter: f64,
    },
    /// The delay is the first of these, then the second, and so on. The last one repeats.
    #[schema(title = "RetryList")]
    List {
        #[schema(min_items = 1, max_items = 100)]
        delays_ms: Vec<i64>,
    },
}

fn factor_default() -> f64 {
    RETRY_FACTOR_DEFAULT
}

fn max_delay_ms_default() -> i64 {
    RETRY_MAX_DELAY_MS_DEFAULT
}

fn jitter_default() -> f64 {
    RETRY_JITTER_DEFAULT
}

impl Retry {
    pub(crate) fn check(&self, checks: &mut Checks) {
        match self {
            Self::Immediate {} => {}
            Self::Fixed { delay_ms } => {
                checks.span("/retry/delay_ms", Some(*delay_ms), 0..=RETRY_DELAY_MAX_MS)
            }
            Self::Exponential { delay_ms, factor, max_delay_ms, jitter } => {
                checks.span("/retry/delay_ms", Some(*delay_ms), 0..=RETRY_DELAY_MAX_MS);
                checks.range("/retry/factor", Some(*factor), 1.0..=RETRY_FACTOR_MAX);
                checks.span("/retry/max_delay_ms", Some(*max_delay_ms), 0..=RETRY_DELAY_MAX_MS);
                check_growth(*delay_ms, *max_delay_ms, checks);
                checks.range("/retry/jitter", Some(*jitter), 0.0..=1.0);
            }
            Self::List { delays_ms } => check_list(delays_ms, checks),
        }
    }
}

/// A delay above the bound would be cut down to it from the first retry on.
fn check_growth(delay_ms: i64, max_delay_ms: i64, checks: &mut Checks) {
    let is_cut = (0..=RETRY_DELAY_MAX_MS).contains(&delay_ms) && (0..delay_ms).contains(&max_delay_ms);
    if is_cut {
        let default =
            if max_delay_ms == RETRY_MAX_DELAY_MS_DEFAULT { ", as where it is not given" } else { "" };
        let detail = format!(
            "is {delay_ms}, more than max_delay_ms ({max_delay_ms}{default}): give a max_delay_ms of {delay_ms} or more"
        );
        checks.refuse("/retry/delay_ms", detail);
    }
}

fn check_list(delays_ms: &[i64], checks: &mut Checks) {
    if delays_ms.is_empty() || delays_ms.len() > RETRY_DELAYS_MAX {
        checks.refuse("/retry/delays_ms", format!("must have 1 to {RETRY_DELAYS_MAX} entries"));
    }
    for (i, delay_ms) in delays_ms.iter().enumerate() {
        checks.span(&format!("/retry/delays_ms/{i}"), Some(*delay_ms), 0..=RETRY_DELAY_MAX_MS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    fn pointers(json: &str) -> Vec<String> {
        let retry: Retry = parse(json.as_bytes()).unwrap();
        let mut checks = Checks::default();
        retry.check(&mut checks);
        checks.done().err().map_or_else(Vec::new, |e| e.errors.into_iter().map(|e| e.pointer).collect())
    }

    #[test]
    fn the_four_strategies_are_read_as_documented_and_written_back() {
        for json in [
            r#"{"strategy":"immediate"}"#,
            r#"{"strategy":"fixed","delay_ms":300}"#,
            r#"{"strategy":"exponential","delay_ms":1000,"factor":2.0,"max_delay_ms":600000,"jitter":0.2}"#,
            r#"{"strategy":"list","delays_ms":[60000,300000]}"#,
        ] {
            let retry: Retry = parse(json.as_bytes()).unwrap();
            assert_eq!(serde_json::to_string(&retry).unwrap(), json);
            assert_eq!(pointers(json), Vec::<String>::new());
        }
    }

    #[test]
    fn whole_numbers_are_accepted_for_fractions_and_the_rest_has_defaults() {
        let short: Retry = parse(br#"{"strategy":"exponential","delay_ms":1000}"#).unwrap();
        let full: Retry = parse(
            br#"{"strategy":"exponential","delay_ms":1000,"factor":2,"max_delay_ms":600000,"jitter":0.2}"#,
        )
        .unwrap();
        assert_eq!(short, full);
    }

    #[test]
    fn unknown_strategies_and_fields_are_refused() {
        for json in [
            r#"{"strategy":"sometimes"}"#,
            r#"{"strategy":"immediate","delay_ms":1}"#,
            r#"{"strategy":"fixed"}"#,
            r#"{"strategy":"fixed","delay_ms":1,"jitter":0.1}"#,
            r#"{"delay_ms":1}"#,
        ] {
            assert!(parse::<Retry>(json.as_bytes()).is_err(), "{json}");
        }
    }

    #[test]
    fn values_out_of_range_are_pointed_at() {
        let wild = r#"{"strategy":"exponential","delay_ms":-1,"factor":0.5,"max_delay_ms":-1,"jitter":1.5}"#;
        assert_eq!(
            pointers(wild),
            ["/retry/delay_ms", "/retry/factor", "/retry/max_delay_ms", "/retry/jitter"]
        );
        assert_eq!(pointers(r#"{"strategy":"list","delays_ms":[]}"#), ["/retry/delays_ms"]);
        assert_eq!(pointers(r#"{"strategy":"list","delays_ms":[0,-5]}"#), ["/retry/delays_ms/1"]);
        assert_eq!(pointers(r#"{"strategy":"fixed","delay_ms":-1}"#), ["/retry/delay_ms"]);
    }

    #[test]
    fn a_delay_above_its_bound_is_refused_and_not_cut() {
        let refused = |json: &str| {
            let mut checks = Checks::default();
            parse::<Retry>(json.as_bytes()).unwrap().check(&mut checks);
            checks.done().unwrap_err().summary()
        };
        let hour = refused(r#"{"strategy":"exponential","delay_ms":3600000,"factor":2}"#);
        assert_eq!(
            hour,
            "/retry/delay_ms: is 3600000, more than max_delay_ms (600000, as where it is not given): give a max_delay_ms \
             of 3600000 or more"
        );
        let given = refused(r#"{"strategy":"exponential","delay_ms":20,"max_delay_ms":10}"#);
        assert!(given.contains("is 20, more than max_delay_ms (10): give"), "{given}");
        for fine in [
            r#"{"strategy":"exponential","delay_ms":600000}"#,
            r#"{"strategy":"exponential","delay_ms":3600000,"max_delay_ms":3600000}"#,
            r#"{"strategy":"exponential","delay_ms":0,"max_delay_ms":0}"#,
        ] {
            assert_eq!(pointers(fine), [""; 0], "{fine}");
        }
    }
}
