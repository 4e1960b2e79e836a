//! The addresses to which requests may go. Receivers are named by users, so a request must not reach this machine, a private
//! network, or a service that trusts its network. The address is checked where the connection is made: a name that resolves
//! otherwise a moment later gains nothing. Must not send a request.

use punctual_protocol::limits::{WEBHOOK_HEADER_VALUE_MAX_BYTES, WEBHOOK_URL_MAX_BYTES};
use reqwest::{
    Url,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{HeaderName, HeaderValue},
};
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

/// Kinds of addresses, by who may be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Public,
    /// This machine, or a private network: only with `allow_private`.
    Private,
    /// No receiver of a user: metadata services, groups, reserved networks.
    Never,
}

/// Services of clouds that trust each caller on their network.
const METADATA_V4: [Ipv4Addr; 2] = [Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(100, 100, 100, 200)];
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

fn reach_v4(address: Ipv4Addr) -> Reach {
    let [a, b, c, _] = address.octets();
    if METADATA_V4.contains(&address) || address.is_link_local() || address.is_documentation() {
        return Reach::Never;
    }
    match (a, b, c) {
        (0 | 224.., _, _) | (192, 0, 0) | (192, 88, 99) => Reach::Never,
        (10 | 127, _, _) | (172, 16..=31, _) | (192, 168, _) | (100, 64..=127, _) | (198, 18 | 19, _) => {
            Reach::Private
        }
        _ => Reach::Public,
    }
}

/// An IPv4 address in two groups of an IPv6 address.
fn embedded(high: u16, low: u16) -> Reach {
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    reach_v4(Ipv4Addr::new(a, b, c, d))
}

fn reach_v6(address: Ipv6Addr) -> Reach {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => Reach::Private,
        // IPv4-mapped; NAT64; 6to4.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        [0x2002, high, low, ..] => embedded(high, low),
        [0x64, 0xff9b, 1, ..] => Reach::Private,
        _ if address == METADATA_V6 => Reach::Never,
        [0xfc00..=0xfdff, ..] => Reach::Private,
        // Teredo and other protocol assignments; documentation.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Reach::Never,
        [0x2000..=0x3fff, ..] => Reach::Public,
        _ => Reach::Never,
    }
}

fn is_allowed(address: IpAddr, allow_private: bool) -> bool {
    let reach = match address {
        IpAddr::V4(address) => reach_v4(address),
        IpAddr::V6(address) => reach_v6(address),
    };
    reach == Reach::Public || (reach == Reach::Private && allow_private)
}

/// Reads the address of a receiver. A host in a decimal, octal or hexadecimal form is read as the address that it means.
///
/// # Errors
/// Why no request may go there.
pub fn checked_url(text: &str, allow_private: bool) -> Result<Url, String> {
    if text.len() > WEBHOOK_URL_MAX_BYTES {
        return Err(format!("must have at most {WEBHOOK_URL_MAX_BYTES} bytes"));
    }
    let url = Url::parse(text).map_err(|error| format!("is not an address (https://host/path): {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("must begin with https:// or http://".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must have no user and password: send them as a header (`webhook.headers`)".to_owned());
    }
    if url.fragment().is_some() {
        return Err("must have no fragment (#): it is not sent".to_owned());
    }
    if url.port() == Some(0) {
        return Err("must have a port from 1 to 65535".to_owned());
    }
    let host = url.host_str().unwrap_or_default().trim_end_matches('.').to_ascii_lowercase();
    let is_local_name = host == "localhost" || host.ends_with(".localhost");
    let literal = host.trim_matches(['[', ']']).parse::<IpAddr>().ok();
    let is_refused =
        literal.map_or(is_local_name && !allow_private, |address| !is_allowed(address, allow_private));
    if host.is_empty() || is_refused {
        return Err(refused(literal, allow_private));
    }
    Ok(url)
}

fn refused(literal: Option<IpAddr>, allow_private: bool) -> String {
    match literal {
        Some(address) if allow_private || !is_allowed(address, true) => {
            format!("{address} is an address to which no request is sent")
        }
        _ => "is an address of this machine or of a private network; `webhook.allow_private` allows them"
            .to_owned(),
    }
}

/// Headers that a request has anyway, or that would change how it is read.
const RESERVED: [&str; 16] = [
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "traceparent",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

/// Reads a further header of a receiver.
///
/// # Errors
/// What is wrong with it. The text has no part of the value.
pub fn checked_header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), String> {
    let wrong = "is not a header: its name must be a token, and its value visible ASCII on one line";
    let header = HeaderName::try_from(name).map_err(|_| wrong.to_owned())?;
    if RESERVED.contains(&header.as_str()) || header.as_str().starts_with("webhook-") {
        return Err("is set by the server".to_owned());
    }
    let is_printable = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if !is_printable || value.len() > WEBHOOK_HEADER_VALUE_MAX_BYTES {
        return Err(format!("{wrong}, of at most {WEBHOOK_HEADER_VALUE_MAX_BYTES} bytes"));
    }
    let mut value = HeaderValue::try_from(value).map_err(|_| wrong.to_owned())?;
    value.set_sensitive(true);
    Ok((header, value))
}

/// Resolves names, and answers only the addresses to which requests may go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GuardedResolver {
    pub(crate) allow_private: bool,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allow_private = self.allow_private;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed: Vec<SocketAddr> =
                found.filter(|address| is_allowed(address.ip(), allow_private)).collect();
            if allowed.is_empty() {
                let why = "the name resolves only to addresses to which no request is sent";
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, why).into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_public_private_or_never_reached() {
        let table = [
            (
                Reach::Public,
                vec!["1.1.1.1", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"],
            ),
            (
                Reach::Private,
                vec![
                    "127.0.0.1",
                    "127.9.9.9",
                    "10.0.0.1",
                    "172.16.0.1",
                    "172.31.255.255",
                    "192.168.1.1",
                    "100.64.0.1",
                    "198.18.0.1",
                    "::1",
                    "fc00::1",
                    "fd12::1",
                    "::ffff:127.0.0.1",
                    "::ffff:10.0.0.1",
                    "64:ff9b::7f00:1",
                    "64:ff9b::a00:1",
                    "64:ff9b:1::1",
                    "2002:7f00:1::",
                    "2002:c0a8:101::1",
                ],
            ),
            (
                Reach::Never,
                vec![
                    "0.0.0.0",
                    "0.1.2.3",
                    "169.254.169.254",
                    "224.0.0.1",
                    "239.1.1.1",
                    "240.0.0.1",
                    "255.255.255.255",
                    "192.0.0.1",
                    "192.0.2.1",
                    "198.51.100.1",
                    "203.0.113.1",
                    "168.63.129.16",
                    "100.100.100.200",
                    "::",
                    "::7f00:1",
                    "fe80::1",
                    "fec0::1",
                    "ff02::1",
                    "fd00:ec2::254",
                    "2001::1",
                    "2001:db8::1",
                    "100::1",
                    "::ffff:169.254.169.254",
                    "64:ff9b::a9fe:a9fe",
                    "2002:a9fe:a9fe::",
                    "4000::1",
                ],
            ),
        ];
        for (reach, texts) in table {
            for text in texts {
                let address = text.parse::<IpAddr>().unwrap();
                assert_eq!(is_allowed(address, false), reach == Reach::Public, "{text}");
                assert_eq!(is_allowed(address, true), reach != Reach::Never, "{text}");
            }
        }
    }

    #[test]
    fn a_url_names_a_host_that_may_be_reached_in_whatever_form() {
        for text in ["https://example.org/a?b=1", "http://example.org:8080", "https://[2606:4700::1111]/"] {
            assert!(checked_url(text, false).is_ok(), "{text}");
        }
        let local = [
            "http://localhost/",
            "http://LOCALHOST./",
            "http://a.localhost",
            "http://127.0.0.1:80/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0177.0.0.1/",
            "http://017700000001/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[64:ff9b::7f00:1]/",
            "http://10.0.0.8/",
            "http://\u{ff11}27.0.0.1/",
        ];
        for text in local {
            assert!(checked_url(text, false).unwrap_err().contains("allow_private"), "{text}");
            assert!(checked_url(text, true).is_ok(), "{text}");
        }
        let never = [
            "",
            "example.org",
            "ftp://example.org/",
            "file:///etc/passwd",
            "https://u:p@example.org/",
            "https://example.org/#x",
            "http://169.254.169.254/latest",
            "http://0/",
            "http://[fe80::1]/",
            "https://example.org:0/",
            "http://2852039166/",
        ];
        for text in never {
            assert!(checked_url(text, true).is_err(), "{text}");
        }
    }

    #[test]
    fn headers_of_the_protocol_are_the_servers() {
        for name in ["Host", "content-length", "Transfer-Encoding", "webhook-signature", "a b", "", "x\r\ny"]
        {
            assert!(checked_header(name, "1").is_err(), "{name:?}");
        }
        for value in ["a\r\nb", "\u{7f}", "\u{e9}"] {
            assert!(!checked_header("x-a", value).unwrap_err().contains(value), "{value:?}");
        }
        assert!(
            format!("{:?}", checked_header("Authorization", "Bearer hidden").unwrap().1)
                .contains("Sensitive")
        );
    }

    #[tokio::test]
    async fn a_name_that_resolves_to_this_machine_has_no_address() {
        let resolved = |allow_private| async move {
            let name: Name = "localhost".parse().unwrap();
            GuardedResolver { allow_private }.resolve(name).await.map(Iterator::count).unwrap_or(0)
        };
        assert_eq!(resolved(false).await, 0);
        assert!(resolved(true).await > 0);
    }
}
