//! A linearizability checker for histories of real runs. A recorder writes down each call of a client with its answer;
//! the checker looks for one order of all calls that a single task in one place could have had. Tasks are independent
//! objects, so each is checked by itself. Pure: reads no clock, does no I/O, and knows no engine.
//!
//! In reading order: `history` (what is recorded) → `spec` (what one task may do) → `search` (Wing and Gong, with
//! memory) → `report` (verdict, and the shortest part of a history that breaks it).

pub mod history;
pub mod report;
mod search;
pub mod spec;

#[cfg(test)]
mod tests;

pub use history::{
    AttemptEnd, ChangeAnswer, InsertAnswer, OpKind, OutcomeAnswer, ReadState, RecordedOp, Recording,
};
pub use report::{LinearReport, Violation, check};
pub use spec::SpecRules;
