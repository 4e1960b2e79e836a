//! Values of expressions. Cheap to clone: large values are shared. Numbers keep their digits while they are
//! only passed on.

use std::{cmp::Ordering, fmt, sync::Arc};

/// The bytes that one value counts in a list or a map, in addition to its text.
pub(crate) const VALUE_BYTES: u64 = 24;

#[derive(Clone, Debug)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Double(f64),
    /// A JSON number that no other variant represents exactly (`1.10`, 2⁷⁰): it keeps its text, and is
    /// computed with as a double.
    Decimal(Arc<Decimal>),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    List(Arc<Vec<Value>>),
    Map(Arc<Map>),
    /// The result of `type(x)`.
    Type(&'static str),
}

#[derive(Debug)]
pub struct Decimal {
    text: Box<str>,
    double: f64,
}

impl Decimal {
    /// Returns `None` if it is not a number.
    pub(crate) fn of(text: &str) -> Option<Self> {
        Some(Self { double: text.parse().ok()?, text: text.into() })
    }

    pub(crate) const fn text(&self) -> &str {
        &self.text
    }
}

/// The key of a map's entry. Numbers are equal in any representation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MapKey {
    Bool(bool),
    Whole(i128),
    Text(Arc<str>),
}

/// Entries in the order of their keys, so that each walk over them is the same.
#[derive(Clone, Debug, Default)]
pub struct Map(Vec<(MapKey, Value)>);

impl Map {
    /// Builds a map. Of several entries with one key, the last counts. Sorted in `n · log n` steps.
    pub(crate) fn of(mut entries: Vec<(MapKey, Value)>) -> Self {
        entries.reverse();
        entries.sort_by(|one, other| one.0.cmp(&other.0));
        entries.dedup_by(|one, other| one.0 == other.0);
        Self(entries)
    }

    pub(crate) fn get(&self, key: &MapKey) -> Option<&Value> {
        self.at(|this_key| this_key.cmp(key))
    }

    pub(crate) fn field(&self, name: &str) -> Option<&Value> {
        self.at(|key| match key {
            MapKey::Text(text) => text.as_ref().cmp(name),
            MapKey::Bool(_) | MapKey::Whole(_) => Ordering::Less,
        })
    }

    fn at(&self, order: impl Fn(&MapKey) -> Ordering) -> Option<&Value> {
        let place = self.0.binary_search_by(|(key, _)| order(key)).ok()?;
        self.0.get(place).map(|(_, value)| value)
    }

    pub(crate) fn entries(&self) -> &[(MapKey, Value)] {
        &self.0
    }

    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }
}

impl MapKey {
    pub(crate) fn value(&self) -> Value {
        match self {
            Self::Bool(truth) => Value::Bool(*truth),
            Self::Text(text) => Value::String(Arc::clone(text)),
            Self::Whole(number) => match (i64::try_from(*number), u64::try_from(*number)) {
                (Ok(number), _) => Value::Int(number),
                (Err(_), Ok(number)) => Value::UInt(number),
                // A key is made of a number that was one of them.
                (Err(_), Err(_)) => Value::Null,
            },
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Bool(_) | Self::Whole(_) => 0,
        }
    }

    /// The text of a key: in JSON keys are texts.
    pub(crate) fn text(&self) -> Arc<str> {
        match self {
            Self::Text(text) => Arc::clone(text),
            Self::Bool(truth) => truth.to_string().into(),
            Self::Whole(number) => number.to_string().into(),
        }
    }
}

impl Value {
    /// Builds a map from entries with text keys.
    #[must_use]
    pub fn map(entries: impl IntoIterator<Item = (String, Self)>) -> Self {
        let entries = entries.into_iter().map(|(name, value)| (MapKey::Text(name.into()), value));
        Self::Map(Map::of(entries.collect()).into())
    }

    #[must_use]
    pub fn list(items: Vec<Self>) -> Self {
        Self::List(items.into())
    }

    pub(crate) fn key(&self) -> Option<MapKey> {
        match self {
            Self::Bool(truth) => Some(MapKey::Bool(*truth)),
            Self::Int(number) => Some(MapKey::Whole((*number).into())),
            Self::UInt(number) => Some(MapKey::Whole((*number).into())),
            Self::String(text) => Some(MapKey::Text(Arc::clone(text))),
            _ => None,
        }
    }

    pub(crate) fn double(&self) -> Option<f64> {
        match self {
            Self::Double(number) => Some(*number),
            Self::Decimal(decimal) => Some(decimal.double),
            _ => None,
        }
    }

    pub(crate) const fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::UInt(_) => "uint",
            Self::Double(_) | Self::Decimal(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Type(_) => "type",
        }
    }
}

/// Compares values, for tests and trees of expressions: nothing is counted here.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::List(one), Self::List(other)) => one == other,
            (Self::Map(one), Self::Map(other)) => one.0 == other.0,
            (Self::Null, Self::Null) => true,
            (Self::Bool(one), Self::Bool(other)) => one == other,
            (Self::Type(one), Self::Type(other)) => one == other,
            (Self::String(one), Self::String(other)) => one == other,
            (Self::Bytes(one), Self::Bytes(other)) => one == other,
            _ => number_order(self, other) == Some(Ordering::Equal),
        }
    }
}

/// The order of two numbers: integers exactly, others as doubles. `None` if one is NaN, or not a number.
pub(crate) fn number_order(one: &Value, other: &Value) -> Option<Ordering> {
    match (whole(one), whole(other)) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        (Some(one), None) => whole_and_double(one, other.double()?),
        (None, Some(other)) => whole_and_double(other, one.double()?).map(Ordering::reverse),
        (None, None) => one.double()?.partial_cmp(&other.double()?),
    }
}

fn whole(value: &Value) -> Option<i128> {
    match value {
        Value::Int(number) => Some((*number).into()),
        Value::UInt(number) => Some((*number).into()),
        _ => None,
    }
}

/// Compares without rounding the integer: 2⁵³ + 1 is more than 2⁵³.
fn whole_and_double(whole: i128, double: f64) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "what is beyond saturates, far beyond any whole number"
    )]
    let floor = double.floor() as i128;
    let has_rest = double.floor() < double;
    Some(whole.cmp(&floor).then(if has_rest { Ordering::Less } else { Ordering::Equal }))
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Int(number.into())
    }
}

/// The maximum size of a value in messages.
const SHOWN_MAX_BYTES: usize = 60;

/// Shows the value as JSON, shortened, for messages. Takes the same time for any value.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(items) => write!(f, "a list of {}", items.len()),
            Self::Map(map) => write!(f, "an object of {}", map.len()),
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::String(text) if text.len() > SHOWN_MAX_BYTES => write!(f, "a text of {} bytes", text.len()),
            Self::Decimal(decimal) if decimal.text().len() > SHOWN_MAX_BYTES => f.write_str("a long number"),
            Self::Type(name) => f.write_str(name),
            other => match crate::json::write(other, SHOWN_MAX_BYTES * 8) {
                Ok(text) => f.write_str(&text),
                Err(_) => f.write_str(other.type_name()),
            },
        }
    }
}
