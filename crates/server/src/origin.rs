//! Checks the origin of requests. Without tokens, every caller may do everything, and the server listens on loopback
//! only. A browser on the same machine reaches loopback for any page that it shows: requests that come from a page of
//! another site, or to a foreign name that points here, are refused before anything is done.

use crate::{app::Shared, refusal::Refusal};
use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, header, uri::Authority},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use punctual_protocol::Code;
use std::net::IpAddr;

static SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

pub(crate) async fn refuse_foreign(State(app): State<Shared>, request: Request, next: Next) -> Response {
    // Then callers are distinguished: a foreign page has no token, and names are the operator's business.
    if app.engine.access_is_required() {
        return next.run(request).await;
    }
    match foreign(&request) {
        None => next.run(request).await,
        Some(what) => {
            let detail = format!(
                "{what}; while no token is required, only programs and pages of this machine are served, under localhost or a \
                 loopback address"
            );
            Refusal::new(Code::AuthOriginRefused, detail).into_response()
        }
    }
}

/// The part of the request that is not of this machine. `None` if there is none.
fn foreign(request: &Request) -> Option<String> {
    let headers = request.headers();
    host(request).or_else(|| origin(headers)).or_else(|| site(headers))
}

/// Checks the host: HTTP/2 names it in `:authority`, HTTP/1.1 in `Host`, or in a target that is a complete URL; each
/// that is present counts.
fn host(request: &Request) -> Option<String> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let (first, more) = (hosts.next(), hosts.next().is_some());
    if more {
        return Some("the request has several Host headers".to_owned());
    }
    let in_target = request.uri().authority().map(|authority| authority.as_str().as_bytes());
    let named: Vec<&[u8]> = in_target.into_iter().chain(first.map(|header| header.as_bytes())).collect();
    if named.is_empty() {
        return Some("the request names no Host".to_owned());
    }
    let odd = named.into_iter().find(|odd| !is_loopback(odd))?;
    Some(format!("the Host {:?} is not this machine's loopback", shown(odd)))
}

fn origin(headers: &HeaderMap) -> Option<String> {
    let odd = headers.get_all(header::ORIGIN).iter().find(|header| {
        let text = header.to_str().unwrap_or_default();
        let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
        !rest.is_some_and(|host| is_loopback(host.as_bytes()))
    })?;
    Some(format!("the Origin {:?} is a page of elsewhere", shown(odd.as_bytes())))
}

fn site(headers: &HeaderMap) -> Option<String> {
    let is_foreign = |bytes: &[u8]| bytes.eq_ignore_ascii_case(b"cross-site");
    let mut sites = headers.get_all(&SEC_FETCH_SITE).iter();
    sites.any(|site| is_foreign(site.as_bytes())).then(|| "a page of another site sent it".to_owned())
}

/// `localhost`, an address of 127.0.0.0/8 or `[::1]`, with or without a port.
fn is_loopback(host: &[u8]) -> bool {
    let Ok(authority) = Authority::try_from(host) else { return false };
    if authority.as_str().contains('@') {
        return false;
    }
    let name = authority.host();
    if name.eq_ignore_ascii_case("localhost") {
        return true;
    }
    let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    bare.parse().is_ok_and(|bare: IpAddr| bare.is_loopback())
}

/// A short form of text from an unknown caller.
fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_told_from_what_only_looks_like_it() {
        for good in
            ["localhost", "LocalHost:7450", "127.0.0.1", "127.8.9.10:1", "[::1]", "[::1]:7450", "localhost:0"]
        {
            assert!(is_loopback(good.as_bytes()), "{good}");
        }
        for bad in [
            "",
            "example.org",
            "localhost.example.org",
            "localhost@example.org",
            "127.0.0.1.example.org",
            "127.0.0.1@example.org:80",
            "10.0.0.1",
            "[::2]",
            "0.0.0.0",
            "2130706433",
            "localhost.",
            "local host",
            "localhost/",
        ] {
            assert!(!is_loopback(bad.as_bytes()), "{bad}");
        }
    }
}
