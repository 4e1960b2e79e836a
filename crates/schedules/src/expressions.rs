//! What the payload of a schedule may name: payloads that differ from run to run.

use punctual_domain::time::Millis;
use punctual_expressions as expressions;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Variables<'a> {
    /// `schedule`, its name.
    pub(crate) schedule: &'a str,
    /// `scheduled_at`, RFC 3339 with milliseconds in UTC, and `scheduled_at_ms`.
    pub(crate) scheduled_at: Millis,
    /// `run`, the number of the run.
    pub(crate) run: u64,
}

/// The payload with every expression replaced; one without any comes back letter for letter.
pub(crate) fn fill(text: &str, variables: &Variables<'_>) -> Result<String, String> {
    let at = jiff::Timestamp::from_millisecond(variables.scheduled_at.0);
    let at = at.map_or_else(|_| String::new(), |it| format!("{it:.3}"));
    let run = i64::try_from(variables.run).unwrap_or(i64::MAX);
    let named = vec![
        ("schedule", variables.schedule.into()),
        ("scheduled_at", at.into()),
        ("scheduled_at_ms", variables.scheduled_at.0.into()),
        ("run", run.into()),
    ];
    expressions::fill(text, named)
}

/// Whether every expression can be read and gives a value, with variables as they might be.
pub(crate) fn check(text: &str) -> Result<(), String> {
    let example = Variables { schedule: "example", scheduled_at: Millis(1_800_000_000_000), run: 1 };
    fill(text, &example).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_knows_its_schedule_its_instant_and_its_number() {
        let variables = Variables { schedule: "digest", scheduled_at: Millis(1_800_000_000_250), run: 7 };
        let text = r#"[{"$expr": "schedule"}, {"$expr": "scheduled_at"}, {"$expr": "scheduled_at_ms"}, {"$expr": "run"}]"#;
        let wanted = r#"["digest","2027-01-15T08:00:00.250Z",1800000000250,7]"#;
        assert_eq!(fill(text, &variables).unwrap(), wanted);
        assert!(check(r#"{"$expr": "item"}"#).unwrap_err().contains("item"));
    }
}
