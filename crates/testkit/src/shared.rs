//! What several engines in one process agree by: the hot set, owners and signals in memory, as strict as the contract allows. For
//! tests only: they end with the process, and so do engines that share a memory.

mod hot;
mod ownership;
mod signals;

pub use hot::{ENTRY_BYTES, SharedHot};
pub use ownership::MemoryOwnership;
pub use signals::{MemorySignals, SIGNALS_KEPT, SignalHub};
