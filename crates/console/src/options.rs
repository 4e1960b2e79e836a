//! The server's options for the console. It reads no clock and no configuration of its own.

use axum::http::Extensions;
use punctual_protocol::Alert;
use std::{fmt, pin::Pin, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// Waits until a session's token is refused.
pub type UntilRefused = Arc<dyn Fn(Option<String>) -> Waiting + Send + Sync>;
pub type Waiting = Pin<Box<dyn Future<Output = ()> + Send>>;
/// Identifies the caller of a token, with its present permissions, as one text. `None` if the API would not accept
/// the token. Waits for nothing.
pub type Identify = Arc<dyn Fn(Option<&str>) -> Option<String> + Send + Sync>;
/// The engine's view for a session's token. Waits for nothing.
pub type WithoutStore = Arc<dyn Fn(Option<&str>) -> EngineView + Send + Sync>;

/// The engine's knowledge without a database, as far as a token may see it.
#[derive(Clone, Debug, Default)]
pub struct EngineView {
    pub databases: usize,
    /// Databases that do not answer, by number.
    pub databases_away: Vec<usize>,
    /// The failures of the last tries.
    pub problems: Vec<String>,
    /// Label and text, of the engine itself.
    pub facts: Vec<(&'static str, String)>,
    pub started_at_ms: Option<i64>,
    pub alerts: Vec<Alert>,
}

impl EngineView {
    /// Some databases answer: a page may be right but for a part.
    pub(crate) const fn is_partly_away(&self) -> bool {
        self.databases > 1 && self.databases_away.len() < self.databases
    }
}

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
    /// Waits until the API would no longer accept this token. `None` waits until the API needs a token.
    pub until_refused: UntilRefused,
    /// Live pages at once; one more is shown without being live.
    pub streams_max: usize,
    /// The maximum of one token.
    pub streams_of_one_max: usize,
    pub identify: Identify,
    pub without_store: WithoutStore,
    /// A page that takes longer is answered with its last rendering.
    pub patience: Duration,
}

/// The default of [`Options::patience`].
pub const PATIENCE: Duration = Duration::from_secs(1);

impl Options {
    /// The options with these defaults, and nothing carried over; 1,000 live pages, 50 of them of one token. No token
    /// is identified, so that no page is stored.
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
            identify: Arc::new(|_| None),
            without_store: Arc::new(|_| EngineView::default()),
            patience: PATIENCE,
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
