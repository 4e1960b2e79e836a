//! Certificates of private servers, as files in their directory: a server that finds them there speaks TLS, and nothing
//! else. Must not decide who is trusted: a test makes the authority.

use crate::certificates::{Authority, CertificateNames, Issued, Validity};
use std::path::{Path, PathBuf};

/// What a server shows, and what it shows to others of its set as their client.
#[derive(Clone, Debug)]
pub struct TlsKeyPair {
    pub server: Issued,
    pub client: Issued,
}

impl TlsKeyPair {
    /// For 127.0.0.1 and `localhost`.
    #[must_use]
    pub fn loopback(authority: &Authority) -> Self {
        Self::of(authority, CertificateNames::loopback(), Validity::Valid)
    }

    #[must_use]
    pub fn of(authority: &Authority, names: CertificateNames, validity: Validity) -> Self {
        let client = authority.issue(CertificateNames::client("peer"), Validity::Valid);
        Self { server: authority.issue(names, validity), client }
    }

    /// Before a server is started there.
    pub(crate) fn write_to(&self, dir: &Path) {
        self.server.write_as("server", dir);
        self.client.write_as("client", dir);
    }
}

/// The authority's file, where the servers of a directory speak TLS.
pub(crate) fn authority_in(dir: &Path) -> Option<PathBuf> {
    Some(dir.join("ca.pem")).filter(|path| path.exists())
}

/// A file of a directory as a word of a command line.
pub(crate) fn file(dir: &Path, name: &str) -> String {
    crate::watchdog::shown(&dir.join(name))
}
