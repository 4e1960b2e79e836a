//! Names of the HTTP headers that mean something to Punctual, in lower case as HTTP/2 sends them.

/// Namespace of the call; `default` when absent.
pub const NAMESPACE: &str = "punctual-namespace";
/// Makes a POST safe to send again: the same key and body get the first answer.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// The W3C trace context. It is stored with the task and delivered to its executor.
pub const TRACEPARENT: &str = "traceparent";
