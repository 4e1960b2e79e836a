//! The expiry of certificates: of a file, as MySQL writes it, and as a server shows it in its handshake. Does not
//! check whether they are trusted: the actual client does.

use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
};
use std::{
    fmt::Display,
    path::Path,
    sync::{Arc, OnceLock},
};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use x509_cert::{Certificate, der::Decode as _};

/// The end of the first certificate of a file, ms since 1970.
pub(super) fn of_file(path: &Path) -> Result<i64, String> {
    let unusable = |said: &dyn Display| format!("{} cannot be read: {said}", path.display());
    let bytes = std::fs::read(path).map_err(|error| unusable(&error))?;
    let first = CertificateDer::pem_slice_iter(&bytes).next();
    let first = first.ok_or_else(|| unusable(&"it holds no certificate in PEM form"))?;
    let first = first.map_err(|error| unusable(&error))?;
    of_der(&first).map_err(|error| unusable(&error))
}

fn of_der(der: &[u8]) -> Result<i64, String> {
    let certificate = Certificate::from_der(der).map_err(|error| error.to_string())?;
    let not_after = certificate.tbs_certificate().validity().not_after.to_unix_duration();
    i64::try_from(not_after.as_millis()).map_err(|error| error.to_string())
}

/// `Nov 23 04:06:21 2031 GMT`, as servers write it, or `None` means otherwise.
pub(super) fn instant(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<&str> = text.split_whitespace().collect();
    let [month, day, time, year, "GMT"] = words.as_slice() else { return None };
    let month = i64::try_from(MONTHS.iter().position(|candidate| candidate == month)?).ok()? + 1;
    let (day, year): (i64, i64) = (day.parse().ok()?, year.parse().ok()?);
    let mut parts = time.split(':').map(str::parse::<i64>);
    let (hours, minutes, seconds) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    let seconds = ((days(year, month, day) * 24 + hours) * 60 + minutes) * 60 + seconds;
    Some(seconds * 1_000)
}

/// The number of days since 1970-01-01, in the Gregorian calendar; March is the first month, so that a leap day is
/// the last of its year.
const fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The expiry of the certificate that a server shows to a client. Nothing is sent but the greeting.
pub(super) async fn shown(host: &str, port: u16) -> Result<i64, String> {
    let host = host.trim_matches(['[', ']']);
    let stream = TcpStream::connect((host, port)).await.map_err(|error| error.to_string())?;
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    let witness = Arc::new(Witness { provider: Arc::new(ring::default_provider()), seen: OnceLock::new() });
    let config = ClientConfig::builder_with_provider(Arc::clone(&witness.provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(&witness) as Arc<dyn ServerCertVerifier>)
        .with_no_client_auth();
    let greeted = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    match (witness.seen.get(), greeted) {
        (Some(der), _) => of_der(der),
        (None, Err(error)) => Err(error.to_string()),
        (None, Ok(_)) => Err("no certificate was shown".to_owned()),
    }
}

/// Accepts any certificate, and stores it: nothing confidential is sent over the connection.
#[derive(Debug)]
struct Witness {
    provider: Arc<CryptoProvider>,
    seen: OnceLock<Vec<u8>>,
}

impl ServerCertVerifier for Witness {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.seen.get_or_init(|| end_entity.to_vec());
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_testkit::certificates::{Authority, CertificateNames, Validity};
    use std::time::Duration;

    #[test]
    fn instants_are_read_as_servers_write_them() {
        for (text, seconds) in [
            ("Jan  1 00:00:00 1970 GMT", 0),
            ("Nov 23 04:06:21 2031 GMT", 1_953_173_181),
            ("Feb 29 23:59:59 2028 GMT", 1_835_481_599),
            ("Mar  1 00:00:00 2100 GMT", 4_107_542_400),
        ] {
            assert_eq!(instant(text), Some(seconds * 1_000), "{text}");
        }
        for odd in ["", "2031-11-23 04:06:21", "Nov 23 04:06 2031 GMT", "Nov 23 04:06:21 2031 CET"] {
            assert_eq!(instant(odd), None, "{odd}");
        }
    }

    #[test]
    fn the_end_of_a_file_is_that_of_its_certificate() {
        let dir = tempfile::tempdir().unwrap();
        let in_a_week = Validity::EndsIn(Duration::from_hours(7 * 24));
        let files = Authority::new().issue(CertificateNames::loopback(), in_a_week).write_to(dir.path());
        let ends_at = of_file(&files.cert).unwrap();
        let now = i64::try_from(crate::clock::SystemClock::since_epoch().as_millis()).unwrap();
        assert!((ends_at - now - 7 * 24 * 3_600_000).abs() < 60_000);
        assert!(of_file(&files.key).is_err());
        assert!(of_file(Path::new("/no/such/file")).unwrap_err().contains("/no/such/file"));
    }
}
