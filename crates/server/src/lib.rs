//! REST API, metrics and documentation.
