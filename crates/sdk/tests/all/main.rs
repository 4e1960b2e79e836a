//! The client and the worker as their users have them, against a server in process or over real connections.

#[cfg(test)]
mod fake;

mod client;
mod over_http;
mod worker;
