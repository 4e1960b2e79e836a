//! What must not reach the parser.

use super::{expression, wrong};
use serde_json::Value;

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

/// How many expressions a payload has.
pub(crate) fn guard(payload: &Value) -> Result<usize, String> {
    let mut count = 0;
    guard_value(payload, &mut count)?;
    if count > EXPRESSIONS_MAX {
        return Err(format!("has {count} expressions, and may have at most {EXPRESSIONS_MAX}"));
    }
    Ok(count)
}

fn guard_value(value: &Value, count: &mut usize) -> Result<(), String> {
    match value {
        Value::Array(all) => all.iter().try_for_each(|it| guard_value(it, count)),
        Value::Object(object) => match expression(object)? {
            Some(text) => {
                *count += 1;
                guard_text(text)
            }
            None => object.values().try_for_each(|it| guard_value(it, count)),
        },
        _ => Ok(()),
    }
}

pub(crate) fn guard_text(text: &str) -> Result<(), String> {
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
    if loops(text) > LOOPS_MAX {
        return Err(wrong(text, &format!("it walks through lists more than {LOOPS_MAX} times")));
    }
    Ok(())
}

/// How often it may walk through a list.
pub(crate) fn loops(text: &str) -> usize {
    ["all", "exists", "exists_one", "map", "filter", "transform"]
        .iter()
        .map(|name| text.matches(&format!(".{name}")).count())
        .sum()
}
