//! The dispatcher against receivers of every kind, good and hostile. Tasks come from a source in memory; the engine's own
//! path is tested in testkit.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod hmac;
mod receiver;
mod receivers;
mod source;
