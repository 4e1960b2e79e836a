//! TLS to MySQL: what an address says of it, checked before anything is opened, and what to do about a connection that was
//! refused. A parameter that the driver would pass over in silence is refused here: it may have been meant to keep others
//! from listening.

use crate::Error;
use sqlx::mysql::{MySqlConnectOptions, MySqlDatabaseError, MySqlSslMode};
use std::fs;

const MODES: &str = "DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY";
const PARAMETERS: &str = "ssl-mode, ssl-ca, ssl-cert, ssl-key and socket";

/// The parameters of an address, after its question mark.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said<'u> {
    mode: Option<&'u str>,
    ca: Option<&'u str>,
    cert: Option<&'u str>,
    key: Option<&'u str>,
}

/// Options with what the address says of TLS. An address that names an authority means its server, and no other: without a mode
/// that is `VERIFY_IDENTITY`.
pub(crate) fn with_tls(
    url: &str,
    at: &str,
    options: MySqlConnectOptions,
) -> Result<MySqlConnectOptions, Error> {
    let said = said(url).map_err(|problem| Error::Tls { at: at.to_owned(), problem })?;
    for (parameter, path) in [("ssl-ca", said.ca), ("ssl-cert", said.cert), ("ssl-key", said.key)] {
        if let Some(path) = path {
            readable(parameter, path).map_err(|problem| Error::Tls { at: at.to_owned(), problem })?;
        }
    }
    match (said.mode, said.ca) {
        (None, Some(_)) => Ok(options.ssl_mode(MySqlSslMode::VerifyIdentity)),
        _ => Ok(options),
    }
}

fn said(url: &str) -> Result<Said<'_>, String> {
    let query = url.split_once('?').map_or("", |parts| parts.1).split('#').next().unwrap_or_default();
    let mut said = Said::default();
    for parameter in query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match name {
            "ssl-mode" | "sslmode" => said.mode = Some(value),
            "ssl-ca" | "sslca" => said.ca = Some(value),
            "ssl-cert" | "sslcert" => said.cert = Some(value),
            "ssl-key" | "sslkey" => said.key = Some(value),
            "socket" => {}
            other => return Err(format!("there is no parameter {}; there are {PARAMETERS}", shown(other))),
        }
    }
    let known = ["disabled", "preferred", "required", "verify_ca", "verify_identity"];
    if let Some(odd) = said.mode.filter(|mode| !known.contains(&mode.to_ascii_lowercase().as_str())) {
        return Err(format!("ssl-mode is {odd:?}, and must be {MODES}"));
    }
    if said.cert.is_some() != said.key.is_some() {
        return Err("ssl-cert and ssl-key go together".to_owned());
    }
    let is_lax = said.mode.is_some_and(|mode| {
        ["disabled", "preferred", "required"].contains(&mode.to_ascii_lowercase().as_str())
    });
    if is_lax && said.ca.is_some() {
        return Err("an authority is named (ssl-ca), but ssl-mode verifies no certificate; set \
                    ssl-mode=VERIFY_IDENTITY"
            .to_owned());
    }
    Ok(said)
}

/// A name that cannot be the rest of a password with a question mark in it.
fn shown(name: &str) -> String {
    let is_name =
        name.len() < 32 && name.chars().all(|letter| letter.is_ascii_alphabetic() || "-_".contains(letter));
    if is_name { format!("{name:?}") } else { "of that name".to_owned() }
}

fn readable(parameter: &str, path: &str) -> Result<(), String> {
    // The driver undoes these; no path of a certificate needs one.
    let path = path.replace("%2F", "/").replace("%2f", "/");
    let pem = fs::read(&path).map_err(|error| format!("{parameter}: {path:?} cannot be read: {error}"))?;
    if pem.windows(11).any(|pair| pair == b"-----BEGIN ") {
        Ok(())
    } else {
        Err(format!("{parameter}: {path:?} holds nothing in PEM form"))
    }
}

/// Parts of error messages, and the remedy for each, as the end of a sentence. The texts are those of the library
/// that speaks TLS, of the driver and of the servers; a test against servers checks them.
const WAYS_OUT: [(&[&str], &str); 8] = [
    (
        &["certificate: UnknownIssuer", "certificate: BadSignature"],
        "; its certificate is signed by no authority that this engine trusts: name the authority's file (ssl-ca=/path/ca.pem)",
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
        &["server does not support TLS"],
        "; set ssl-cert and ssl-key on the server, or ssl-mode=DISABLED here on a network that you trust",
    ),
    (
        &["require_secure_transport", "insecure transport"],
        "; the server refuses connections without TLS: set ssl-mode=VERIFY_IDENTITY and ssl-ca=/path/ca.pem",
    ),
    (
        &["HandshakeFailure", "CertificateRequired"],
        "; see that the server speaks TLS 1.2 or newer, and asks for no other certificate",
    ),
    (
        &["RSA auth backend disabled"],
        "; the server wants this password over TLS only (caching_sha2_password): let it speak TLS and set ssl-mode=REQUIRED or \
         VERIFY_IDENTITY, or, before MySQL 8.4, create the user with mysql_native_password",
    ),
];

const ACCESS_DENIED: u16 = 1045;
const DATABASE_DENIED: u16 = 1044;
const UNKNOWN_DATABASE: u16 = 1049;
/// The error numbers for a missing privilege on a statement, a table, a column, a routine, or the server.
const COMMAND_DENIED: [u16; 5] = [1142, 1143, 1370, 1227, 1410];

/// Empty: nothing in particular.
pub(crate) fn way_out(error: &sqlx::Error) -> &'static str {
    let text = error.to_string();
    if let Some((_, way_out)) = WAYS_OUT.iter().find(|pair| pair.0.iter().any(|word| text.contains(word))) {
        return way_out;
    }
    let number = error.as_database_error().and_then(|error| error.try_downcast_ref::<MySqlDatabaseError>());
    match number.map(MySqlDatabaseError::number) {
        Some(ACCESS_DENIED) => {
            "; see user and password of the address, and the hosts that this user may come from; where the server or the user asks \
             for TLS (require_secure_transport, REQUIRE SSL or X509), set ssl-mode=VERIFY_IDENTITY and ssl-ca, and ssl-cert \
             and ssl-key for X509"
        }
        Some(DATABASE_DENIED) => RIGHTS,
        Some(UNKNOWN_DATABASE) => "; make it: CREATE DATABASE name",
        Some(number) if COMMAND_DENIED.contains(&number) => RIGHTS,
        _ => "",
    }
}

/// The privileges that the user of an engine needs.
pub(crate) const RIGHTS: &str = "; give its user the rights on this database: GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, \
     INDEX, REFERENCES ON name.* TO user";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_passed_over_in_silence_is_refused() {
        for (url, part) in [
            ("mysql://h/d?ssl_mode=VERIFY_IDENTITY", "\"ssl_mode\""),
            ("mysql://h/d?tls_ca=/x", "\"tls_ca\""),
            ("mysql://h/d?ssl-mode=VERIFY", "\"VERIFY\""),
            ("mysql://h/d?ssl-cert=/x", "go together"),
            ("mysql://h/d?ssl-mode=REQUIRED&ssl-ca=/x", "VERIFY_IDENTITY"),
        ] {
            let refused = said(url).unwrap_err();
            assert!(refused.contains(part), "{url}: {refused}");
        }
        assert!(!said("mysql://u:1?geh@im@h/d").unwrap_err().contains("geh"));
        let whole = said("mysql://u:p@h/d?ssl-mode=verify_ca&ssl-ca=/a&ssl-cert=/b&ssl-key=/c").unwrap();
        assert_eq!(
            whole,
            Said { mode: Some("verify_ca"), ca: Some("/a"), cert: Some("/b"), key: Some("/c") }
        );
        assert_eq!(said("mysql://h/d").unwrap(), Said::default());
    }

    #[test]
    fn a_password_that_may_not_be_sent_in_the_clear_names_the_ways_out() {
        let refused = "RSA auth backend disabled; enable feature `mysql-rsa` or use TLS.";
        let way_out = way_out(&sqlx::Error::Configuration(refused.into()));
        assert!(
            way_out.contains("caching_sha2_password") && way_out.contains("ssl-mode=REQUIRED"),
            "{way_out}"
        );
    }

    #[test]
    fn a_file_that_is_not_there_is_named_at_once() {
        let refused = with_tls("mysql://h/d?ssl-ca=/no/such", "h/d", MySqlConnectOptions::new()).unwrap_err();
        let said = refused.to_string();
        assert!(said.contains("h/d") && said.contains("ssl-ca") && said.contains("/no/such"), "{said}");
    }
}
