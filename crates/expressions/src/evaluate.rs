//! The value of a tree, and its cost. Each operation, call, field, index and item of a list is one step;
//! texts that are compared or searched cost another for each 256 bytes. Cheaper operations are glances:
//! names, literals, parts of `&&` and `||`, and names of macro variables that are skipped in a look-up. Four
//! glances are included in each step; of the others, eight cost a step. Results count their bytes before they
//! are made: a text its length, an item of a list or an entry of a map 24. Nothing here reads a clock, and
//! nothing takes time or memory that is not counted.

mod compare;
pub(crate) mod functions;
mod matches;

use crate::{
    budget::{Budget, Exceeded},
    error::{Mistake, Why},
    tree::{ExpressionNode, Kind, Operator, Over, Walk},
    value::{Map, MapKey, VALUE_BYTES, Value},
};
use matches::Pattern;
use std::sync::Arc;

/// Bytes that are read in one step.
const BYTES_READ_PER_STEP: usize = 256;
/// Glances included in each step, and how many of the others cost one.
const GLANCES_WITH_A_STEP: u64 = 4;
const GLANCES_PER_STEP: u64 = 8;

pub(crate) type Bound<'a> = &'a [(&'static str, Value)];

pub(crate) struct Evaluator<'a> {
    /// Meanings of names; later ones take precedence.
    variables: [Bound<'a>; 2],
    /// Names of the walks around, the innermost last.
    items: Vec<(&'a str, Value)>,
    budget: &'a mut Budget,
    patterns: Vec<Pattern>,
    /// Glances that are not counted yet.
    glances: u64,
}

/// Converts from `usize`: no supported machine has more bits.
pub(crate) fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

impl<'a> Evaluator<'a> {
    pub(crate) const fn new(variables: [Bound<'a>; 2], budget: &'a mut Budget) -> Self {
        Self { variables, items: Vec::new(), budget, patterns: Vec::new(), glances: 0 }
    }

    fn wrong(node: &ExpressionNode, problem: impl Into<String>) -> Mistake {
        Mistake::new(node.at.into(), node.end.into(), problem)
    }

    fn exceeded(node: &ExpressionNode, exceeded: Exceeded) -> Mistake {
        Mistake { at: node.at.into(), end: node.end.into(), why: Why::Exceeded(exceeded) }
    }

    fn steps(&mut self, node: &ExpressionNode, steps: u64) -> Result<(), Mistake> {
        self.glances = self.glances.saturating_sub(steps.saturating_mul(GLANCES_WITH_A_STEP));
        self.budget.spend_steps(steps).map_err(|problem| Self::exceeded(node, problem))
    }

    /// Counts an operation that takes much less time than a step, `times` times.
    fn glances(&mut self, node: &ExpressionNode, times: usize) -> Result<(), Mistake> {
        self.glances = self.glances.saturating_add(count(times));
        if self.glances < GLANCES_PER_STEP {
            return Ok(());
        }
        let steps = self.glances / GLANCES_PER_STEP;
        self.glances %= GLANCES_PER_STEP;
        self.budget.spend_steps(steps).map_err(|problem| Self::exceeded(node, problem))
    }

    /// Counts text that is read, in addition to the step that reads it.
    fn reads(&mut self, node: &ExpressionNode, bytes: usize) -> Result<(), Mistake> {
        match bytes / BYTES_READ_PER_STEP {
            0 => Ok(()),
            steps => self.steps(node, count(steps)),
        }
    }

    /// Counts a binary search: the number of keys that are compared with this one.
    fn finds(&mut self, node: &ExpressionNode, key: &MapKey, entries: usize) -> Result<(), Mistake> {
        let halvings = entries.checked_ilog2().unwrap_or(0).saturating_add(1);
        self.reads(node, key.bytes().saturating_mul(usize::try_from(halvings).unwrap_or(usize::MAX)))
    }

    fn makes(&mut self, node: &ExpressionNode, bytes: u64) -> Result<(), Mistake> {
        self.budget.spend_bytes(bytes).map_err(|problem| Self::exceeded(node, problem))
    }

    fn makes_items(&mut self, node: &ExpressionNode, items: usize) -> Result<(), Mistake> {
        self.makes(node, count(items).saturating_mul(VALUE_BYTES))
    }

    pub(crate) fn value(&mut self, node: &'a ExpressionNode) -> Result<Value, Mistake> {
        match &node.kind {
            Kind::Literal(value) => {
                self.glances(node, 1)?;
                return Ok(value.clone());
            }
            Kind::Name(name) => return self.named(node, name),
            _ => self.steps(node, 1)?,
        }
        match &node.kind {
            Kind::Literal(_) | Kind::Name(_) => Ok(Value::Null),
            Kind::Select(of, field) => {
                let of = self.value(of)?;
                Self::field(node, &of, field)?.cloned().ok_or_else(|| Self::no_such_key(node, field))
            }
            Kind::Has(of, field) => {
                let of = self.value(of)?;
                Self::field(node, &of, field).map(|field| field.is_some().into())
            }
            Kind::Index(parts) => self.indexed(node, parts),
            Kind::Call(call) => self.call(node, call),
            Kind::Not(of) => self.truth(of).map(|truth| (!truth).into()),
            Kind::Negate(of) => self.negated(node, of),
            Kind::Binary(operator, parts) => self.binary(node, *operator, parts),
            Kind::And(parts) => self.joined(parts, false),
            Kind::Or(parts) => self.joined(parts, true),
            Kind::Conditional(parts) => {
                let [condition, then, otherwise] = &**parts;
                if self.truth(condition)? { self.value(then) } else { self.value(otherwise) }
            }
            Kind::List(items) => {
                self.steps(node, count(items.len()))?;
                self.makes_items(node, items.len())?;
                items.iter().map(|item| self.value(item)).collect::<Result<_, _>>().map(Value::list)
            }
            Kind::Map(entries) => self.map(node, entries),
            Kind::Walk(walk) => self.walk(node, walk),
        }
    }

    fn named(&mut self, node: &ExpressionNode, name: &str) -> Result<Value, Mistake> {
        let place = self.items.iter().rev().position(|(item, _)| *item == name);
        self.glances(node, place.unwrap_or(self.items.len()).saturating_add(1))?;
        let item = place.and_then(|place| self.items.iter().rev().nth(place)).map(|(_, value)| value);
        let variable = || {
            let mut all = self.variables.iter().rev().flat_map(|variable| variable.iter());
            all.find(|(text, _)| *text == name).map(|(_, value)| value)
        };
        match item.or_else(variable) {
            Some(value) => Ok(value.clone()),
            None => functions::type_named(name)
                .map(Value::Type)
                .ok_or_else(|| Self::wrong(node, format!("there is no variable {name:?}"))),
        }
    }

    fn no_such_key(node: &ExpressionNode, key: &str) -> Mistake {
        Self::wrong(node, format!("there is no key {}", Value::from(key)))
    }

    fn field<'v>(node: &ExpressionNode, of: &'v Value, field: &str) -> Result<Option<&'v Value>, Mistake> {
        match of {
            Value::Map(map) => Ok(map.field(field)),
            other => Err(Self::wrong(node, format!("a {} has no fields", other.type_name()))),
        }
    }

    fn indexed(&mut self, node: &ExpressionNode, parts: &'a [ExpressionNode; 2]) -> Result<Value, Mistake> {
        let [of, index] = parts;
        let (of, index) = (self.value(of)?, self.value(index)?);
        match &of {
            Value::List(items) => {
                let place = match &index {
                    Value::Int(nth) => usize::try_from(*nth).ok(),
                    Value::UInt(nth) => usize::try_from(*nth).ok(),
                    other => return Err(Self::wrong(node, no_overload("[]", &[&of, other]))),
                };
                let item = place.and_then(|place| items.get(place)).cloned();
                item.ok_or_else(|| {
                    Self::wrong(node, format!("there is no item {index} in a list of {}", items.len()))
                })
            }
            Value::Map(map) => {
                let key = index.key().ok_or_else(|| Self::wrong(node, no_overload("[]", &[&of, &index])))?;
                self.finds(node, &key, map.len())?;
                map.get(&key).cloned().ok_or_else(|| Self::no_such_key(node, &key.text()))
            }
            other => Err(Self::wrong(node, no_overload("[]", &[other, &index]))),
        }
    }

    fn truth(&mut self, node: &'a ExpressionNode) -> Result<bool, Mistake> {
        match self.value(node)? {
            Value::Bool(truth) => Ok(truth),
            other => Err(Self::wrong(node, format!("it gives {}, and not true or false", a(&other)))),
        }
    }

    /// `decides`: a part with this value determines the result, whatever the other parts are, even if they
    /// have no value.
    fn joined(&mut self, parts: &'a [ExpressionNode], decides: bool) -> Result<Value, Mistake> {
        let mut without_value = None;
        for part in parts {
            self.glances(part, 1)?;
            match self.truth(part) {
                Ok(truth) if truth == decides => return Ok(truth.into()),
                Ok(_) => {}
                Err(mistake) => keep(&mut without_value, mistake)?,
            }
        }
        without_value.map_or_else(|| Ok((!decides).into()), Err)
    }

    fn negated(&mut self, node: &ExpressionNode, of: &'a ExpressionNode) -> Result<Value, Mistake> {
        let value = self.value(of)?;
        match &value {
            Value::Int(number) => {
                number.checked_neg().map(Value::Int).ok_or_else(|| Self::wrong(node, OVERFLOW))
            }
            Value::Double(_) | Value::Decimal(_) => Ok(Value::Double(-value.double().unwrap_or(f64::NAN))),
            other => Err(Self::wrong(node, no_overload("-", &[other]))),
        }
    }

    fn map(
        &mut self,
        node: &ExpressionNode,
        entries: &'a [(ExpressionNode, ExpressionNode)],
    ) -> Result<Value, Mistake> {
        self.steps(node, count(entries.len()))?;
        self.makes_items(node, entries.len().saturating_mul(2))?;
        let mut made: Vec<(MapKey, Value)> = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let (of, value) = (self.value(key)?, self.value(value)?);
            let name = of.key();
            let name = name.ok_or_else(|| Self::wrong(key, format!("{} is no key of a map", a(&of))))?;
            self.finds(node, &name, entries.len())?;
            made.push((name, value));
        }
        let map = Map::of(made);
        if map.len() < entries.len() {
            return Err(Self::wrong(node, "a key is there twice"));
        }
        Ok(Value::Map(map.into()))
    }

    fn walk(&mut self, node: &ExpressionNode, walk: &'a Walk) -> Result<Value, Mistake> {
        let list = self.value(&walk.list)?;
        let length = match &list {
            Value::List(items) => items.len(),
            Value::Map(map) => map.len(),
            other => return Err(Self::wrong(&walk.list, format!("{} is no list", a(other)))),
        };
        let mut walked = Walked::default();
        for nth in 0..length {
            self.steps(node, 1)?;
            let item = match &list {
                Value::List(items) => items.get(nth).cloned(),
                Value::Map(map) => map.entries().get(nth).map(|(key, _)| key.value()),
                _ => None,
            };
            self.items.push((&walk.name, item.unwrap_or(Value::Null)));
            let is_decided = self.visited(node, walk, &mut walked);
            let item = self.items.pop().map_or(Value::Null, |(_, item)| item);
            if is_decided? == Visited::Wanted {
                self.makes_items(node, 1)?;
                walked.made.push(item);
            } else if walked.is_decided {
                break;
            }
        }
        if let Some(mistake) = walked.without_value.filter(|_| !walked.is_decided) {
            return Err(mistake);
        }
        Ok(match walk.over {
            Over::All => (!walked.is_decided).into(),
            Over::Exists => walked.is_decided.into(),
            Over::ExistsOne => (walked.hits == 1).into(),
            Over::Map | Over::Filter => Value::list(walked.made),
        })
    }

    /// One item of a walk, which the name of the walk means now.
    fn visited(
        &mut self,
        node: &ExpressionNode,
        walk: &'a Walk,
        walked: &mut Walked,
    ) -> Result<Visited, Mistake> {
        let truth = walk.condition.as_ref().map(|condition| self.truth(condition));
        match walk.over {
            Over::All | Over::Exists => match truth {
                Some(Ok(truth)) => walked.is_decided = truth == (walk.over == Over::Exists),
                Some(Err(mistake)) => keep(&mut walked.without_value, mistake)?,
                None => {}
            },
            Over::ExistsOne => walked.hits += u64::from(truth.transpose()?.unwrap_or(false)),
            Over::Filter => {
                return Ok(if truth.transpose()?.unwrap_or(false) {
                    Visited::Wanted
                } else {
                    Visited::Passed
                });
            }
            Over::Map => {
                if truth.transpose()?.unwrap_or(true)
                    && let Some(result) = &walk.result
                {
                    self.makes_items(node, 1)?;
                    let made = self.value(result)?;
                    walked.made.push(made);
                }
            }
        }
        Ok(Visited::Passed)
    }

    fn binary(
        &mut self,
        node: &ExpressionNode,
        operator: Operator,
        parts: &'a [ExpressionNode; 2],
    ) -> Result<Value, Mistake> {
        let [one, other] = parts;
        let (one, other) = (self.value(one)?, self.value(other)?);
        match operator {
            Operator::Equal => self.equal(node, &one, &other).map(Value::Bool),
            Operator::NotEqual => self.equal(node, &one, &other).map(|flag| (!flag).into()),
            Operator::In => self.is_in(node, &one, &other).map(Value::Bool),
            Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual => {
                let order = self.order(node, operator, &one, &other)?;
                let holds = match operator {
                    Operator::Less => order.is_some_and(std::cmp::Ordering::is_lt),
                    Operator::LessOrEqual => order.is_some_and(std::cmp::Ordering::is_le),
                    Operator::Greater => order.is_some_and(std::cmp::Ordering::is_gt),
                    _ => order.is_some_and(std::cmp::Ordering::is_ge),
                };
                Ok(holds.into())
            }
            Operator::Add => self.sum(node, &one, &other),
            Operator::Subtract | Operator::Multiply | Operator::Divide | Operator::Remainder => {
                reckoned(operator, &one, &other).map_err(|problem| Self::wrong(node, problem))
            }
        }
    }

    fn sum(&mut self, node: &ExpressionNode, one: &Value, other: &Value) -> Result<Value, Mistake> {
        match (one, other) {
            (Value::String(one), Value::String(other)) => {
                self.makes(node, count(one.len()).saturating_add(count(other.len())))?;
                let mut sum = String::with_capacity(one.len() + other.len());
                sum.push_str(one);
                sum.push_str(other);
                Ok(sum.into())
            }
            (Value::Bytes(one), Value::Bytes(other)) => {
                self.makes(node, count(one.len()).saturating_add(count(other.len())))?;
                Ok(Value::Bytes([&**one, &**other].concat().into()))
            }
            (Value::List(one), Value::List(other)) => {
                self.makes_items(node, one.len().saturating_add(other.len()))?;
                Ok(Value::List(Arc::new([one.as_slice(), other.as_slice()].concat())))
            }
            _ => reckoned(Operator::Add, one, other).map_err(|problem| Self::wrong(node, problem)),
        }
    }
}

#[derive(Default)]
struct Walked {
    is_decided: bool,
    without_value: Option<Mistake>,
    hits: u64,
    made: Vec<Value>,
}

#[derive(PartialEq, Eq)]
enum Visited {
    /// The item itself is part of the result.
    Wanted,
    Passed,
}

/// Keeps the first mistake of several parts, which is reported unless another part decides. An exhausted budget ends
/// the evaluation immediately.
fn keep(kept: &mut Option<Mistake>, mistake: Mistake) -> Result<(), Mistake> {
    if matches!(mistake.why, Why::Exceeded(_)) {
        return Err(mistake);
    }
    kept.get_or_insert(mistake);
    Ok(())
}

const OVERFLOW: &str = "the number is too large for its type";

/// Computes with numbers of one type; integers stay integers.
pub(crate) fn reckoned(operator: Operator, one: &Value, other: &Value) -> Result<Value, String> {
    let by_zero = matches!(operator, Operator::Divide | Operator::Remainder)
        && matches!(other, Value::Int(0) | Value::UInt(0));
    if by_zero && one.type_name() == other.type_name() {
        return Err("it is divided by zero".to_owned());
    }
    let whole = match (one, other) {
        (Value::Int(one), Value::Int(other)) => Some(
            match operator {
                Operator::Add => one.checked_add(*other),
                Operator::Subtract => one.checked_sub(*other),
                Operator::Multiply => one.checked_mul(*other),
                Operator::Divide => one.checked_div(*other),
                _ => one.checked_rem(*other),
            }
            .map(Value::Int),
        ),
        (Value::UInt(one), Value::UInt(other)) => Some(
            match operator {
                Operator::Add => one.checked_add(*other),
                Operator::Subtract => one.checked_sub(*other),
                Operator::Multiply => one.checked_mul(*other),
                Operator::Divide => one.checked_div(*other),
                _ => one.checked_rem(*other),
            }
            .map(Value::UInt),
        ),
        _ => None,
    };
    if let Some(whole) = whole {
        return whole.ok_or_else(|| OVERFLOW.to_owned());
    }
    let (Some(first), Some(second)) = (one.double(), other.double()) else {
        return Err(no_overload(operator.sign(), &[one, other]));
    };
    Ok(Value::Double(match operator {
        Operator::Add => first + second,
        Operator::Subtract => first - second,
        Operator::Multiply => first * second,
        Operator::Divide => first / second,
        _ => return Err(no_overload(operator.sign(), &[one, other])),
    }))
}

/// The message about a missing operation, with the remedy if two types of numbers meet.
pub(crate) fn no_overload(sign: &str, values: &[&Value]) -> String {
    let types: Vec<&str> = values.iter().map(|value| value.type_name()).collect();
    no_overload_of(sign, &types)
}

pub(crate) fn no_overload_of(sign: &str, types: &[&str]) -> String {
    let are_numbers = types.iter().all(|kind| ["int", "uint", "double"].contains(kind));
    let differ = types.iter().any(|kind| Some(kind) != types.first());
    let way_out = if are_numbers && differ { ": make them the same first, as in double(x)" } else { "" };
    format!("there is no {sign} for {}{way_out}", types.join(" and "))
}

/// A value, for a message.
fn a(value: &Value) -> String {
    format!("{value} ({})", value.type_name())
}
