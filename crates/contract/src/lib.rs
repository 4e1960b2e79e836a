//! The contracts of store, hot set, bus and clock with the engine. Each promise is in prose on its trait and
//! has a case in the testkit's conformance suite; a back end is correct if it passes that suite, and nothing
//! else is promised. Contains no logic and no back end.

pub mod access;
pub mod ask;
pub mod audit;
pub mod blobs;
pub mod bulk;
pub mod bus;
pub mod clock;
pub mod cluster;
pub mod error;
pub mod evaluations;
pub mod hot;
pub mod identity;
pub mod inbox;
pub mod journal;
pub mod labels;
pub mod ledger;
pub mod limiter;
pub mod namespaces;
pub mod ownership;
pub mod schedules;
pub mod settings;
pub mod store;
pub mod workflows;

pub use access::AccessStore;
pub use ask::Ask;
pub use audit::AuditStore;
pub use blobs::Blobs;
pub use bulk::BulkStore;
pub use bus::Bus;
pub use clock::{Clock, Trust};
pub use cluster::ClusterStore;
pub use error::{Error, Happened};
pub use evaluations::EvaluationStore;
pub use hot::Hot;
pub use identity::IdentityStore;
pub use inbox::InboxTable;
pub use journal::Journal;
pub use labels::LabelStore;
pub use ledger::LedgerStore;
pub use limiter::{Limiter, LimiterState};
pub use namespaces::NamespaceStore;
pub use ownership::{Ownership, Signals};
pub use schedules::ScheduleStore;
pub use settings::SettingStore;
pub use store::Store;
pub use workflows::WorkflowStore;
