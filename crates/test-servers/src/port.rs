//! Free ports of loopback. Below the range from which the system takes the ports of outgoing connections: a server that
//! is killed and started again must find its port free, not lent to some client meanwhile.

use std::{net::TcpListener, ops::Range};

const PORTS: Range<u16> = 10_000..20_000;
/// Where a node of a Redis Cluster listens for its peers: port + this.
const BUS_OFFSET: u16 = 10_000;

/// One that no engine listens on: free a moment ago, as is the port of a cluster's bus that belongs to it; another may still be faster.
///
/// # Panics
/// When of all these ports none is free.
#[must_use]
pub fn free_port() -> u16 {
    let mut tried = std::iter::repeat_with(|| fastrand::u16(PORTS)).take(1_000);
    tried.find(|port| is_free(*port) && is_free(*port + BUS_OFFSET)).expect("of 10,000 ports some are free")
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}
