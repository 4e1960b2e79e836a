//! Client and worker for users of Punctual: insert tasks, and run them when they fire.
//!
//! ```no_run
//! use punctual_sdk::{Client, Job, Worker};
//! use serde::{Deserialize, Serialize};
//! use std::time::Duration;
//!
//! #[derive(Serialize, Deserialize)]
//! struct Welcome {
//!     name: String,
//! }
//!
//! impl Job for Welcome {
//!     const QUEUE: &'static str = "mail";
//!     const KIND: &'static str = "welcome";
//! }
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::from_env()?; // PUNCTUAL_URL, PUNCTUAL_TOKEN, PUNCTUAL_CA_FILE; else http://127.0.0.1:7450
//! let welcome = Welcome { name: "ada".into() };
//! client.insert(&welcome.task()?.delay(Duration::from_millis(1_500))).await?;
//!
//! Worker::new(client)
//!     .concurrency(8)
//!     .job(|welcome: Welcome, _task| async move {
//!         Ok(format!("hello, {}", welcome.name)) // an error is a failed attempt, tried again by the retry policy
//!     })
//!     .run()
//!     .await?;
//! # Ok(()) }
//! ```
//!
//! Tasks without a type are built with [`NewTask`] and run by [`Worker::handle`]. `PUNCTUAL_URL` may name
//! several engines of one cluster, separated by commas; when one is unavailable, the next is used.
//!
//! `https://` uses rustls; `PUNCTUAL_CA_FILE` names an authority that the system does not know, and
//! `PUNCTUAL_CLIENT_CERT` with `PUNCTUAL_CLIENT_KEY` the certificate for a server that requires one. The
//! server ensures that nothing runs early; the worker runs its tasks immediately.

// Calling the server.
mod backoff;
mod client;
mod error;
#[cfg(any(feature = "sqlx", feature = "diesel"))]
pub mod inbox;
mod job;
mod new_task;
pub mod retry;
mod tls;
mod transport;

// Running tasks.
#[cfg(feature = "redis")]
pub mod bus;
mod handlers;
mod task;
mod worker;

/// The JSON of every call, and its limits.
pub use punctual_protocol as protocol;
pub use punctual_protocol::{InsertTask, PatchTask, SearchTasks};

pub use client::{Client, ClientBuilder, Synchronised, Vanished};
pub use error::{BatchError, Error};
pub use handlers::{HandlerError, Handlers, Next};
pub use job::Job;
pub use new_task::NewTask;
pub use task::{Control, Task};
pub use tokio_util::sync::CancellationToken;
pub use transport::{Failure, HttpRequest, Reply, Transport};
pub use worker::{Worked, Worker};

/// A payload of anything that can be serialised.
pub fn json<T: serde::Serialize + ?Sized>(value: &T) -> Result<protocol::Json, serde_json::Error> {
    protocol::Json::of(value)
}
