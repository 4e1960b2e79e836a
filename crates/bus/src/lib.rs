//! Carries dispatched messages to executors: in memory, which is lost with its process, and on Redis Streams. The
//! leases in the store bring back what was lost under way.

mod error;
mod guard;
mod memory;
mod redis;

pub use self::redis::{RedisBus, RedisBusOptions};
pub use error::Error;
pub use guard::{Execution, Guard, GuardOptions, Taken};
pub use memory::MemoryBus;
