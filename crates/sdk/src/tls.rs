//! TLS to a server: the trusted authorities, the client's certificate, and the meaning of failures in plain
//! words.

use crate::error::Error;
use reqwest::{Certificate, ClientBuilder, Identity};
use rustls::{AlertDescription, CertificateError, crypto::CryptoProvider};
use std::{
    error::Error as StdError,
    fs, io,
    path::{Path, PathBuf},
};

/// Files, as PEM.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tls {
    /// Authorities of servers; none: those that the system trusts.
    pub(crate) ca: Option<PathBuf>,
    /// The certificate for a server that requires one.
    pub(crate) cert: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

/// The one provider of cryptography of a process; the first one that is installed stays.
fn install_provider() {
    if CryptoProvider::get_default().is_none() {
        // Another thread was faster: then there is one.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

impl Tls {
    pub(crate) fn apply(&self, http: ClientBuilder, is_https: bool) -> Result<ClientBuilder, Error> {
        install_provider();
        let http = match &self.ca {
            Some(ca) if is_https => http.tls_certs_only(authorities(ca)?),
            None if is_https => http,
            // Unused files are not read: a machine without any authorities can use plain HTTP.
            Some(_) | None => http.tls_certs_only([]),
        };
        match (&self.cert, &self.key) {
            (Some(cert), Some(key)) if is_https => Ok(http.identity(identity(cert, key)?)),
            (Some(_), Some(_)) | (None, None) => Ok(http),
            (Some(_), None) => {
                Err(Error::configuration("a client certificate needs its key: PUNCTUAL_CLIENT_KEY"))
            }
            (None, Some(_)) => {
                Err(Error::configuration("a client's key needs its certificate: PUNCTUAL_CLIENT_CERT"))
            }
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|e| Error::configuration(format!("{} cannot be read: {e}", path.display())))
}

fn authorities(path: &Path) -> Result<Vec<Certificate>, Error> {
    let wrong = || Error::configuration(format!("{} has no certificate in PEM", path.display()));
    let all = Certificate::from_pem_bundle(&read(path)?).map_err(|_| wrong())?;
    if all.is_empty() { Err(wrong()) } else { Ok(all) }
}

fn identity(cert: &Path, key: &Path) -> Result<Identity, Error> {
    let mut pem = read(cert)?;
    pem.push(b'\n');
    pem.extend(read(key)?);
    Identity::from_pem(&pem).map_err(|_| {
        let (cert, key) = (cert.display(), key.display());
        Error::configuration(format!("{cert} and {key} are no certificate and its key in PEM"))
    })
}

/// A failure of TLS. The request has not been carried out.
#[derive(Debug, thiserror::Error)]
#[error("{said}")]
pub(crate) struct TlsFailure {
    said: String,
    #[source]
    source: reqwest::Error,
}

/// The same error, or, if TLS is why, one that says so in plain words.
pub(crate) fn explained(error: reqwest::Error) -> Result<TlsFailure, reqwest::Error> {
    let host = error.url().and_then(|url| url.host_str()).unwrap_or("the server").to_owned();
    match cause(&error).and_then(|error| meaning(error, &host)) {
        Some(said) => Ok(TlsFailure { said, source: error }),
        None => Err(error),
    }
}

/// An I/O error does not return the wrapped error as its source.
fn cause<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    let wrapped = wrapped.and_then(|error| cause(error as &(dyn StdError + 'static)));
    error.downcast_ref().or(wrapped).or_else(|| cause(error.source()?))
}

/// Returns `None` if it is unknown whether the request was executed.
fn meaning(error: &rustls::Error, host: &str) -> Option<String> {
    match error {
        rustls::Error::InvalidCertificate(fault) => Some(of_certificate(fault, host)),
        rustls::Error::InvalidMessage(_) => {
            Some(format!("{host} does not speak TLS at this port: use http://, or the port that does"))
        }
        rustls::Error::AlertReceived(alert) => of_alert(*alert, host),
        _ => None,
    }
}

fn of_certificate(fault: &CertificateError, host: &str) -> String {
    match fault {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => format!(
            "the certificate of {host} comes from an authority that is not trusted here: name the file of that \
             authority, PUNCTUAL_CA_FILE or --ca"
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => format!(
            "the certificate of the server is not for the name {host}: use a name from its certificate, or issue a certificate for this name ({fault})"
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => format!(
            "the certificate of {host} has expired: the server needs a new one, unless the clock of this machine is \
             wrong ({fault})"
        ),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => format!(
            "the certificate of {host} is not valid yet: compare the clocks of this machine and of who issued it \
             ({fault})"
        ),
        fault => format!("the certificate of {host} is not accepted: {fault}"),
    }
}

fn of_alert(alert: AlertDescription, host: &str) -> Option<String> {
    match alert {
        AlertDescription::CertificateRequired
        | AlertDescription::BadCertificate
        | AlertDescription::UnknownCA
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::AccessDenied => Some(format!(
            "{host} wants a client certificate of an authority that it trusts: PUNCTUAL_CLIENT_CERT and \
             PUNCTUAL_CLIENT_KEY, or --client-cert and --client-key ({alert:?})"
        )),
        AlertDescription::HandshakeFailure | AlertDescription::ProtocolVersion => {
            Some(format!("{host} and this program have no version or cipher of TLS in common ({alert:?})"))
        }
        _ => None,
    }
}
