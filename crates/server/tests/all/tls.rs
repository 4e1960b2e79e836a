//! TLS: versions, HTTP/2, new certificates under standing connections, client certificates, and a stop.

use crate::server::{LONG_POLLS, TestListener, value};
use punctual_server::{ListenerOptions, ServerOptions, TlsFiles};
use punctual_testkit::{
    certificates::{Authority, CertificateNames, Files, Validity},
    patience::{HANG_LIMIT, until},
};
use reqwest::{Certificate, Client, ClientBuilder, Identity, Version};
use rustls::{
    ClientConfig, ProtocolVersion, RootCertStore, SupportedProtocolVersion,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
    version::{TLS12, TLS13},
};
use std::{fs, sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

pub(crate) fn install_provider() {
    let _ = ring::default_provider().install_default();
}

struct Secured {
    server: TestListener,
    authority: Authority,
    directory: TempDir,
    files: Files,
}

impl Secured {
    async fn open() -> Self {
        Self::with(|tls| tls).await
    }

    async fn with(change: impl FnOnce(TlsFiles) -> TlsFiles) -> Self {
        let (authority, directory) = (Authority::new(), tempfile::tempdir().unwrap());
        let files = authority.issue_loopback().write_to(directory.path());
        let tls = TlsFiles { cert: files.cert.clone(), key: files.key.clone(), client_ca: None };
        let listener = ListenerOptions {
            tls: Some(change(tls)),
            tls_look_every: Duration::from_millis(10),
            handshake_timeout: HANG_LIMIT,
            ..ListenerOptions::default()
        };
        let server = TestListener::with(ServerOptions { listener, ..ServerOptions::default() }).await;
        Self { server, authority, directory, files }
    }

    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.server.address.port())
    }

    fn client(&self) -> ClientBuilder {
        install_provider();
        let ca = Certificate::from_pem(self.authority.ca_pem().as_bytes()).unwrap();
        Client::builder().tls_certs_only([ca])
    }

    async fn text(&self, client: &Client, path: &str) -> String {
        client.get(self.url(path)).send().await.unwrap().text().await.unwrap()
    }

    /// A handshake with this version and these protocols.
    async fn shake(&self, version: &'static SupportedProtocolVersion, alpn: &[&str]) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.ca_pem().as_bytes()).unwrap()).unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|text| text.as_bytes().to_vec()).collect();
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, self.server.connect().await).await.unwrap()
    }

    /// The certificate that a new connection is shown.
    async fn shown(&self) -> Vec<u8> {
        let stream = self.shake(&TLS13, &[]).await;
        stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    }
}

async fn live(stream: &mut TlsStream<TcpStream>) -> bool {
    stream.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut head = [0; 15];
    stream.read_exact(&mut head).await.unwrap();
    let mut rest = vec![0; 4_096];
    let _ = stream.read(&mut rest).await.unwrap();
    &head == b"HTTP/1.1 200 OK"
}

#[tokio::test]
async fn both_versions_and_both_protocols_are_spoken() {
    let secured = Secured::open().await;
    for (offered, version) in [(&TLS12, ProtocolVersion::TLSv1_2), (&TLS13, ProtocolVersion::TLSv1_3)] {
        let mut stream = secured.shake(offered, &["http/1.1"]).await;
        assert_eq!(stream.get_ref().1.protocol_version(), Some(version));
        assert!(live(&mut stream).await);
        let both = secured.shake(offered, &["http/1.1", "h2"]).await;
        assert_eq!(both.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    }
    for (client, version) in
        [(secured.client(), Version::HTTP_2), (secured.client().http1_only(), Version::HTTP_11)]
    {
        let answer = client.build().unwrap().get(secured.url("/livez")).send().await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.version()), (200, version));
    }
    secured.server.close().await;
}

#[tokio::test]
async fn who_speaks_plain_http_is_told_so_and_who_says_nothing_is_ended() {
    let secured = Secured::open().await;
    let reported = secured.server.get("/livez").await;
    assert!(reported.starts_with("HTTP/1.1 400") && reported.contains("use https://"), "{reported}");
    let mut broken = secured.server.connect().await;
    broken.write_all(b"\x16\x03\x01\x00\x05hello").await.unwrap();
    let _ = crate::server::rest(&mut broken).await;
    let metrics = secured.text(&secured.client().build().unwrap(), "/metrics").await;
    let failures =
        |why: &str| value(&metrics, &format!("punctual_http_tls_failures_total{{reason=\"{why}\"}}"));
    assert!((failures("plain"), failures("handshake")) == (1.0, 1.0), "{metrics}");
    assert!(value(&metrics, "punctual_tls_certificate_expires_time_seconds") > 1.7e9);
    secured.server.close().await;
}

#[tokio::test]
async fn new_certificates_are_taken_while_a_connection_stays_and_bad_ones_are_not() {
    let secured = Secured::open().await;
    let mut standing = secured.shake(&TLS13, &["http/1.1"]).await;
    assert!(live(&mut standing).await);
    let first = secured.shown().await;
    secured
        .authority
        .issue(CertificateNames::loopback(), Validity::EndsIn(Duration::from_hours(48)))
        .write_to(secured.directory.path());
    until("the new certificate is shown", async || secured.shown().await != first).await;
    let second = secured.shown().await;
    assert!(live(&mut standing).await, "the connection stands");
    fs::write(&secured.files.key, "no key").unwrap();
    let client = secured.client().build().unwrap();
    let alerts = async || secured.text(&client, "/v1/alerts").await;
    until("the fault is told", async || alerts().await.contains("certificate_not_usable")).await;
    let reported = alerts().await;
    assert!(reported.contains("server.key") && !reported.contains("no key"), "{reported}");
    assert_eq!(secured.shown().await, second, "the old one is in use");
    let metrics = secured.text(&client, "/metrics").await;
    assert!(value(&metrics, "punctual_tls_reload_failures_total") >= 1.0);
    assert!(value(&metrics, "punctual_tls_reloads_total") >= 1.0);
    secured.authority.issue_loopback().write_to(secured.directory.path());
    until("all is well again", async || !alerts().await.contains("certificate_not_usable")).await;
    drop((standing, client));
    secured.server.close().await;
}

#[tokio::test]
async fn a_client_without_the_right_certificate_is_not_served() {
    let clients = Authority::new();
    let place = tempfile::tempdir().unwrap();
    let ca = place.path().join("clients.pem");
    fs::write(&ca, clients.ca_pem()).unwrap();
    let secured = Secured::with(|tls| TlsFiles { client_ca: Some(ca), ..tls }).await;
    let with = |issued: punctual_testkit::certificates::Issued| {
        let pem = issued.cert_pem + &issued.key_pem;
        secured.client().identity(Identity::from_pem(pem.as_bytes()).unwrap()).build().unwrap()
    };
    let good = with(clients.issue(CertificateNames::client("worker"), Validity::Valid));
    assert_eq!(good.get(secured.url("/livez")).send().await.unwrap().status(), 200);
    for bad in [
        secured.client().build().unwrap(),
        with(secured.authority.issue(CertificateNames::client("worker"), Validity::Valid)),
        with(clients.issue(CertificateNames::client("worker"), Validity::Expired)),
    ] {
        assert!(bad.get(secured.url("/livez")).send().await.is_err());
    }
    drop(good);
    secured.server.close().await;
}

#[tokio::test]
async fn a_stop_answers_what_waits_over_http2_and_ends_what_is_idle() {
    let mut secured = Secured::open().await;
    let mut idle = secured.shake(&TLS12, &["http/1.1"]).await;
    assert!(live(&mut idle).await);
    let client = secured.client().build().unwrap();
    let poll =
        client.post(secured.url("/v1/queues/q/lease")).json(&serde_json::json!({"wait_ms": 60_000})).send();
    let stop = async {
        let watcher = secured.client().build().unwrap();
        until("it waits", async || value(&secured.text(&watcher, "/metrics").await, LONG_POLLS) >= 1.0).await;
        secured.server.shutdown.cancel();
    };
    let (polled, ()) = tokio::join!(poll, stop);
    let polled = polled.unwrap();
    assert_eq!(polled.version(), Version::HTTP_2);
    assert_eq!(polled.text().await.unwrap(), r#"{"tasks":[]}"#);
    let mut rest = Vec::new();
    let _ = idle.read_to_end(&mut rest).await;
    assert_eq!(rest, b"");
    secured.server.ended().await;
}

#[tokio::test]
async fn over_tls_browsers_are_told_to_come_by_tls_alone() {
    let secured = Secured::open().await;
    let client = secured.client().build().unwrap();
    for path in ["/livez", "/v1/queues", "/docs/", "/console"] {
        let answer = client.get(secured.url(path)).send().await.unwrap();
        let reported = answer
            .headers()
            .get("strict-transport-security")
            .map(|transport_security| transport_security.to_str().unwrap().to_owned());
        assert_eq!(reported.as_deref(), Some("max-age=31536000"), "{path}");
    }
    secured.server.close().await;
}
