//! Expressions (CEL) that users write: wherever a payload has `{"$expr": "..."}`, the value of that expression stands; and
//! conditions. What they may cost is counted by the code that evaluates them (`Budget`), and by nothing else: no rule here is about
//! what the text of an expression looks like, but for its length and how deep it is nested.
//! Reads and evaluates where it is called: those who serve others call it on a thread of the pool (`Pool`), whose stack is deep enough.

mod budget;
mod check;
mod error;
mod evaluate;
mod expression;
mod json;
mod names;
mod parse;
mod payload;
mod pool;
mod token;
mod tree;
mod value;

pub use budget::{
    BUDGET_CODE, Bound, Budget, EVALUATION_BYTES, EVALUATION_STEPS, Exceeded, REQUEST_BYTES, REQUEST_STEPS,
};
pub use error::Problem;
pub use expression::{Expression, Variables};
pub use json::read as read_json;
pub use names::Names;
pub use payload::Template;
pub use pool::{Pool, PoolLane, TimeSlice, Unavailable};
pub use value::{Decimal, Map, Value};

#[cfg(test)]
mod tests;
