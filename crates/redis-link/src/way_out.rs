//! The remedy for a refused connection or command, as the end of a sentence.

use redis::RedisError;

/// Texts of refusals, and their remedies, as the end of a sentence. The texts are those of the TLS library
/// and of Redis; a test against servers verifies them.
const WAYS_OUT: [(&[&str], &str); 9] = [
    (
        &["certificate: UnknownIssuer", "certificate: BadSignature"],
        "; its certificate is signed by no authority that this engine trusts: name the authority's file (hot.tls_ca)",
    ),
    (
        &["certificate expired", "certificate: Expired"],
        "; its certificate has expired, or the clock of this machine is wrong: renew it on the server",
    ),
    (
        &["not valid yet", "certificate: NotValidYet"],
        "; its certificate is not valid yet: compare the clocks of both machines",
    ),
    (
        &["not valid for name", "certificate: NotValidForName"],
        "; its certificate is for another name: name the host as the certificate does, or issue one for this name too",
    ),
    (
        &["CertificateRequired", "HandshakeFailure"],
        "; it asks for a certificate of its clients: name one (hot.tls_cert, hot.tls_key), or set tls-auth-clients no there",
    ),
    (&["corrupt message", "InvalidContentType"], SPEAKS_PLAIN),
    (
        &["WRONGPASS", "invalid username-password", "AuthenticationFailed"],
        "; user or password of hot.url is wrong: user:password@host, or :password@host without a user",
    ),
    (&["NOAUTH"], "; it asks for a password: user:password@host in hot.url"),
    (
        &["NOPERM", "NoPerm"],
        "; its user may not do this: ACL SETUSER name on >password ~PREFIX:* &PREFIX:* +@all -@dangerous +info +role +client|unblock, with hot.prefix \
         as PREFIX",
    ),
];

/// A server that speaks no TLS may answer with anything.
const SPEAKS_PLAIN: &str =
    "; it seems to speak no TLS on this port: use its tls-port, or redis:// on a network that you trust";

/// The server may also wait for the end of a line that never ends, like a busy one.
pub(crate) const IS_SILENT: &str = "; it may be very busy, or it speaks no TLS on this port: use its tls-port, or redis:// on a network that you trust";

const SPEAKS_TLS: &str = "; it hung up at the first word: if it speaks TLS on this port, use rediss://";

/// The remedy for a refused command. Empty if none is known.
pub(crate) fn way_out(error: &RedisError) -> &'static str {
    let said = error.to_string();
    let found = WAYS_OUT.iter().find(|pair| pair.0.iter().any(|part| said.contains(part)));
    found.map_or("", |pair| pair.1)
}

/// The remedy for a connection that could not be opened.
pub(crate) fn way_in(error: &RedisError, is_tls: bool) -> &'static str {
    match way_out(error) {
        "" if is_tls && error.is_timeout() => IS_SILENT,
        "" if !is_tls && error.is_connection_dropped() && !error.is_connection_refusal() => SPEAKS_TLS,
        found => found,
    }
}
