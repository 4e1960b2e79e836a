//! Connections to Redis, for the hot set and the bus: one server, a Cluster, or the master that Sentinels
//! name. Each call returns an answer, or a failure that says whether it may have been executed. Must not know
//! a key, a stream or the text of a script.
//!
//! In reading order: `error` (failures, and whether the call was sent), `address` and `tls` (parsing of a
//! URL), `server` (connecting), `script`, `endpoints` (an address, for all its connections), `shared` (one connection
//! for many callers), `cluster`, `router` (the right one of these for an address), `blocking` (a connection for one reader), `pool` (connections that are
//! lent to one caller at a time).

mod error;
mod way_out;

mod address;
mod tls;

mod script;
mod server;

mod cluster;
mod endpoints;
mod router;
mod shared;

mod blocking;
mod pool;

pub use self::{
    blocking::{BlockingConnection, Node},
    endpoints::RedisEndpoints,
    error::{Answer, Failure, LinkError},
    pool::{ConnectionPool, Lent},
    router::Router,
    script::Script,
    server::{RedisServer, TimeLimits},
};
