//! The dispatcher of webhook queues: an executor inside the engine that leases their tasks and delivers each by a signed
//! HTTP request. Knows no engine: tasks come from a [`TaskSource`], whose leases are those of all executors.
//!
//! # The order of steps, and what a crash between any two leaves
//!
//! 1. `lease`: the store has the attempt, its fence and the end of its lease. Crash: no request was sent. The lease ends,
//!    and the next attempt begins.
//! 2. `send`: the request is sent once for a lease, with the id `ref.attempt`. Crash: the receiver may have handled it. The
//!    lease ends, and the next attempt is sent with its own id. A task is delivered at least once.
//! 3. `record`: the answer becomes the outcome of the attempt. A lost answer of the store: it is recorded again, until it is
//!    accepted or stale. Crash: as after step 2.
//! 4. After 202: the lease is extended once, and the receiver reports the outcome with the token. Crash before: the lease
//!    ends as after step 2, and the receiver's outcome is stale.
//! 5. After 410: the queue is paused, and then the attempt is postponed, so that it does not count. Crash between: the queue
//!    is paused, and the attempt counts.
//!
//! Leases decide which engine delivers. An engine that stops reports what it has begun, and postpones attempts that take
//! longer than its time: their next request has the same id.
//!
//! # What does not stop others
//!
//! Each queue has deliveries and waits of its own. A host that does not answer holds back only queues that are delivered to
//! it ([`breaker`]).

mod breaker;
mod client;
mod delivery;
mod guard;
mod numbers;
mod request;
mod runner;
mod signature;
mod source;

pub use guard::{checked_header, checked_url};
pub use numbers::{DELIVERY_BOUNDS_MS, DeliveryNumbers, DeliveryResult};
pub use runner::{Dispatcher, PERIOD};
pub use signature::checked_secrets;
pub use source::{HeldLease, LeaseState, LeaseTerms, RecordState, TaskSource, WebhookQueue};
