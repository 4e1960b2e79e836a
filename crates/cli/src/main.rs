//! The binary `punctual`: the only place where backends meet the engine.
fn main() {}
