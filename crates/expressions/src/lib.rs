//! Expressions (CEL) that users write: each `{"$expr": "..."}` in a payload is replaced by the expression's
//! value; and conditions. The code that evaluates them counts their cost (`Budget`). No other rule restricts
//! the text of an expression, except its length and its nesting. Reads and evaluates on the calling thread:
//! services call it on a thread of the pool (`Pool`), whose stack is deep enough.

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
