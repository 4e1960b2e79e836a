//! What the wheel promises, checked through its public functions: against a model, and at named edges.

mod edges;
mod memory;
mod model;
