//! Payloads that differ from run to run: wherever a payload has `{"$expr": "..."}`, the value of that expression (CEL)
//! stands. Expressions come from users, and the parser was written by others: what could make it take too much is refused
//! before it sees it, it runs on a thread with a stack of its own, and nothing can loop over much.

use cel::{Context, Program};
use punctual_domain::time::Millis;
use serde_json::{Map, Value};
use std::thread;

const MARK: &str = "$expr";
/// Longest expression, in bytes.
const TEXT_MAX: usize = 1_024;
/// Brackets within brackets.
const DEPTH_MAX: usize = 20;
/// Macros that walk through a list: each within the other multiplies.
const LOOPS_MAX: usize = 2;
/// Signs and exclamation marks in a row.
const SIGNS_MAX: usize = 2;
/// Expressions of one payload.
const EXPRESSIONS_MAX: usize = 100;
/// Of the thread that reads and evaluates them.
const STACK_BYTES: usize = 16 << 20;

/// What an expression may name.
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
    let Some(mut payload) = with_expressions(text)? else { return Ok(text.to_owned()) };
    let variables = Named::of(variables);
    apart(move || {
        let mut evaluate = |expression: &str| {
            let context = variables.context();
            let value =
                compile(expression)?.execute(&context).map_err(|it| wrong(expression, &it.to_string()))?;
            value.json().map_err(|it| wrong(expression, &it.to_string()))
        };
        replace(&mut payload, &mut evaluate)?;
        Ok(payload.to_string())
    })
}

/// Whether every expression can be read and gives a value, with variables as they might be.
pub(crate) fn check(text: &str) -> Result<(), String> {
    let example = Variables { schedule: "example", scheduled_at: Millis(1_800_000_000_000), run: 1 };
    fill(text, &example).map(drop)
}

/// None: it has none.
fn with_expressions(text: &str) -> Result<Option<Value>, String> {
    if !text.contains(MARK) {
        return Ok(None);
    }
    let payload: Value = serde_json::from_str(text).map_err(|it| format!("is not JSON: {it}"))?;
    let mut count = 0;
    guard(&payload, &mut count)?;
    if count > EXPRESSIONS_MAX {
        return Err(format!("has {count} expressions, and may have at most {EXPRESSIONS_MAX}"));
    }
    Ok((count > 0).then_some(payload))
}

/// An object that is an expression.
fn expression(object: &Map<String, Value>) -> Result<Option<&str>, String> {
    match (object.get(MARK), object.len()) {
        (None, _) => Ok(None),
        (Some(Value::String(text)), 1) => Ok(Some(text)),
        (Some(_), 1) => Err(format!("`{MARK}` must be a text")),
        (Some(_), _) => Err(format!("an object with `{MARK}` must have nothing else")),
    }
}

fn guard(value: &Value, count: &mut usize) -> Result<(), String> {
    match value {
        Value::Array(all) => all.iter().try_for_each(|it| guard(it, count)),
        Value::Object(object) => match expression(object)? {
            Some(text) => {
                *count += 1;
                guard_text(text)
            }
            None => object.values().try_for_each(|it| guard(it, count)),
        },
        _ => Ok(()),
    }
}

/// What must not reach the parser.
fn guard_text(text: &str) -> Result<(), String> {
    if text.len() > TEXT_MAX {
        return Err(format!("an expression has {} bytes, and may have at most {TEXT_MAX}", text.len()));
    }
    let (mut depth, mut signs) = (0_usize, 0_usize);
    for it in text.chars().filter(|it| !it.is_whitespace()) {
        match it {
            '(' | '[' | '{' | '?' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        signs = if matches!(it, '!' | '-') { signs + 1 } else { 0 };
        if depth > DEPTH_MAX {
            return Err(wrong(text, &format!("it has more than {DEPTH_MAX} brackets within brackets")));
        }
        if signs > SIGNS_MAX {
            return Err(wrong(text, "it has too many signs in a row"));
        }
    }
    let loops: usize = ["all", "exists", "exists_one", "map", "filter", "transform"]
        .iter()
        .map(|name| text.matches(&format!(".{name}")).count())
        .sum();
    if loops > LOOPS_MAX {
        return Err(wrong(text, &format!("it walks through lists more than {LOOPS_MAX} times")));
    }
    Ok(())
}

fn replace(
    value: &mut Value,
    evaluate: &mut impl FnMut(&str) -> Result<Value, String>,
) -> Result<(), String> {
    match value {
        Value::Array(all) => all.iter_mut().try_for_each(|it| replace(it, evaluate)),
        Value::Object(object) => match expression(object)?.map(str::to_owned) {
            Some(text) => {
                *value = evaluate(&text)?;
                Ok(())
            }
            None => object.values_mut().try_for_each(|it| replace(it, evaluate)),
        },
        _ => Ok(()),
    }
}

/// Variables that go along to another thread.
struct Named {
    schedule: String,
    scheduled_at: String,
    scheduled_at_ms: i64,
    run: i64,
}

impl Named {
    fn of(it: &Variables<'_>) -> Self {
        let at = jiff::Timestamp::from_millisecond(it.scheduled_at.0);
        Self {
            schedule: it.schedule.to_owned(),
            scheduled_at: at.map_or_else(|_| String::new(), |it| format!("{it:.3}")),
            scheduled_at_ms: it.scheduled_at.0,
            run: i64::try_from(it.run).unwrap_or(i64::MAX),
        }
    }

    fn context(&self) -> Context<'static, 'static> {
        let mut context = Context::default();
        context.add_variable_from_value("schedule", self.schedule.as_str());
        context.add_variable_from_value("scheduled_at", self.scheduled_at.as_str());
        context.add_variable_from_value("scheduled_at_ms", self.scheduled_at_ms);
        context.add_variable_from_value("run", self.run);
        context
    }
}

fn compile(text: &str) -> Result<Program, String> {
    Program::compile(text).map_err(|it| wrong(text, &it.to_string()))
}

fn wrong(text: &str, problem: &str) -> String {
    format!("expression {text:?}: {problem}")
}

/// On a thread with a stack that is deep enough for whatever passes the guards. A panic there is an error here.
fn apart<T: Send + 'static>(work: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    let thread = thread::Builder::new().name("expression".to_owned()).stack_size(STACK_BYTES).spawn(work);
    let thread = thread.map_err(|it| format!("no thread for an expression: {it}"))?;
    thread.join().unwrap_or_else(|_| Err("an expression could not be evaluated".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> Result<String, String> {
        let variables = Variables { schedule: "digest", scheduled_at: Millis(1_800_000_000_250), run: 7 };
        fill(text, &variables)
    }

    #[test]
    fn a_payload_without_an_expression_comes_back_letter_for_letter() {
        for text in ["1.0", r#"{"b": 1e2,  "a":"\u0041"}"#, r#"["expr", {"expr": "1 + 1"}]"#, r#""$expr""#] {
            assert_eq!(filled(text).unwrap(), text);
        }
    }

    #[test]
    fn every_expression_is_replaced_by_its_value() {
        let text = r#"{"at": {"$expr": "scheduled_at"}, "n": [{"$expr": "run + 1"}, {"deep": {"$expr": "schedule"}}],
            "ms": {"$expr": "scheduled_at_ms"}, "map": {"$expr": "{'x': [1, true, null]}"}, "plain": 1}"#;
        let wanted = serde_json::json!({
            "at": "2027-01-15T08:00:00.250Z", "n": [8, {"deep": "digest"}], "ms": 1_800_000_000_250_i64,
            "map": {"x": [1, true, null]}, "plain": 1
        });
        assert_eq!(serde_json::from_str::<Value>(&filled(text).unwrap()).unwrap(), wanted);
        assert_eq!(filled(r#"{"$expr": "run % 2 == 1 ? 'odd' : 'even'"}"#).unwrap(), r#""odd""#);
    }

    #[test]
    fn what_cannot_be_read_or_has_no_value_says_which_expression() {
        for text in ["nonsense", "1 +", "run.x.y", "1 / 0", "unknown(1)"] {
            let payload = serde_json::json!({ "$expr": text }).to_string();
            let problem = check(&payload).unwrap_err();
            assert!(problem.contains(text), "{text}: {problem}");
        }
        assert!(check(r#"{"$expr": 1}"#).is_err() && check(r#"{"$expr": "1", "other": 2}"#).is_err());
    }

    #[test]
    fn what_would_take_too_much_never_reaches_the_parser() {
        let refused = |text: String| check(&serde_json::json!({ "$expr": text }).to_string()).unwrap_err();
        assert!(refused("1 + ".repeat(300) + "1").contains("bytes"));
        assert!(refused("(".repeat(21) + "1").contains("brackets"));
        assert!(refused("[".repeat(200)).contains("brackets"));
        assert!(refused("!".repeat(3) + "true").contains("signs"));
        assert!(refused("! ! ! true".to_owned()).contains("signs"));
        assert!(refused("[1].map(a, [1].map(b, [1].map(c, c)))".to_owned()).contains("lists"));
        let many: Vec<Value> = (0..101).map(|_| serde_json::json!({"$expr": "1"})).collect();
        assert!(check(&serde_json::json!(many).to_string()).unwrap_err().contains("101"));
    }

    /// As published against the parser: brackets and exclamation marks in turn, and nesting that ends in a mistake.
    #[test]
    fn the_known_ways_to_drive_the_parser_mad_end_soon() {
        let ways =
            ["[!".repeat(60), "{[!".repeat(40), "((((((((((((((((((((".to_owned(), "[".repeat(20) + "!!1"];
        for way in ways {
            assert!(check(&serde_json::json!({ "$expr": way }).to_string()).is_err(), "{way}");
        }
        // The parser has a bound of its own too: what passes the guards is read or refused, and ends.
        let nested = |depth: usize| {
            let text = format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
            filled(&serde_json::json!({ "$expr": text }).to_string())
        };
        assert_eq!(nested(3).unwrap(), "1");
        drop(nested(20));
    }
}
