//! Client and worker for users of Punctual: insert tasks, and run them when they fire.
//!
//! ```no_run
//! use punctual_sdk::{Client, InsertTask, Task, Worker, json};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::from_env()?; // PUNCTUAL_URL, PUNCTUAL_TOKEN, PUNCTUAL_CA_FILE; else http://127.0.0.1:7450
//! let (kind, payload) = (Some("welcome".into()), Some(json("ada")?));
//! let welcome = InsertTask { kind, payload, delay_ms: Some(1_500), ..InsertTask::new("mail") };
//! client.insert(&welcome).await?;
//!
//! Worker::new(client)
//!     .queue("mail")
//!     .concurrency(8)
//!     .handle("welcome", |task: Task| async move {
//!         let name: String = task.payload()?; // an error is a failed attempt, tried again by the retry policy
//!         Ok(format!("hello, {name}"))
//!     })
//!     .run()
//!     .await?;
//! # Ok(()) }
//! ```
//!
//! `https://` is spoken with rustls; `PUNCTUAL_CA_FILE` names an authority that the system does not know, and
//! `PUNCTUAL_CLIENT_CERT` with `PUNCTUAL_CLIENT_KEY` what is shown to a server that wants a client certificate.
//! That nothing runs early is the server's duty; the worker runs what it is handed at once.

// Calling the server.
mod backoff;
mod client;
mod error;
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
pub use handlers::{HandlerError, Handlers};
pub use task::{Control, Task};
pub use tokio_util::sync::CancellationToken;
pub use transport::{Call, Failure, Reply, Transport};
pub use worker::{Worked, Worker};

/// A payload of anything that can be serialised.
pub fn json<T: serde::Serialize + ?Sized>(value: &T) -> Result<protocol::Json, serde_json::Error> {
    protocol::Json::of(value)
}
