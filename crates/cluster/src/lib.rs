//! What an operator asks of all engines together: what happened, who lives and owns what, how fast tasks come and go, how much
//! falls due. Each engine writes down what it has noticed and counted; any of them answers for all. The path of a task knows
//! nothing of it, and nothing here decides anything about one.

mod options;

mod counts;
mod notice;

mod watcher;

mod alerts;
mod due;
mod hour;
mod queues;
mod views;

pub use alerts::{Elsewhere, ReportedAlert};
pub use counts::{EngineCounts, LATENESS_BEYOND_MS};
pub use due::Due;
pub use hour::{CountsSample, HourView, Rates};
pub use options::Options;
pub use queues::QueueRates;
pub use views::{DatabaseView, EngineView, HotStatus, PartitionView, Stats};
pub use watcher::Watcher;
