//! The server's certificate and key, and whose clients it takes: read from files, and read again when they change. What
//! is wrong with new files leaves the old ones in use, and is said. Never shows a key.

use parking_lot::{Mutex, RwLock};
use punctual_domain::time::Millis;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};
use x509_cert::{Certificate, der::Decode as _};

/// A certificate that ends sooner is said to.
pub(crate) const ENDS_SOON_MS: i64 = 21 * 24 * 3_600_000;

/// The paths of certificate and key, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, followed by those between it and the authority.
    pub cert: PathBuf,
    pub key: PathBuf,
    /// Authorities of clients: set, every client must show a certificate of one of them.
    pub client_ca: Option<PathBuf>,
}

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{} cannot be read", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{}: {what}", path.display())]
    Wrong { path: PathBuf, what: String },
    #[error("{} is not the key of {}", key.display(), cert.display())]
    Mismatch { cert: PathBuf, key: PathBuf },
}

/// The contents of the files.
#[derive(Clone, PartialEq, Eq)]
struct Contents {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

#[derive(Debug)]
struct Loaded {
    config: Arc<ServerConfig>,
    expires_at: Millis,
}

/// The result of a reload.
#[derive(Debug)]
pub(crate) enum Reloaded {
    Unchanged,
    Changed,
    /// The same fault as before is not said again.
    Failed(TlsError),
}

pub(crate) struct Certificates {
    files: TlsFiles,
    loaded: RwLock<Loaded>,
    seen: Mutex<WatchedContents>,
    pub(crate) reloads: AtomicU64,
    pub(crate) reload_failures: AtomicU64,
}

struct WatchedContents {
    /// The contents in use.
    good: Contents,
    /// Contents that could not be used: certificate and key are often replaced one after the other, so the first
    /// failure is not reported yet.
    bad: Option<Bad>,
}

struct Bad {
    contents: Option<Contents>,
    looks: u32,
    what: String,
    since: Millis,
}

impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificates").field("files", &self.files).finish_non_exhaustive()
    }
}

impl TlsFiles {
    /// Checks that a server can start with these files.
    ///
    /// # Errors
    /// Names the file, and what is wrong with it.
    pub fn check(&self) -> Result<(), TlsError> {
        Contents::read(self).and_then(|tls| tls.load(self)).map(|_| ())
    }
}

impl Contents {
    fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        Ok(Self {
            cert: read(&files.cert)?,
            key: read(&files.key)?,
            client_ca: files.client_ca.as_deref().map(read).transpose()?,
        })
    }

    fn load(&self, files: &TlsFiles) -> Result<Loaded, TlsError> {
        let chain = certificates(&files.cert, &self.cert)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|_| {
            wrong(&files.key, "has no private key in PEM, such as -----BEGIN PRIVATE KEY-----")
        })?;
        let expires_at =
            chain.first().map_or(Ok(Millis(i64::MAX)), |certificate| expiry(&files.cert, certificate))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(&files.cert, error.to_string()))?;
        let builder = match (&files.client_ca, &self.client_ca) {
            (Some(path), Some(pem)) => {
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(roots(path, pem)?, provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| wrong(path, error.to_string()))?)
            }
            _ => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                TlsError::Mismatch { cert: files.cert.clone(), key: files.key.clone() }
            }
            error => wrong(&files.key, error.to_string()),
        })?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Loaded { config: Arc::new(config), expires_at })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Unreadable { path: path.to_owned(), source })
}

fn wrong(path: &Path, what: impl Into<String>) -> TlsError {
    TlsError::Wrong { path: path.to_owned(), what: what.into() }
}

fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| wrong(path, format!("is not PEM: {error}")))?;
    if all.is_empty() {
        return Err(wrong(path, "has no certificate in PEM, such as -----BEGIN CERTIFICATE-----"));
    }
    Ok(all)
}

fn roots(path: &Path, pem: &[u8]) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, pem)? {
        roots.add(certificate).map_err(|error| wrong(path, error.to_string()))?;
    }
    Ok(Arc::new(roots))
}

fn expiry(path: &Path, certificate: &CertificateDer<'_>) -> Result<Millis, TlsError> {
    let certificate = Certificate::from_der(certificate)
        .map_err(|error| wrong(path, format!("has no certificate that can be read: {error}")))?;
    let not_after = certificate.tbs_certificate().validity().not_after.to_unix_duration();
    Ok(Millis(i64::try_from(not_after.as_millis()).unwrap_or(i64::MAX)))
}

impl Certificates {
    pub(crate) fn load(files: TlsFiles) -> Result<Arc<Self>, TlsError> {
        let good = Contents::read(&files)?;
        let loaded = RwLock::new(good.load(&files)?);
        let seen = Mutex::new(WatchedContents { good, bad: None });
        let (reloads, reload_failures) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Arc::new(Self { files, loaded, seen, reloads, reload_failures }))
    }

    /// The configuration of new connections; existing connections keep theirs.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.loaded.read().config)
    }

    pub(crate) fn expires_at(&self) -> Millis {
        self.loaded.read().expires_at
    }

    /// Reads the files, and uses new contents if they are valid. Blocks for as long as reading them takes.
    pub(crate) fn reload(&self, now: Millis) -> Reloaded {
        let read = Contents::read(&self.files);
        let mut seen = self.seen.lock();
        let failed = match read {
            Ok(contents) if contents == seen.good => {
                seen.bad = None;
                return Reloaded::Unchanged;
            }
            Ok(contents) => match contents.load(&self.files) {
                Ok(loaded) => {
                    *self.loaded.write() = loaded;
                    *seen = WatchedContents { good: contents, bad: None };
                    self.reloads.fetch_add(1, Relaxed);
                    return Reloaded::Changed;
                }
                Err(error) => (Some(contents), error),
            },
            Err(error) => (None, error),
        };
        drop(seen);
        self.judge_bad(failed.0, failed.1, now)
    }

    fn judge_bad(&self, contents: Option<Contents>, error: TlsError, now: Millis) -> Reloaded {
        let mut seen = self.seen.lock();
        let looks = seen.bad.as_ref().map_or(1, |bad| bad.looks.saturating_add(1));
        let is_known = seen.bad.as_ref().is_some_and(|bad| bad.looks > 1 && bad.contents == contents);
        let since = seen.bad.as_ref().map_or(now, |bad| bad.since);
        seen.bad = Some(Bad { contents, looks, what: reported(&error), since });
        if looks < 2 || is_known {
            return Reloaded::Unchanged;
        }
        self.reload_failures.fetch_add(1, Relaxed);
        Reloaded::Failed(error)
    }

    /// The fault of the files, and since when, while the old certificate is in use because of it.
    pub(crate) fn fault(&self) -> Option<(String, Millis)> {
        let seen = self.seen.lock();
        let bad = seen.bad.as_ref().filter(|bad| bad.looks > 1)?;
        Some((bad.what.clone(), bad.since))
    }
}

/// The error with the chain of its causes.
pub(crate) fn reported(error: &TlsError) -> String {
    match error {
        TlsError::Unreadable { source, .. } => format!("{error}: {source}"),
        TlsError::Wrong { .. } | TlsError::Mismatch { .. } => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_testkit::certificates::{Authority, CertificateNames, Validity};
    use std::time::Duration;

    fn files(directory: &Path) -> TlsFiles {
        TlsFiles { cert: directory.join("server.pem"), key: directory.join("server.key"), client_ca: None }
    }

    fn at(ms: i64) -> Millis {
        Millis(ms)
    }

    #[test]
    fn new_files_are_taken_and_bad_ones_leave_the_old_certificate_in_use() {
        let (directory, authority) = (tempfile::tempdir().unwrap(), Authority::new());
        authority.issue_loopback().write_to(directory.path());
        let certificates = Certificates::load(files(directory.path())).unwrap();
        let first = certificates.config();
        assert!(matches!(certificates.reload(at(1)), Reloaded::Unchanged));
        let next = authority.issue(CertificateNames::loopback(), Validity::EndsIn(Duration::from_hours(2)));
        // Between the two files that belong together: said nothing of.
        std::fs::write(directory.path().join("server.pem"), &next.cert_pem).unwrap();
        assert!(matches!(certificates.reload(at(2)), Reloaded::Unchanged));
        assert!(certificates.fault().is_none() && Arc::ptr_eq(&first, &certificates.config()));
        let Reloaded::Failed(error) = certificates.reload(at(3)) else { panic!("it stays so") };
        assert!(error.to_string().contains("is not the key of"), "{error}");
        assert!(matches!(certificates.reload(at(4)), Reloaded::Unchanged), "said once");
        assert_eq!(certificates.fault().map(|fault| fault.1), Some(at(2)));
        next.write_to(directory.path());
        assert!(matches!(certificates.reload(at(5)), Reloaded::Changed));
        assert!(certificates.fault().is_none() && !Arc::ptr_eq(&first, &certificates.config()));
        std::fs::remove_file(directory.path().join("server.key")).unwrap();
        certificates.reload(at(6));
        assert!(matches!(certificates.reload(at(7)), Reloaded::Failed(TlsError::Unreadable { .. })));
        assert_eq!((certificates.reloads.load(Relaxed), certificates.reload_failures.load(Relaxed)), (1, 2));
    }

    #[test]
    fn what_is_wrong_is_said_with_the_file_and_never_with_the_key() {
        let (directory, authority) = (tempfile::tempdir().unwrap(), Authority::new());
        let good = authority.issue_loopback();
        let place = files(directory.path());
        for (cert, key, said) in [
            ("", good.key_pem.as_str(), "server.pem: has no certificate"),
            (&good.cert_pem, "", "server.key: has no private key"),
            (&good.cert_pem, &authority.issue_loopback().key_pem, "server.key is not the key of"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", &good.key_pem, "server.pem"),
        ] {
            std::fs::write(&place.cert, cert).unwrap();
            std::fs::write(&place.key, key).unwrap();
            let reported = reported(&place.check().unwrap_err());
            assert!(reported.contains(said) && !reported.contains("BEGIN PRIVATE KEY-----\n"), "{reported}");
        }
        let missing = TlsFiles { client_ca: Some("/no/such/ca.pem".into()), ..place.clone() };
        good.write_to(directory.path());
        assert!(reported(&missing.check().unwrap_err()).contains("/no/such/ca.pem cannot be read"));
        assert!(place.check().is_ok());
    }

    #[test]
    fn the_end_of_a_certificate_is_known() {
        let (directory, authority) = (tempfile::tempdir().unwrap(), Authority::new());
        let rest = Duration::from_hours(48);
        authority.issue(CertificateNames::loopback(), Validity::EndsIn(rest)).write_to(directory.path());
        let short = Certificates::load(files(directory.path())).unwrap().expires_at();
        authority.issue_loopback().write_to(directory.path());
        let long = Certificates::load(files(directory.path())).unwrap().expires_at();
        assert!(long.since(short) > ENDS_SOON_MS, "{long:?} {short:?}");
    }
}
