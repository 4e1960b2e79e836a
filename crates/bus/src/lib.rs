//! Delivers dispatched messages to executors: in memory, where they are lost with the process, and on Redis
//! Streams. Leases in the store recover lost messages.

mod error;
mod guard;
mod memory;
mod redis;

pub use self::redis::{RedisBus, RedisBusOptions};
pub use error::Error;
pub use guard::{Execution, Guard, GuardOptions, Taken};
pub use memory::MemoryBus;
