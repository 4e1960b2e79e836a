//! Equality and order of values, and membership. Each item that is examined is a step.

use super::{Evaluator, no_overload};
use crate::{
    error::Mistake,
    tree::{ExpressionNode, Operator},
    value::{Value, number_order},
};
use std::cmp::Ordering;

impl Evaluator<'_> {
    /// Values of different types are different; numbers are compared as numbers.
    pub(super) fn equal(
        &mut self,
        node: &ExpressionNode,
        one: &Value,
        other: &Value,
    ) -> Result<bool, Mistake> {
        match (one, other) {
            (Value::String(one), Value::String(other)) => Ok(one.len() == other.len() && {
                self.reads(node, one.len())?;
                one == other
            }),
            (Value::Bytes(one), Value::Bytes(other)) => Ok(one.len() == other.len() && {
                self.reads(node, one.len())?;
                one == other
            }),
            (Value::List(one), Value::List(other)) => {
                if one.len() != other.len() {
                    return Ok(false);
                }
                for (one, other) in one.iter().zip(other.iter()) {
                    self.steps(node, 1)?;
                    if !self.equal(node, one, other)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Value::Map(one), Value::Map(other)) => {
                if one.len() != other.len() {
                    return Ok(false);
                }
                for ((key, one), (other_key, other)) in one.entries().iter().zip(other.entries()) {
                    self.steps(node, 1)?;
                    self.reads(node, key.bytes())?;
                    if key != other_key || !self.equal(node, one, other)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            // Two numbers, or values that are compared in no time.
            _ => Ok(one == other),
        }
    }

    /// Returns `None` for NaN, which has no order.
    pub(super) fn order(
        &mut self,
        node: &ExpressionNode,
        operator: Operator,
        one: &Value,
        other: &Value,
    ) -> Result<Option<Ordering>, Mistake> {
        match (one, other) {
            (Value::Bool(one), Value::Bool(other)) => Ok(Some(one.cmp(other))),
            (Value::String(one), Value::String(other)) => {
                self.reads(node, one.len().min(other.len()))?;
                Ok(Some(one.cmp(other)))
            }
            (Value::Bytes(one), Value::Bytes(other)) => {
                self.reads(node, one.len().min(other.len()))?;
                Ok(Some(one.cmp(other)))
            }
            _ if is_number(one) && is_number(other) => Ok(number_order(one, other)),
            _ => Err(Self::wrong(node, no_overload(operator.sign(), &[one, other]))),
        }
    }

    pub(super) fn is_in(&mut self, node: &ExpressionNode, one: &Value, of: &Value) -> Result<bool, Mistake> {
        match of {
            Value::List(items) => {
                for item in items.iter() {
                    self.steps(node, 1)?;
                    if self.equal(node, one, item)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Value::Map(map) => {
                let key = one.key().ok_or_else(|| Self::wrong(node, no_overload("in", &[one, of])))?;
                self.finds(node, &key, map.len())?;
                Ok(map.get(&key).is_some())
            }
            other => Err(Self::wrong(node, no_overload("in", &[one, other]))),
        }
    }
}

const fn is_number(value: &Value) -> bool {
    matches!(value, Value::Int(_) | Value::UInt(_) | Value::Double(_) | Value::Decimal(_))
}
