//! The path of a task from insert to outcome, and its repair. Uses stores, hot sets and buses only by their
//! contracts; never opens one, never reads a clock of its own, and does not know HTTP.
//!
//! `pipeline/` follows the order of a task's path; `maintenance/` repairs the rest. Both share `core`, which
//! imports none of them, and neither does any `state` (ARCHITECTURE.md).

pub mod access;
mod account;
mod alerts;
mod answer;
mod arrivals;
mod attempts;
mod audit;
mod backends;
mod backlog;
mod callers;
mod caps;
mod clock;
mod cluster;
mod control;
mod core;
mod durability;
mod ends;
mod engine;
mod evaluations;
mod executors;
mod fired;
mod for_later;
mod health;
mod identity;
mod idle;
mod inboxes;
mod limits;
mod live;
mod manual;
mod meters;
mod namespaces;
mod options;
mod parts;
mod quota;
mod readiness;
mod search;
mod secret;
mod services;
mod settings;
mod shares;
mod supervisor;
mod webhooks;
mod work;

mod pipeline {
    //! The steps of a task, in order.
    pub(crate) mod intake;
    pub(crate) mod preload;
    pub(crate) mod room;

    pub(crate) mod drain;
    pub(crate) mod timer;

    pub(crate) mod admission_rules;
    pub(crate) mod admit;
    pub(crate) mod ahead;
    pub(crate) mod bounds;
    pub(crate) mod entry;
    pub(crate) mod filling;
    pub(crate) mod fire;
    pub(crate) mod firing_state;
    pub(crate) mod freed;
    pub(crate) mod granted;
    pub(crate) mod hand_over;
    pub(crate) mod hot_set_monitor;
    pub(crate) mod kinds;
    pub(crate) mod line;
    pub(crate) mod push;
    pub(crate) mod refill;
    pub(crate) mod remote_tasks;
    pub(crate) mod scan;
    pub(crate) mod slots;
    pub(crate) mod store_drain;
    pub(crate) mod store_fallback;
    pub(crate) mod unknown;

    pub(crate) mod outcome;
    pub(crate) mod request;
}

mod change;
mod long_payloads;
mod redrive;
mod why;

mod sharing {
    //! How engines share a store and a hot set: who should own what, what this engine holds, how it joins and
    //! leaves, and which signals they exchange.
    pub(crate) mod rendezvous;

    pub(crate) mod alone;
    pub(crate) mod database_reachability;
    pub(crate) mod holdings;
    pub(crate) mod own;
    pub(crate) mod self_check;
    pub(crate) mod state;
    pub(crate) mod step_aside;
    pub(crate) mod terms;

    pub(crate) mod adopt;

    pub(crate) mod announce;
    pub(crate) mod listen;
    pub(crate) mod remote_demand;
}

mod maintenance {
    //! Repairs tasks that the pipeline left behind.
    pub(crate) mod compensate;
    pub(crate) mod deletion;
    pub(crate) mod expire;
    pub(crate) mod expired_leases;
    pub(crate) mod index;
    pub(crate) mod mark_ready;
    pub(crate) mod overdue;
    pub(crate) mod reconcile;
    pub(crate) mod retention;
    pub(crate) mod state;
    pub(crate) mod unused;
}

pub use account::state::Account;
pub use alerts::state::{Alert, AlertKind};
pub use answer::{Cancelled, Changed, Deleted, Error, Reported};
pub use attempts::{AttemptEnd, Outcomes, Processing};
pub use backends::{Backends, SharedBackends};
pub use caps::state::{Closed, Full, QueueRefused, Refused, TooManyBytes};
pub use change::revoke::TakenBack;
pub use clock::{MachineClocks, Reading, TrustedClock, Witness};
pub use control::{Put, Stood};
pub use engine::{Depth, Engine, run_once::EngineRun};
pub use evaluations::{Evaluating, EvaluationVerdict, NotEvaluated, SET_ASIDE_LOOK_MS, state::Probe};
pub use executors::state::Heartbeat;
pub use for_later::{record::Submission, state::JournalNumbers};
pub use maintenance::overdue::state::{OverduePartition, OverdueTask};
pub use meters::{
    HistogramBucket, LATENESS_BOUNDS_MS, Meters, ProcessMeters, QUEUES_REPORTED_SEPARATELY, QueueNumbers,
    ServiceNumbers,
};
pub use namespaces::NamespacePut;
pub use options::Options;
pub use pipeline::outcome::OutcomeReport;
pub use pipeline::request::{LeaseRequest, Only};
pub use pipeline::scan::ManualScanResult;
pub use pipeline::slots::{ExecutorSlots, KeySlots, ManySlots, SharedSlots, Slots};
pub use quota::state::TooFast;
pub use redrive::{RedriveMany, Redriven};
pub use search::SearchResult;
pub use services::Running;
pub use shares::NamespaceShare;
pub use why::Why;
