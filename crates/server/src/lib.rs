//! The REST interface: routes, problem documents, metrics and their documentation. Turns requests into calls of the
//! engine and its answers into JSON; it holds no rule of a task's life, and never opens a back end.

// How it is put together.
mod app;
mod listener;
mod options;
mod router;
mod serve;

// What every request passes.
pub mod access;
mod bodies;
mod bulk;
mod idempotency;
mod observe;
mod origin;
mod refusal;

// From the wire to the domain, and back.
mod answer;
mod ask;
mod cursor;
mod etag;
mod extract;
mod hash;
mod pages;

// The calls.
mod actions;
mod alerts;
mod audit;
mod cluster;
mod dead;
mod executors;
mod inboxes;
mod insert;
mod ledger;
mod lookup;
mod me;
mod namespaces;
mod queues;
mod reported;
mod reports;
mod roster;
mod schedules;
mod set_aside;
mod settings;
mod tokens;
mod waiting;
mod webhooks;
mod workflows;

// What operators look at.
mod console;
mod docs;
mod health;
mod log_filter;
pub mod metrics;
mod openapi;

pub use access::ClientAddress;
pub use docs::errors_page;
pub use inboxes::EngineIntake;
pub use listener::{TlsError, TlsFiles};
pub use log_filter::{Log, LogFilters};
pub use options::{ListenerOptions, ServerOptions};
pub use router::{document, router};
pub use serve::serve;
pub use tokens::access_tokens;
pub use webhooks::EngineTasks;
