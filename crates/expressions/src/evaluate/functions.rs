//! The functions that expressions may call: those of CEL but for time, `optional` and protocol buffers.

use super::{Evaluator, count, no_overload_of};
use crate::{
    error::Mistake,
    tree::{ExpressionNode, FunctionCall},
    value::Value,
};

/// All of them, for the callers which there are.
pub(crate) const NAMES: [&str; 12] = [
    "bool",
    "bytes",
    "contains",
    "double",
    "dyn",
    "endsWith",
    "int",
    "matches",
    "size",
    "startsWith",
    "string",
    "uint",
];
const TYPES: [&str; 10] =
    ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"];

/// The meaning of a type's name if no variable has it.
pub(crate) fn type_named(name: &str) -> Option<&'static str> {
    TYPES.into_iter().find(|kind| *kind == name)
}

pub(crate) fn is_known(function: &str) -> bool {
    function == "type" || NAMES.contains(&function)
}

impl<'a> Evaluator<'a> {
    pub(super) fn call(&mut self, node: &ExpressionNode, call: &'a FunctionCall) -> Result<Value, Mistake> {
        if !is_known(&call.function) {
            return Err(Self::wrong(node, unknown(&call.function)));
        }
        let mut args = Vec::with_capacity(call.args.len() + 1);
        for arg in call.target.iter().chain(&call.args) {
            args.push(self.value(arg)?);
        }
        let is_member = call.target.is_some();
        match (&*call.function, args.as_slice(), is_member) {
            ("size", [of], _) => self.size(node, of),
            ("contains" | "startsWith" | "endsWith", [Value::String(text), Value::String(part)], true) => {
                let looked_at = if &*call.function == "contains" { text.len() } else { 0 };
                self.reads(node, part.len().saturating_add(looked_at))?;
                Ok(Value::Bool(match &*call.function {
                    "contains" => text.contains(&**part),
                    "startsWith" => text.starts_with(&**part),
                    _ => text.ends_with(&**part),
                }))
            }
            ("matches", [Value::String(text), Value::String(pattern)], _) => {
                self.matches(node, text, pattern).map(Value::Bool)
            }
            ("type", [of], false) => Ok(Value::Type(of.type_name())),
            ("dyn", [of], false) => Ok(of.clone()),
            ("bool" | "bytes" | "double" | "int" | "string" | "uint", [of], false) => {
                self.converted(node, &call.function, of)
            }
            (function, args, _) => {
                let types: Vec<&str> = args.iter().map(Value::type_name).collect();
                Err(Self::wrong(node, no_overload_of(&format!("{function}()"), &types)))
            }
        }
    }

    fn size(&mut self, node: &ExpressionNode, of: &Value) -> Result<Value, Mistake> {
        let size = match of {
            Value::String(text) => {
                self.reads(node, text.len())?;
                text.chars().count()
            }
            Value::Bytes(bytes) => bytes.len(),
            Value::List(items) => items.len(),
            Value::Map(map) => map.len(),
            other => return Err(Self::wrong(node, no_overload_of("size()", &[other.type_name()]))),
        };
        Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX)))
    }

    fn converted(&mut self, node: &ExpressionNode, function: &str, of: &Value) -> Result<Value, Mistake> {
        let made = match (function, of) {
            ("bytes", Value::String(text)) => {
                self.makes(node, count(text.len()))?;
                Some(Value::Bytes(text.as_bytes().into()))
            }
            ("string", Value::Bytes(bytes)) => {
                self.makes(node, count(bytes.len()))?;
                std::str::from_utf8(bytes).ok().map(Value::from)
            }
            ("string", Value::Decimal(decimal)) => {
                self.makes(node, count(decimal.text().len()))?;
                Some(decimal.text().into())
            }
            ("string", Value::Int(_) | Value::UInt(_) | Value::Double(_) | Value::Bool(_)) => {
                let text = text_of(of);
                self.makes(node, count(text.len()))?;
                Some(text.into())
            }
            ("bool", Value::Bool(_)) | ("bytes", Value::Bytes(_)) | ("string", Value::String(_)) => {
                Some(of.clone())
            }
            ("bool", Value::String(text)) => match &**text {
                "true" | "True" | "TRUE" | "t" | "1" => Some(true.into()),
                "false" | "False" | "FALSE" | "f" | "0" => Some(false.into()),
                _ => None,
            },
            ("int" | "uint" | "double", Value::String(text)) => {
                self.reads(node, text.len())?;
                read_number(function, text)
            }
            (
                "int" | "uint" | "double",
                Value::Int(_) | Value::UInt(_) | Value::Double(_) | Value::Decimal(_),
            ) => of_number(function, of),
            _ => {
                let problem = no_overload_of(&format!("{function}()"), &[of.type_name()]);
                return Err(Self::wrong(node, problem));
            }
        };
        made.ok_or_else(|| Self::wrong(node, format!("{of} is no {function}")))
    }
}

pub(crate) fn unknown(function: &str) -> String {
    format!("there is no function {function:?}; there are {}", NAMES.join(", "))
}

/// Only for values with short texts.
fn text_of(value: &Value) -> String {
    match value {
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Double(number) => number.to_string(),
        Value::Bool(truth) => truth.to_string(),
        _ => String::new(),
    }
}

fn read_number(function: &str, text: &str) -> Option<Value> {
    match function {
        "int" => text.parse().ok().map(Value::Int),
        "uint" => text.parse().ok().map(Value::UInt),
        _ => text.parse().ok().map(Value::Double),
    }
}

/// Returns `None` if the number is out of the type's range.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "only what fits is converted")]
fn of_number(function: &str, of: &Value) -> Option<Value> {
    // The first numbers that do not fit, both of which are doubles to the last digit.
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;
    let double = of.double();
    match (function, of) {
        ("int", Value::Int(_))
        | ("uint", Value::UInt(_))
        | ("double", Value::Double(_) | Value::Decimal(_)) => Some(of.clone()),
        ("int", Value::UInt(number)) => i64::try_from(*number).ok().map(Value::Int),
        ("uint", Value::Int(number)) => u64::try_from(*number).ok().map(Value::UInt),
        ("double", Value::Int(number)) => Some(Value::Double(*number as f64)),
        ("double", Value::UInt(number)) => Some(Value::Double(*number as f64)),
        ("int", _) => double
            .filter(|double| (-TWO_TO_63..TWO_TO_63).contains(double))
            .map(|double| Value::Int(double as i64)),
        ("uint", _) => double
            .filter(|double| *double > -1.0 && *double < TWO_TO_64)
            .map(|double| Value::UInt(double as u64)),
        _ => None,
    }
}
