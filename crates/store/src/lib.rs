//! The durable truth. Decides nothing by itself: which move is legal stands in `domain::state`, and every
//! statement here is a file under `sql/` that a test holds against it.

mod error;
pub mod sqlite;

pub use error::Error;
pub use sqlite::{Options, SqliteStore};
