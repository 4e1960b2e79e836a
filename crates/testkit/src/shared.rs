//! Coordination of several engines in one process: the hot set, ownership and signals in memory, as strict as
//! the contract allows. For tests only: they end with the process.

mod hot;
mod ownership;
mod signals;

pub use hot::{ENTRY_BYTES, SharedHot};
pub use ownership::MemoryOwnership;
pub use signals::{MemorySignals, SIGNALS_KEPT, SignalHub};
