//! TLS to Redis: the certificate options at the end of an address. Reads the files that an address names;
//! opens no connection.

use crate::error::{LinkError, refused};
use redis::{ClientTlsConfig, TlsCertificates};
use std::fs;

const PARAMETERS: [&str; 3] = ["tls_ca", "tls_cert", "tls_key"];

/// The TLS parameters of all connections of one address. `None` if they have no TLS. Without `tls_ca`, the
/// authorities that this machine trusts apply. `query` is `tls_ca=FILE&tls_cert=FILE&tls_key=FILE`, each of them at
/// most once.
pub(crate) fn read(query: &str, is_tls: bool) -> Result<Option<TlsCertificates>, LinkError> {
    let mut files = PARAMETERS.map(|parameter| (parameter, None));
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, path) = part.split_once('=').unwrap_or((part, ""));
        let Some((parameter, file)) = files.iter_mut().find(|(parameter, _)| *parameter == name) else {
            let way_out = "there are tls_ca, tls_cert and tls_key; a ? in a password is written %3F";
            return refused("parameter", shown(name, query), "does not exist", way_out);
        };
        if !is_tls {
            let way_out = "use rediss instead of redis, or leave it out";
            return refused("parameter", parameter, "is for TLS, and the address is a plain one", way_out);
        }
        *file = Some(pem(parameter, path)?);
    }
    let [root_cert, cert, key] = files.map(|(_, file)| file);
    let client_tls = match (cert, key) {
        (Some(client_cert), Some(client_key)) => Some(ClientTlsConfig { client_cert, client_key }),
        (None, None) => None,
        (cert, _) => {
            let alone = if cert.is_some() { "tls_cert" } else { "tls_key" };
            return refused("parameter", alone, "stands alone", "tls_cert and tls_key go together");
        }
    };
    Ok(is_tls.then_some(TlsCertificates { client_tls, root_cert }))
}

/// A name that cannot be the rest of a password with a question mark in it.
fn shown<'a>(name: &'a str, query: &str) -> &'a str {
    let is_name =
        name.len() < 32 && name.chars().all(|letter| letter.is_ascii_alphabetic() || "-_".contains(letter));
    if is_name && !query.contains('@') { name } else { "..." }
}

fn pem(parameter: &'static str, path: &str) -> Result<Vec<u8>, LinkError> {
    if path.is_empty() {
        let way_out = "write the path of a file in PEM form after it: tls_ca=FILE";
        return refused("parameter", parameter, "names no file", way_out);
    }
    let way_out = "name a file in PEM form that this process may read";
    let said = match fs::read(path) {
        Ok(pem) if pem.windows(11).any(|letters| letters == b"-----BEGIN ") => return Ok(pem),
        Ok(_) => "cannot be used: it holds nothing in PEM form".to_owned(),
        Err(error) => format!("cannot be used: {error}"),
    };
    refused(parameter, path, said, way_out)
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_that_cannot_be_used_is_refused_with_a_sentence() {
        for (query, said) in [
            ("tls_ca=/no/such/file", "the tls_ca \"/no/such/file\" in the address of Redis cannot be used: "),
            ("tls_ca", "the parameter \"tls_ca\" in the address of Redis names no file; "),
            ("tls_ca=", "names no file"),
            ("tls_verify=no", "\"tls_verify\" in the address of Redis does not exist; there are tls_ca, "),
            ("cret=7@h", "the parameter \"...\""),
        ] {
            let refused = read(query, true).unwrap_err().to_string();
            assert!(refused.contains(said), "{refused}");
        }
        assert!(read("tls_ca=/no/such/file", false).unwrap_err().to_string().contains("plain"));
        assert!(read("", true).unwrap().is_some() && read("", false).unwrap().is_none());
    }

    #[test]
    fn what_is_no_pem_and_a_certificate_without_its_key_are_refused() {
        // Any file in PEM form is accepted here: its content is checked when connecting.
        let path = std::env::temp_dir().join(format!("punctual-tls-{}.pem", std::process::id()));
        let refused = |text: &str, query: &str| {
            fs::write(&path, text).unwrap();
            read(&format!("{query}={}", path.display()), true).unwrap_err().to_string()
        };
        assert!(refused("no certificate", "tls_ca").contains("nothing in PEM form"));
        let alone = refused("-----BEGIN CERTIFICATE-----\n", "tls_cert");
        assert!(alone.contains("\"tls_cert\"") && alone.contains("go together"), "{alone}");
        fs::remove_file(path).unwrap();
    }
}
