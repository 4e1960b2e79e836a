//! Free loopback ports. Below the range of the ports of outgoing connections: a server that is killed and
//! restarted must find its port free, not used by a client.

use std::{net::TcpListener, ops::Range};

const PORTS: Range<u16> = 10_000..20_000;
/// The offset of the port where a node of a Redis Cluster listens for its peers.
const BUS_OFFSET: u16 = 10_000;

/// A port without a listener: just found free, as is its cluster bus port; another process may still take it
/// first.
///
/// # Panics
/// If none of these ports is free.
#[must_use]
pub fn free_port() -> u16 {
    let mut tried = std::iter::repeat_with(|| fastrand::u16(PORTS)).take(1_000);
    tried.find(|port| is_free(*port) && is_free(*port + BUS_OFFSET)).expect("of 10,000 ports some are free")
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}
