//! Workflows: what is refused, and what follows from what.
