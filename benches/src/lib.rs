//! Home of the Criterion benchmarks in `benches/`; holds no code of its own.
