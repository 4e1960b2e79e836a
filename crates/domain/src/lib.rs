//! Words and rules of a task: states, retry, outcome, versions. Pure.
