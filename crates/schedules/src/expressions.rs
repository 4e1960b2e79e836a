//! Expressions in a schedule's payload, whose values differ between runs. Reads and evaluates user input:
//! only on threads of the pool, never on those that serve requests or tasks.

use crate::Error;
use punctual_domain::{schedule::Invalid, time::Millis};
use punctual_expressions::{Budget, Problem, REQUEST_BYTES, REQUEST_STEPS, Template};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Variables<'a> {
    /// `schedule`, its name.
    pub(crate) schedule: &'a str,
    /// `scheduled_at`, RFC 3339 with milliseconds in UTC, and `scheduled_at_ms`.
    pub(crate) scheduled_at: Millis,
    /// `run`, the number of the run.
    pub(crate) run: u64,
}

/// The budget of the payload of one run.
pub(crate) const fn budget() -> Budget {
    Budget::new(REQUEST_STEPS, REQUEST_BYTES)
}

/// The cost in steps: eight bytes of output count as one.
pub(crate) const fn cost(budget: &Budget) -> u64 {
    budget.spent_steps() + budget.spent_bytes() / 8
}

/// The payload with every expression replaced; a payload without any is returned verbatim.
pub(crate) fn fill(text: &str, variables: &Variables<'_>, budget: &mut Budget) -> Result<String, Problem> {
    let Some(template) = Template::parse(text)? else { return Ok(text.to_owned()) };
    let at = jiff::Timestamp::from_millisecond(variables.scheduled_at.0);
    let at = at.map_or_else(|_| String::new(), |instant| format!("{instant:.3}"));
    let run = i64::try_from(variables.run).unwrap_or(i64::MAX);
    let named = vec![
        ("schedule", variables.schedule.into()),
        ("scheduled_at", at.into()),
        ("scheduled_at_ms", variables.scheduled_at.0.into()),
        ("run", run.into()),
    ];
    template.fill(&named, &[], budget)
}

/// Checks that every expression can be read and gives a value, with example variables.
///
/// # Errors
/// [`Error::Invalid`], [`Error::Budget`].
pub(crate) fn check(text: &str) -> Result<(), Error> {
    let example = Variables { schedule: "example", scheduled_at: Millis(1_800_000_000_000), run: 1 };
    fill(text, &example, &mut budget()).map(drop).map_err(|problem| {
        let is_over_budget = problem.is_over_budget();
        let invalid = Invalid { field: "task/payload".to_owned(), problem: problem.into() };
        if is_over_budget { Error::Budget(invalid) } else { Error::Invalid(invalid) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_knows_its_schedule_its_instant_and_its_number() {
        let variables = Variables { schedule: "digest", scheduled_at: Millis(1_800_000_000_250), run: 7 };
        let text = r#"[{"$expr": "schedule"}, {"$expr": "scheduled_at"}, {"$expr": "scheduled_at_ms"}, {"$expr": "run"}]"#;
        let wanted = r#"["digest", "2027-01-15T08:00:00.250Z", 1800000000250, 7]"#;
        assert_eq!(fill(text, &variables, &mut budget()).unwrap(), wanted);
        assert!(check(r#"{"$expr": "item"}"#).unwrap_err().to_string().contains("item"));
        let endless =
            (0..12).fold("true".to_owned(), |text, _| format!("[1, 2, 3, 4, 5, 6]. all(x, {text})"));
        let refused = check(&format!(r#"{{"$expr": "{endless}"}}"#)).unwrap_err();
        assert!(matches!(refused, Error::Budget(_)), "{refused}");
    }
}
