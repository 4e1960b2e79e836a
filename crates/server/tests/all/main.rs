//! The API as a client sees it, in process, over an engine in memory under a clock that the tests hold. Every answer of
//! every test is compared with the OpenAPI document: status, code and shape.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "what panics in a test fails it")]

mod document;
mod server;
mod world;

mod actions;
mod attack;
mod dead;
mod documentation;
mod errors;
mod executors;
mod failures;
mod idempotency;
mod identity;
mod insert;
mod ledger;
mod life;
mod lookup;
mod malformed;
mod metrics;
mod origin;
mod queues;
mod readable;
mod roster;
mod serving;
mod set_aside;
mod tls;
mod truth;
