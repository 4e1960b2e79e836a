//! Certificates of private servers, as files in their directory: a server with such files speaks TLS only.
//! Must not decide which authority is trusted: a test makes it.

use crate::certificates::{Authority, CertificateNames, Issued, Validity};
use std::path::{Path, PathBuf};

/// A server's certificate, and the one that it shows as a client to others of its set.
#[derive(Clone, Debug)]
pub struct TlsKeyPair {
    pub server: Issued,
    pub client: Issued,
}

impl TlsKeyPair {
    /// The key pair for 127.0.0.1 and `localhost`.
    #[must_use]
    pub fn loopback(authority: &Authority) -> Self {
        Self::of(authority, CertificateNames::loopback(), Validity::Valid)
    }

    #[must_use]
    pub fn of(authority: &Authority, names: CertificateNames, validity: Validity) -> Self {
        let client = authority.issue(CertificateNames::client("peer"), Validity::Valid);
        Self { server: authority.issue(names, validity), client }
    }

    /// Writes the files before a server is started there.
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
