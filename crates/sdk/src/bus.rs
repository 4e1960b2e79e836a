//! A worker's source of tasks besides HTTP: the bus to which the engine publishes a queue's tasks, and the
//! guard that prevents a second execution of an attempt that was delivered twice. Heartbeats and outcomes are
//! still sent to the server: the bus decides nothing.
//!
//! ```no_run
//! use punctual_sdk::{Client, Task, Worker};
//! use punctual_sdk::bus::{BusSource, Guard, GuardOptions, RedisBus, RedisBusOptions};
//! use std::sync::Arc;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let url = "redis://127.0.0.1:6379";
//! // Each process that lives at the same time needs a name of its own.
//! let name = format!("mailer-{}", std::process::id());
//! let bus = RedisBus::connect(url, RedisBusOptions { consumer: name.clone(), ..Default::default() }).await?;
//! let guard = Guard::connect(url, GuardOptions { holder: name.clone(), ..Default::default() }).await?;
//! Worker::new(Client::from_env()?)
//!     .queue("mail")
//!     .executor(name)
//!     .from_bus(BusSource::new(Arc::new(bus)).guard(guard))
//!     .handle("welcome", |_: Task| async { Ok(()) })
//!     .run()
//!     .await?;
//! # Ok(()) }
//! ```

use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub use punctual_bus::{Error, Execution, Guard, GuardOptions, RedisBus, RedisBusOptions, Taken};
pub use punctual_contract::{Bus, Clock, bus::Delivery, store::Assignment};
pub use punctual_domain::time::Millis;

/// A bus, and how a worker receives from it.
#[derive(Clone, Debug)]
pub struct BusSource {
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) guard: Option<Arc<Guard>>,
    pub(crate) reclaim_after: Duration,
    pub(crate) clock: Arc<dyn Clock>,
}

impl BusSource {
    /// Creates a source without a guard.
    pub fn new(bus: Arc<dyn Bus>) -> Self {
        Self { bus, guard: None, reclaim_after: Duration::from_secs(30), clock: Arc::new(Wall) }
    }

    /// Asks it before each execution. A task about which it does not answer is not executed now, and is
    /// delivered again.
    #[must_use]
    pub fn guard(mut self, guard: Guard) -> Self {
        self.guard = Some(Arc::new(guard));
        self
    }

    /// Sets the time after its delivery at which a message that no worker has started is delivered to another worker:
    /// its worker has died. Default: 30 s.
    #[must_use]
    pub fn reclaim_after(mut self, after: Duration) -> Self {
        self.reclaim_after = after;
        self
    }

    /// The clock for the instants of deliveries; the machine's unless set. It may differ from the server's by
    /// some seconds.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }
}

/// The machine's clock.
#[derive(Debug)]
struct Wall;

impl Clock for Wall {
    #[expect(clippy::disallowed_methods, reason = "a worker's process is a composition root of its own")]
    fn now(&self) -> Millis {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn until(&self, at: Millis) -> Duration {
        Duration::from_millis(u64::try_from(at.since(self.now())).unwrap_or(0))
    }
}
