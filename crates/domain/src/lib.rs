//! Words and rules of a task, in reading order. Pure: no clock, no I/O, no randomness of its own;
//! `now` and random numbers are arguments. Everything above this crate speaks these words.

pub mod time;

pub mod identity;
pub mod key;
pub mod name;
pub mod place;
pub mod state;

pub mod retry;
pub mod settings;
pub mod webhook;

pub mod content;
pub mod task;

pub mod chooser;
pub mod limits;
pub mod order;
pub mod shares;
pub mod versions;

pub mod access;
pub mod bulk;
pub mod event;
pub mod executor;
pub mod history;
pub mod insert;
pub mod log;
pub mod outcome;
pub mod schedule;
pub mod workflow;
