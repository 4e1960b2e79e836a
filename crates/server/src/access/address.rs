//! Where a request comes from. Put into its extensions by whoever accepts connections; a request that has none, of a
//! server in the same process, counts with all others that have none.

use std::net::IpAddr;

/// The client's own address, behind trusted proxies too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);
