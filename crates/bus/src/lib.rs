//! Carries dispatched messages to executors: in memory. Lost with its process: the leases in the store bring
//! back what was under way.

mod memory;

pub use memory::MemoryBus;
