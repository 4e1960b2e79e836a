//! Connections to Redis, for the hot set and the bus: one server, a Cluster, or the master that Sentinels name. Each call
//! comes back with an answer or with a failure that says whether it may have happened. Must not know a key, a stream or the
//! text of a script.
//!
//! In reading order: `error` (what goes wrong, and was it sent?), `address` and `tls` (what a URL says), `server`
//! (connecting), `script`, `shared` (one connection for many callers), `cluster`, `place` (whichever of these an address
//! asks for), `blocking` (a connection for one reader), `pool` (what is
//! lent to one caller at a time).

mod error;
mod way_out;

mod address;
mod tls;

mod script;
mod server;

mod cluster;
mod place;
mod shared;

mod blocking;
mod pool;

pub use self::{
    blocking::{BlockingConnection, Node},
    error::{Answer, Failure, LinkError},
    place::{RedisEndpoints, Router},
    pool::{ConnectionPool, Lendable, Lent},
    script::Script,
    server::{RedisServer, TimeLimits},
};
