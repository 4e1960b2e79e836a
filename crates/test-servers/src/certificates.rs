//! Certificates for tests: an authority that is made for one test, and the certificates that it issues to
//! servers and clients: good, expired or for another name. Keys are new each time; they are never trusted
//! outside a test.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

const DAY: Duration = Duration::from_hours(24);
const YEAR: Duration = Duration::from_hours(365 * 24);

/// Signs certificates. Two authorities never trust each other's certificates.
#[derive(Debug)]
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// Whom a certificate is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateNames {
    /// A server that is reached under these DNS names and addresses.
    Server(Vec<String>),
    /// A client of this name.
    Client(String),
}

/// The validity of a certificate, by the machine's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// The certificate is valid from yesterday, for years.
    Valid,
    /// The certificate was valid until yesterday.
    Expired,
    /// The certificate is valid from tomorrow on.
    NotYet,
    /// The certificate is valid from yesterday until this long from now.
    EndsIn(Duration),
}

/// A certificate, its key, and the authority's own certificate, which its peers trust.
#[derive(Clone, Debug)]
pub struct Issued {
    pub ca_pem: String,
    pub cert_pem: String,
    pub key_pem: String,
}

/// The paths of the files of a certificate.
#[derive(Clone, Debug)]
pub struct Files {
    /// `ca.pem`
    pub ca: PathBuf,
    /// `server.pem`, or `client.pem`
    pub cert: PathBuf,
    /// `server.key`, or `client.key`
    pub key: PathBuf,
}

impl CertificateNames {
    #[must_use]
    pub fn server(names: &[&str]) -> Self {
        Self::Server(names.iter().map(|name| (*name).to_owned()).collect())
    }

    /// `localhost`, 127.0.0.1 and ::1.
    #[must_use]
    pub fn loopback() -> Self {
        Self::server(&["localhost", "127.0.0.1", "::1"])
    }

    #[must_use]
    pub fn client(name: &str) -> Self {
        Self::Client(name.to_owned())
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    #[must_use]
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        let (name, valid) = (format!("Punctual test authority {:x}", fastrand::u64(..)), Validity::Valid);
        params.distinguished_name = named(&name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        set_validity(&mut params, valid);
        Self { issuer: CertifiedIssuer::self_signed(params, new_key()).expect("an authority can be made") }
    }

    /// The certificate that peers trust.
    #[must_use]
    pub fn ca_pem(&self) -> String {
        self.issuer.pem()
    }

    /// # Panics
    /// Panics for a name that no certificate can carry.
    #[must_use]
    pub fn issue(&self, names: CertificateNames, validity: Validity) -> Issued {
        let (subject, alternatives, usage) = match names {
            CertificateNames::Server(all) => {
                (all.first().cloned().unwrap_or_default(), all, ExtendedKeyUsagePurpose::ServerAuth)
            }
            CertificateNames::Client(name) => (name, Vec::new(), ExtendedKeyUsagePurpose::ClientAuth),
        };
        let mut params = CertificateParams::new(alternatives).expect("names that a certificate can carry");
        params.distinguished_name = named(&subject);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params, validity);
        let key = new_key();
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate can be signed");
        Issued { ca_pem: self.ca_pem(), cert_pem: certificate.pem(), key_pem: key.serialize_pem() }
    }

    /// A server of loopback, as most tests want it.
    #[must_use]
    pub fn issue_loopback(&self) -> Issued {
        self.issue(CertificateNames::loopback(), Validity::Valid)
    }
}

impl Issued {
    /// Writes `ca.pem`, `server.pem` and `server.key`.
    ///
    /// # Panics
    /// When it cannot.
    pub fn write_to(&self, directory: &Path) -> Files {
        self.write_as("server", directory)
    }

    /// Writes `ca.pem`, and certificate and key under another name than `server`.
    ///
    /// # Panics
    /// When it cannot.
    pub fn write_as(&self, name: &str, directory: &Path) -> Files {
        let files = Files {
            ca: directory.join("ca.pem"),
            cert: directory.join(format!("{name}.pem")),
            key: directory.join(format!("{name}.key")),
        };
        let texts = [(&files.ca, &self.ca_pem), (&files.cert, &self.cert_pem), (&files.key, &self.key_pem)];
        for (path, text) in texts {
            fs::write(path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        // As of a key that is in use: programs say so of one that everybody may read.
        fs::set_permissions(&files.key, fs::Permissions::from_mode(0o600))
            .unwrap_or_else(|error| panic!("{}: {error}", files.key.display()));
        files
    }
}

fn new_key() -> KeyPair {
    KeyPair::generate().expect("the machine has randomness")
}

fn named(name: &str) -> DistinguishedName {
    let mut named = DistinguishedName::new();
    named.push(DnType::CommonName, name);
    named
}

#[expect(clippy::disallowed_methods, reason = "who checks a certificate reads the machine's clock, too")]
fn set_validity(params: &mut CertificateParams, validity: Validity) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
    let (from, until) = match validity {
        Validity::Valid => (now - DAY, now + YEAR * 5),
        Validity::Expired => (now - YEAR, now - DAY),
        Validity::NotYet => (now + DAY, now + YEAR),
        Validity::EndsIn(rest) => (now - DAY, now + rest),
    };
    let epoch = date_time_ymd(1970, 1, 1);
    (params.not_before, params.not_after) = (epoch + from, epoch + until);
}
