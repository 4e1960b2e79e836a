//! What the engine asks of store, hot set, bus and clock.
