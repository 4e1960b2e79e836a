//! Tells a collector of OpenTelemetry (OTLP over HTTP, in protobuf or JSON) what became of tasks whose insert came with a sampled
//! `traceparent`: one trace from the caller's insert to the outcome. Everything in it is read from the task's history when the
//! task has ended, so that no step of a task's path knows of it or waits for it: what cannot be told is dropped and counted.

mod bus;
mod context;
mod exporter;
mod headers;
mod messages;
mod otlp;
mod spans;

pub use bus::TracedBus;
pub use context::TraceContext;
pub use exporter::{Options, Traces};
pub use headers::{headers, pairs};
pub use otlp::Protocol;
