//! The durable truth: embedded SQLite.
