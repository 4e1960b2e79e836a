//! The near future: in memory.
