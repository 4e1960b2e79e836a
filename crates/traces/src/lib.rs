//! Sends traces to an OpenTelemetry collector (OTLP over HTTP, in protobuf or JSON) for tasks whose insert
//! had a sampled `traceparent`: one trace from the caller's insert to the outcome. It is built from the
//! task's history after its end, so that no step of a task's path knows of it or waits for it. Traces that
//! cannot be sent are dropped and counted.

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
