//! The promises of the wheel, checked through its public functions: against a model, and at named edges.

mod edges;
mod memory;
mod model;
