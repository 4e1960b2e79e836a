//! TLS to Redis: what the end of an address says of certificates, and what to do about a connection that was refused.
//! Reads the files that an address names; opens no connection.

use super::problem::RedisProblem;
use redis::{Client, ClientTlsConfig, ConnectionInfo, RedisError, RedisResult, TlsCertificates};
use std::fs;

const CA: &str = "tls_ca";
const CERT: &str = "tls_cert";
const KEY: &str = "tls_key";

/// How connections are made, all of one address alike.
#[derive(Clone, Debug)]
pub(crate) enum Transport {
    Plain,
    /// Without an authority of its own: those that this machine trusts.
    Tls(Box<TlsCertificates>),
}

impl Transport {
    /// Takes its parameters off the end of an address: `?tls_ca=FILE&tls_cert=FILE&tls_key=FILE`.
    pub(crate) fn taken_from(rest: &str, is_tls: bool) -> Result<(&str, Self), RedisProblem> {
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (mut ca, mut cert, mut key) = (None, None, None);
        for (name, path) in query.split('&').filter(|part| !part.is_empty()).map(parameter) {
            match name {
                CA => ca = Some(read(CA, path)?),
                CERT => cert = Some(read(CERT, path)?),
                KEY => key = Some(read(KEY, path)?),
                other => return Err(RedisProblem::Parameter(shown(other))),
            }
        }
        let is_named = ca.is_some() || cert.is_some() || key.is_some();
        let client_tls = match (cert, key) {
            (Some(client_cert), Some(client_key)) => Some(ClientTlsConfig { client_cert, client_key }),
            (None, None) => None,
            _ => return Err(RedisProblem::Address("tls_cert and tls_key go together")),
        };
        match (is_tls, is_named) {
            (true, _) => Ok((rest, Self::Tls(Box::new(TlsCertificates { client_tls, root_cert: ca })))),
            (false, false) => Ok((rest, Self::Plain)),
            (false, true) => {
                Err(RedisProblem::Address("files for TLS are named, and the address is a plain one"))
            }
        }
    }

    pub(crate) const fn scheme(&self) -> &'static str {
        match self {
            Self::Plain => "redis",
            Self::Tls(_) => "rediss",
        }
    }

    pub(crate) const fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    pub(crate) fn certificates(&self) -> Option<TlsCertificates> {
        match self {
            Self::Plain => None,
            Self::Tls(certificates) => Some((**certificates).clone()),
        }
    }

    pub(crate) fn client(&self, info: ConnectionInfo) -> RedisResult<Client> {
        match self {
            Self::Plain => Client::open(info),
            Self::Tls(certificates) => Client::build_with_tls(info, (**certificates).clone()),
        }
    }
}

/// A name that cannot be the rest of a password with a question mark in it.
fn shown(name: &str) -> String {
    let is_name =
        name.len() < 32 && name.chars().all(|letter| letter.is_ascii_alphabetic() || "-_".contains(letter));
    if is_name { name.to_owned() } else { "...".to_owned() }
}

fn parameter(text: &str) -> (&str, &str) {
    text.split_once('=').unwrap_or((text, ""))
}

fn read(parameter: &'static str, path: &str) -> Result<Vec<u8>, RedisProblem> {
    let problem = |said: String| RedisProblem::Certificate { parameter, path: path.to_owned(), said };
    let pem = fs::read(path).map_err(|error| problem(error.to_string()))?;
    if pem.windows(11).any(|pair| pair == b"-----BEGIN ") {
        Ok(pem)
    } else {
        Err(problem("it holds nothing in PEM form".to_owned()))
    }
}

/// What a refusal says, and what to do about it, as the end of a sentence. The texts are those of the library that speaks
/// TLS, and of Redis; a test against servers holds them.
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

/// Or it waits for the end of a line that never comes, like one that is busy.
pub(crate) const IS_SILENT: &str = "; it may be very busy, or it speaks no TLS on this port: use its tls-port, or redis:// on a network that you trust";

const SPEAKS_TLS: &str = "; it hung up at the first word: if it speaks TLS on this port, use rediss://";

/// Of a command that was refused. Empty: nothing in particular.
pub(crate) fn way_out(error: &RedisError) -> &'static str {
    let said = error.to_string();
    let found = WAYS_OUT.iter().find(|pair| pair.0.iter().any(|part| said.contains(part)));
    found.map_or("", |pair| pair.1)
}

/// Of a connection that could not be made.
pub(crate) fn way_in(error: &RedisError, is_tls: bool) -> &'static str {
    match way_out(error) {
        "" if is_tls && error.is_timeout() => IS_SILENT,
        "" if !is_tls && error.is_connection_dropped() && !error.is_connection_refusal() => SPEAKS_TLS,
        found => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_taken_off_the_address_and_belong_to_tls() {
        let (rest, transport) = Transport::taken_from("h:1/2", true).unwrap();
        assert!(rest == "h:1/2" && transport.is_tls() && transport.scheme() == "rediss");
        assert!(!Transport::taken_from("h", false).unwrap().1.is_tls());
        for (rest, said) in [
            ("h?tls_ca=/no/such/file", "/no/such/file"),
            ("h?tls_verify=no", "tls_verify"),
            ("h?tls_ca", "tls_ca"),
        ] {
            let refused = Transport::taken_from(rest, true).unwrap_err().to_string();
            assert!(refused.contains(said), "{refused}");
        }
    }

    #[test]
    fn a_certificate_without_its_key_and_files_at_a_plain_address_are_refused() {
        // Any file in PEM form will do: what it holds is looked at by the client that connects.
        let path = std::env::temp_dir().join(format!("punctual-tls-{}.pem", std::process::id()));
        fs::write(&path, "-----BEGIN CERTIFICATE-----\n").unwrap();
        let at = path.display();
        let alone = Transport::taken_from(&format!("h?tls_cert={at}"), true).map(|pair| pair.1);
        assert!(alone.unwrap_err().to_string().contains("go together"));
        let plain = Transport::taken_from(&format!("h?tls_ca={at}"), false).map(|pair| pair.1);
        assert!(plain.unwrap_err().to_string().contains("plain"));
        fs::remove_file(path).unwrap();
    }
}
