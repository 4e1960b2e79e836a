//! The origin of a request: the peer of its connection, or, if that is a trusted proxy, the address that the proxy
//! names. Such a header from any other peer is ignored.

use axum::http::{HeaderMap, HeaderName, header};
use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

/// The caller's address, in the extensions of every request that arrived over a socket. It is never that of a trusted
/// proxy unless nothing else is known. IPv4 inside of IPv6 is IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientAddress(pub IpAddr);

/// A block of addresses, `10.0.0.0/8`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    address: IpAddr,
    /// Leading bits that count.
    bits: u8,
}

/// The proxies that may name the address of their caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies(Vec<Cidr>);

static FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// The maximum number of hops that are read, from the nearest one on.
const HOPS_MAX: usize = 32;

impl Cidr {
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(block), IpAddr::V4(address)) => {
                let shift = 32 - u32::from(self.bits);
                u32::from(block).checked_shr(shift) == u32::from(address).checked_shr(shift)
            }
            (IpAddr::V6(block), IpAddr::V6(address)) => {
                let shift = 128 - u32::from(self.bits);
                u128::from(block).checked_shr(shift) == u128::from(address).checked_shr(shift)
            }
            _ => false,
        }
    }
}

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no address and no block of addresses such as 10.0.0.0/8");
        let (address, bits) = text.split_once('/').map_or((text, None), |(head, bits)| (head, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= most).ok_or_else(wrong)?,
            None => most,
        };
        Ok(Self { address, bits })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl FromStr for TrustedProxies {
    type Err = String;

    /// Several with commas; empty: none.
    fn from_str(text: &str) -> Result<Self, String> {
        let blocks = text.split(',').map(str::trim).filter(|block| !block.is_empty());
        blocks.map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl TrustedProxies {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|trusted_proxy| trusted_proxy.contains(address))
    }

    /// The address of the client of a request with these headers on a connection from `peer`.
    ///
    /// Every proxy appends the address that it was called from, so the right-most one that is not a proxy's own is the
    /// last that a trusted proxy has seen; what is left of it may be invented.
    #[must_use]
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> ClientAddress {
        let mut nearest = peer.to_canonical();
        for hop in hops(headers).iter().rev().take(HOPS_MAX) {
            if !self.contains(nearest) {
                break;
            }
            match hop {
                Some(address) => nearest = *address,
                None => break,
            }
        }
        ClientAddress(nearest)
    }
}

/// The nearest proxy's last, or `None` means not an address. `X-Forwarded-For`, which nearly all proxies write, and
/// `Forwarded` only where there is none: a proxy that writes one of them commonly lets the other through as its
/// caller sent it.
fn hops(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    let lines = |name: &HeaderName| {
        let values = headers.get_all(name).iter();
        values.map(|value| value.to_str().unwrap_or_default().to_owned()).collect::<Vec<_>>().join(",")
    };
    if headers.contains_key(&FORWARDED_FOR) {
        return lines(&FORWARDED_FOR).split(',').map(node).collect();
    }
    if headers.contains_key(header::FORWARDED) {
        return lines(&header::FORWARDED).split(',').map(|part| node(forwarded_for(part))).collect();
    }
    Vec::new()
}

/// The value of `for` in one element of `Forwarded`.
fn forwarded_for(element: &str) -> &str {
    let mut pairs = element.split(';').filter_map(|part| part.trim().split_once('='));
    pairs.find(|(name, _)| name.eq_ignore_ascii_case("for")).map_or("", |(_, value)| value)
}

/// `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]:80`, each also in quotes.
fn node(text: &str) -> Option<IpAddr> {
    let text = text.trim().trim_matches('"');
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().or_else(|_| text.parse().map(|address: SocketAddr| address.ip()));
    address.ok().map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(trusted: &str, peer: &str, headers: &[(&'static str, &str)]) -> String {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let trusted: TrustedProxies = trusted.parse().unwrap();
        trusted.client(peer.parse().unwrap(), &map).0.to_string()
    }

    #[test]
    fn a_header_counts_only_from_a_proxy_that_is_trusted() {
        let forged = [("x-forwarded-for", "203.0.113.9"), ("forwarded", "for=203.0.113.9")];
        assert_eq!(client("", "192.0.2.1", &forged), "192.0.2.1");
        assert_eq!(client("10.0.0.0/8", "192.0.2.1", &forged), "192.0.2.1");
        assert_eq!(client("10.0.0.0/8", "10.1.2.3", &forged), "203.0.113.9");
        assert_eq!(client("10.0.0.0/8", "::ffff:10.1.2.3", &forged), "203.0.113.9");
        assert_eq!(client("10.0.0.0/8", "10.1.2.3", &[]), "10.1.2.3");
    }

    #[test]
    fn what_stands_left_of_the_last_address_that_was_seen_may_be_invented() {
        let trusted = "10.0.0.0/8,2001:db8::/32";
        for (value, want) in [
            ("1.1.1.1, 203.0.113.9", "203.0.113.9"),
            ("1.1.1.1,203.0.113.9 , 10.9.9.9", "203.0.113.9"),
            ("10.9.9.9", "10.9.9.9"),
            ("1.1.1.1, unknown, 10.9.9.9", "10.9.9.9"),
            ("1.1.1.1, unknown", "10.0.0.1"),
            ("203.0.113.9:4711", "203.0.113.9"),
            ("[2001:db9::7]:80, 2001:db8::1", "2001:db9::7"),
            ("", "10.0.0.1"),
        ] {
            assert_eq!(client(trusted, "10.0.0.1", &[("x-forwarded-for", value)]), want, "{value}");
        }
        let lines = [("x-forwarded-for", "1.1.1.1"), ("x-forwarded-for", "203.0.113.9")];
        assert_eq!(client(trusted, "10.0.0.1", &lines), "203.0.113.9", "lines are one list");
    }

    #[test]
    fn forwarded_is_read_where_there_is_no_x_forwarded_for() {
        let one = [("forwarded", "for=1.1.1.1, For=\"[2001:db9::7]:80\";proto=https;by=10.0.0.2")];
        assert_eq!(client("10.0.0.0/8", "10.0.0.1", &one), "2001:db9::7");
        let both = [("forwarded", "for=1.1.1.1"), ("x-forwarded-for", "203.0.113.9")];
        assert_eq!(client("10.0.0.0/8", "10.0.0.1", &both), "203.0.113.9");
        assert_eq!(client("10.0.0.0/8", "10.0.0.1", &[("forwarded", "proto=https")]), "10.0.0.1");
    }

    #[test]
    fn blocks_are_read_and_hold_what_they_should() {
        for (block, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("192.168.1.5", "192.168.1.5", "192.168.1.4"),
            ("0.0.0.0/0", "8.8.8.8", "::1"),
            ("::1", "::1", "127.0.0.1"),
            ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::1"),
            ("::/0", "2001:db8::1", "1.2.3.4"),
        ] {
            let block: Cidr = block.parse().unwrap();
            assert!(block.contains(inside.parse().unwrap()), "{block} {inside}");
            assert!(!block.contains(outside.parse().unwrap()), "{block} {outside}");
        }
        for wrong in ["10.0.0.0/33", "10.0.0/8", "x", "10.0.0.0/", "::/129", "10.0.0.0/-1"] {
            assert!(wrong.parse::<Cidr>().unwrap_err().contains(wrong), "{wrong}");
        }
        assert!("".parse::<TrustedProxies>().unwrap().is_empty());
    }
}
