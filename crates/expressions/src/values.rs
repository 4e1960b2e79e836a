//! Values between JSON and expressions. Whole numbers stay whole, and signed: `input.n + 1` is a sum.

use cel::objects::Key;
use serde_json::{Map, Number, Value};
use std::collections::HashMap;

/// Longest value of an expression, and of all of one payload, in bytes of JSON.
pub(crate) const TEXT_MAX_BYTES: usize = 1 << 20;
/// Of a number, a bracket, a comma.
const SMALL_BYTES: usize = 8;

pub(crate) fn of_json(it: &Value) -> cel::Value {
    match it {
        Value::Null => cel::Value::Null,
        Value::Bool(it) => cel::Value::Bool(*it),
        Value::Number(it) => match (it.as_i64(), it.as_u64()) {
            (Some(it), _) => cel::Value::Int(it),
            (None, Some(it)) => cel::Value::UInt(it),
            (None, None) => cel::Value::Float(it.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(it) => it.as_str().into(),
        Value::Array(all) => cel::Value::List(all.iter().map(of_json).collect::<Vec<_>>().into()),
        Value::Object(all) => {
            let entries: HashMap<Key, cel::Value> =
                all.iter().map(|(name, it)| (Key::from(name.clone()), of_json(it))).collect();
            cel::Value::Map(cel::objects::Map { map: entries.into() })
        }
    }
}

/// `left`: bytes that it may have, and that are left afterwards.
pub(crate) fn to_json(it: &cel::Value, left: &mut usize) -> Result<Value, String> {
    spend(left, SMALL_BYTES)?;
    Ok(match it {
        cel::Value::List(all) => {
            Value::Array(all.iter().map(|it| to_json(it, left)).collect::<Result<_, _>>()?)
        }
        cel::Value::Map(all) => {
            let mut object = Map::new();
            for (key, it) in all.map.iter() {
                let name = key.to_string();
                spend(left, name.len())?;
                object.insert(name, to_json(it, left)?);
            }
            Value::Object(object)
        }
        cel::Value::String(it) => {
            spend(left, it.len())?;
            Value::String(it.as_str().to_owned())
        }
        cel::Value::Int(it) => (*it).into(),
        cel::Value::UInt(it) => (*it).into(),
        cel::Value::Float(it) => Number::from_f64(*it).map_or(Value::Null, Value::Number),
        cel::Value::Bool(it) => (*it).into(),
        cel::Value::Null => Value::Null,
        other => {
            if let cel::Value::Bytes(it) = other {
                spend(left, it.len().saturating_mul(2))?;
            }
            other.json().map_err(|it| it.to_string())?
        }
    })
}

fn spend(left: &mut usize, bytes: usize) -> Result<(), String> {
    *left =
        left.checked_sub(bytes).ok_or_else(|| format!("its value is longer than {TEXT_MAX_BYTES} bytes"))?;
    Ok(())
}

pub(crate) fn longest_list(it: &Value) -> usize {
    match it {
        Value::Array(all) => all.iter().map(longest_list).max().unwrap_or(0).max(all.len()),
        Value::Object(all) => all.values().map(longest_list).max().unwrap_or(0).max(all.len()),
        _ => 0,
    }
}
