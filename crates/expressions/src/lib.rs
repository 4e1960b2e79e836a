//! Expressions (CEL) that users write: wherever a payload has `{"$expr": "..."}`, the value of that expression stands; and
//! conditions. The parser was written by others: what could make it take too much is refused before it sees it, it runs on a
//! thread with a stack of its own, and nothing can loop over much.

mod guard;
mod names;
mod values;

pub use names::{Names, names_in_payload, names_of};

use cel::{Context, Program};
use guard::{guard, guard_text, loops};
use serde_json::{Map, Value};
use std::{collections::HashMap, thread};

const MARK: &str = "$expr";
/// Of the thread that reads and evaluates them.
const STACK_BYTES: usize = 16 << 20;
/// Longest list through which lists are walked within each other.
const NESTED_LIST_MAX: usize = 1_000;
/// Items of lists that the payloads of one call are walked through together: a second or two.
const STEPS_MAX: usize = 10_000_000;

/// What an expression may name, by name.
pub type Variables = Vec<(&'static str, Value)>;

/// The payload with every expression replaced; one without any comes back letter for letter.
///
/// # Errors
/// Which expression cannot be read, or has no value.
pub fn fill(text: &str, variables: Variables) -> Result<String, String> {
    fill_each(text, variables, vec![Variables::new()]).pop().unwrap_or_else(|| Ok(text.to_owned()))
}

/// The payload once for each of `own`, which it sees beside what is common to all.
#[must_use]
pub fn fill_each(text: &str, common: Variables, own: Vec<Variables>) -> Vec<Result<String, String>> {
    let count = own.len();
    let all_fail = |problem: &str| vec![Err(problem.to_owned()); count];
    let payload = match with_expressions(text) {
        Ok(None) => return vec![Ok(text.to_owned()); count],
        Ok(Some(payload)) => payload,
        Err(problem) => return all_fail(&problem),
    };
    let filled = apart(move || {
        let mut evaluator = Evaluator::new(common);
        Ok(own
            .into_iter()
            .map(|own| {
                evaluator.own = own;
                let mut payload = payload.clone();
                let mut left = values::TEXT_MAX_BYTES;
                replace(&mut payload, &mut |it| evaluator.value(it, &mut left))?;
                Ok(payload.to_string())
            })
            .collect())
    });
    filled.unwrap_or_else(|problem| all_fail(&problem))
}

/// The value of one expression.
///
/// # Errors
/// Why it cannot be read, or has none.
pub fn evaluate(text: &str, variables: Variables) -> Result<Value, String> {
    guard_text(text)?;
    let text = text.to_owned();
    apart(move || Evaluator::new(variables).value(&text, &mut { values::TEXT_MAX_BYTES }))
}

/// None: it has none.
fn with_expressions(text: &str) -> Result<Option<Value>, String> {
    if !text.contains(MARK) {
        return Ok(None);
    }
    let payload: Value = serde_json::from_str(text).map_err(|it| format!("is not JSON: {it}"))?;
    let count = guard(&payload)?;
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

/// Reads each expression once.
struct Evaluator {
    common: Vec<(&'static str, cel::Value)>,
    own: Variables,
    longest_list: usize,
    programs: HashMap<String, Program>,
    steps_left: usize,
}

impl Evaluator {
    fn new(common: Variables) -> Self {
        let longest_list = common.iter().map(|it| values::longest_list(&it.1)).max().unwrap_or(0);
        let common = common.iter().map(|it| (it.0, values::of_json(&it.1))).collect();
        Self { common, own: Variables::new(), longest_list, programs: HashMap::new(), steps_left: STEPS_MAX }
    }

    /// `bytes_left`: what values may still have.
    fn value(&mut self, text: &str, bytes_left: &mut usize) -> Result<Value, String> {
        let own = self.own.iter().map(|it| values::longest_list(&it.1)).max().unwrap_or(0);
        let (loops, longest) = (loops(text), own.max(self.longest_list).max(1));
        if loops > 1 && longest > NESTED_LIST_MAX {
            let problem =
                format!("it walks through lists more than once, and one is longer than {NESTED_LIST_MAX}");
            return Err(wrong(text, &problem));
        }
        let steps = longest.saturating_pow(u32::try_from(loops).unwrap_or(u32::MAX));
        let Some(left) = self.steps_left.checked_sub(steps) else {
            return Err(wrong(
                text,
                &format!("with those before it, it walks through more than {STEPS_MAX} items"),
            ));
        };
        self.steps_left = left;
        if !self.programs.contains_key(text) {
            self.programs.insert(text.to_owned(), compile(text)?);
        }
        let mut context = Context::default();
        for (name, value) in &self.common {
            context.add_variable_from_value(*name, value.clone());
        }
        for (name, value) in &self.own {
            context.add_variable_from_value(*name, values::of_json(value));
        }
        let Some(program) = self.programs.get(text) else { return Err(wrong(text, "it is gone")) };
        let value = program.execute(&context).map_err(|it| wrong(text, &it.to_string()))?;
        values::to_json(&value, bytes_left).map_err(|it| wrong(text, &it))
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
mod tests;
