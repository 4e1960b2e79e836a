//! Who calls, and from where.

mod address;

pub use address::{Cidr, ClientAddress, TrustedProxies};
