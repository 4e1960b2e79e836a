//! The near future: in memory. Keeps no payload, decides no state, and never outlives its process: whatever is
//! here can be rebuilt from the store.
//!
//! In reading order: `line` (entries in time order, found by id too), `slice` (one partition: due or firing, never
//! both), `ready` (what one queue's executors wait for), `names` (each queue's name once), `memory` (the whole).

mod line;
mod slice;

mod names;
mod ready;

mod memory;

pub use memory::{MemoryHot, Options};
