//! Carries dispatched messages to executors: in memory.
