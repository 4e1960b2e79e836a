//! What an operator may set of the server, with its defaults. Sizes are bytes.

use punctual_protocol::limits;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Longest body of a request.
    pub batch_body_max_bytes: usize,
    /// Longest payload of a task, and longest result of an outcome: the text of JSON, or the decoded bytes.
    pub payload_max_bytes: usize,
    /// Follows that number where a payload is refused: what would let it pass.
    pub payload_advice: &'static str,
    /// How long the body of a request may take to arrive.
    pub body_timeout: Duration,
    /// Requests worked on at once, long polls not counted; more are answered with 429.
    pub in_flight_max: usize,
    /// How long an answer is kept under its idempotency key.
    pub keep_replies_ms: i64,
    /// How long a stopping server waits for requests that are under way.
    pub drain_timeout: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            batch_body_max_bytes: limits::REQUEST_BYTES_DEFAULT,
            payload_max_bytes: limits::PAYLOAD_BYTES_DEFAULT,
            payload_advice: "",
            body_timeout: Duration::from_secs(30),
            in_flight_max: 8_192,
            keep_replies_ms: 24 * 3_600_000,
            drain_timeout: Duration::from_secs(5),
        }
    }
}
