//! What the server gives the console. It reads no clock and no configuration of its own.

use axum::http::Extensions;
use std::{fmt, pin::Pin, sync::Arc};
use tokio_util::sync::CancellationToken;

/// Of the token that a session has.
pub type UntilRefused = Arc<dyn Fn(Option<String>) -> Waiting + Send + Sync>;
pub type Waiting = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Clone)]
pub struct Options {
    /// Epoch milliseconds.
    pub now_ms: Arc<dyn Fn() -> i64 + Send + Sync>,
    /// Copies what the API wants to know of the request that a call is made for: its peer's address.
    pub carry: fn(&Extensions, &mut Extensions),
    /// The server speaks TLS: cookies are for it alone.
    pub is_tls: bool,
    /// Ends live pages.
    pub shutdown: CancellationToken,
    /// Waits until the API would take this token no more; None: until it needs one.
    pub until_refused: UntilRefused,
    /// Live pages at once; one more is shown without being live.
    pub streams_max: usize,
    /// And of one token.
    pub streams_of_one_max: usize,
}

impl Options {
    /// With these, and nothing carried over; 1,000 live pages, 50 of them of one token.
    #[must_use]
    pub fn new(now_ms: Arc<dyn Fn() -> i64 + Send + Sync>) -> Self {
        Self {
            now_ms,
            carry: |_, _| {},
            is_tls: false,
            shutdown: CancellationToken::new(),
            until_refused: Arc::new(|_| Box::pin(std::future::pending())),
            streams_max: 1_000,
            streams_of_one_max: 50,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("is_tls", &self.is_tls)
            .field("streams_max", &self.streams_max)
            .finish_non_exhaustive()
    }
}
