//! The path of a task from insert to outcome, and what repairs it.
