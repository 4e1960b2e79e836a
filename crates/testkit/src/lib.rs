//! Conformance suites, manual clock, faults and simulation.
