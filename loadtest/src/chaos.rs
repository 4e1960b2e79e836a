//! Chaos: a private installation is broken part by part while load runs, and every promise is checked for every task
//! from what callers were answered and executors wrote down. One line a fault, with its recovery. Must never believe
//! an engine about a promise: it is asked only how tasks ended.
//!
//! In reading order: `plan` (which faults) → `stack` (`log`, `disk`, `time`) → `inflict` → `tasks`, `field`, `book`,
//! `recorder` → `load`, `inbox`, `change`, `work` → `run` → `look` → `judge`, `history`, `healthy` → `report`.

mod book;
mod change;
mod disk;
mod field;
mod healthy;
mod history;
mod inbox;
mod inflict;
mod judge;
#[cfg(test)]
mod judge_tests;
mod load;
mod log;
mod look;
mod options;
mod plan;
mod recorder;
mod report;
mod run;
mod stack;
mod tasks;
mod time;
mod work;

pub(crate) use options::ChaosOptions;
pub(crate) use plan::What;
pub(crate) use run::chaos;
