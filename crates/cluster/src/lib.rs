//! Information over all engines for operators: events, live engines and owners, task rates, tasks that fall
//! due. Each engine stores its events and counts; any of them answers for all. The path of a task does not
//! know this crate, and nothing here decides anything about a task.

mod options;

mod counts;
mod notice;

mod watcher;

mod alerts;
mod counting;
mod due;
mod hour;
mod ledger;
mod queues;
mod views;

pub use alerts::{Elsewhere, ReportedAlert};
pub use counts::{EngineCounts, LATENESS_BEYOND_MS};
pub use due::Due;
pub use hour::{CountsSample, HourView, Rates};
pub use ledger::{Difference, LedgerPass, LedgerView, PartitionPass, TaskFault};
pub use options::Options;
pub use queues::QueueRates;
pub use views::{DatabaseView, EngineView, HotStatus, PartitionView, Stats};
pub use watcher::Watcher;
