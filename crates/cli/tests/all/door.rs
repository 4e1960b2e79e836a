//! The door of a real process: few descriptors and many who do nothing, TLS, and what its clients say of it.

use crate::binary::{Running, Server, address, punctual, run, stderr, stdout, wait_for};
use punctual_testkit::certificates::{Authority, CertificateNames, Files, Issued, Validity};
use serde_json::json;
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::Command,
};
use tempfile::TempDir;

/// `serve` with so many descriptors.
fn serve_with_descriptors(descriptors: u32, data: &Path) -> Server {
    let limited = Server::command(data, &[]);
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("ulimit -n {descriptors} && exec \"$0\" \"$@\""));
    command.arg(limited.get_program()).args(limited.get_args());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("PUNCTUAL_")) {
        command.env_remove(name);
    }
    let mut process = Running::start(&mut command);
    let url = address(&process.first_line());
    Server { process, url }
}

fn place(server: &Server) -> &str {
    server.url.split_once("://").unwrap().1
}

/// The first bytes of an answer; empty: there was none.
fn asked(server: &Server) -> Option<(TcpStream, String)> {
    let mut stream = TcpStream::connect(place(server)).ok()?;
    stream.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").ok()?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).ok()?;
    Some((stream, String::from_utf8_lossy(&answer).into_owned()))
}

#[test]
fn at_256_descriptors_those_who_ask_nothing_keep_nobody_out() {
    let data = tempfile::tempdir().unwrap();
    let server = serve_with_descriptors(256, data.path());
    // Idle ones make room for each other: every single one is served.
    let idle: Vec<_> = (0..300).map(|_| asked(&server).unwrap()).collect();
    assert!(idle.iter().all(|pair| pair.1 == "HTTP/1.1 200"));
    assert_eq!(server.insert(json!({ "queue": "q", "delay_ms": 60_000 }))["queue"], "q");
    let silent: Vec<_> = (0..300).map(|_| TcpStream::connect(place(&server)).unwrap()).collect();
    let served = || asked(&server).filter(|pair| pair.1 == "HTTP/1.1 200");
    wait_for("an answer beside those who say nothing", served);
    wait_for("an insert", || (server.post("/v1/tasks", json!({ "queue": "q" })).0 == 201).then_some(()));
    assert!(server.metric("punctual_http_accept_failures_total") < 1.0, "descriptors are left for the rest");
    drop((idle, silent));
}

struct Secured {
    server: Server,
    ca: String,
    _directory: TempDir,
}

impl Secured {
    fn with(issued: &Issued, more: &[String]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let Files { ca, cert, key } = issued.write_to(directory.path());
        let set = [format!("tls.cert={}", cert.display()), format!("tls.key={}", key.display())];
        let args: Vec<&str> = set.iter().chain(more).flat_map(|text| ["--set", text]).collect();
        let server = Server::start_with(&directory.path().join("data"), &args);
        assert!(server.url.starts_with("https://127.0.0.1:"), "{}", server.url);
        Self { server, ca: ca.to_str().unwrap().to_owned(), _directory: directory }
    }

    fn list(&self, more: &[&str]) -> (Option<i32>, String) {
        let output = run(&[&["queue", "list", "--url", &self.server.url], more].concat());
        (output.status.code(), stdout(&output) + &stderr(&output))
    }
}

#[track_caller]
fn assert_says((code, said): (Option<i32>, String), words: &[&str]) {
    assert_eq!(code, Some(1), "{said}");
    for word in words {
        assert!(said.contains(word), "{word}: {said}");
    }
}

#[test]
fn https_is_spoken_and_what_is_wrong_with_it_is_said_with_the_way_out() {
    let authority = Authority::new();
    let good = Secured::with(&authority.issue_loopback(), &[]);
    assert_eq!(good.list(&["--ca", &good.ca]).0, Some(0));
    let by_variable =
        punctual(&["queue", "list", "--url", &good.server.url]).env("PUNCTUAL_CA_FILE", &good.ca).output();
    assert_eq!(by_variable.unwrap().status.code(), Some(0));
    let not_trusted = ["not trusted here", "PUNCTUAL_CA_FILE", "--ca"];
    assert_says(good.list(&["--ca", "/no/such/ca.pem"]), &["/no/such/ca.pem"]);
    let foreign = Authority::new().issue_loopback();
    let foreign_server = Secured::with(&foreign, &[]);
    assert_says(foreign_server.list(&["--ca", &good.ca]), &not_trusted);
    let named = authority.issue(CertificateNames::server(&["other.example"]), Validity::Valid);
    assert_says(
        Secured::with(&named, &[]).list(&["--ca", &good.ca]),
        &["not for the name 127.0.0.1", "other.example"],
    );
    let expired = authority.issue(CertificateNames::loopback(), Validity::Expired);
    assert_says(Secured::with(&expired, &[]).list(&["--ca", &good.ca]), &["has expired"]);
    let (plain, _data) = Server::on_new_data();
    let url = plain.url.replace("http://", "https://");
    let output = run(&["queue", "list", "--url", &url, "--ca", &good.ca]);
    assert_says((output.status.code(), stderr(&output)), &["does not speak TLS", "http://"]);
    let url = good.server.url.replace("https://", "http://");
    let output = run(&["queue", "list", "--url", &url]);
    assert_says((output.status.code(), stderr(&output)), &["speaks TLS", "https://"]);
}

#[test]
fn a_client_certificate_is_shown_when_it_is_wanted() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let directory = tempfile::tempdir().unwrap();
    let Files { ca, cert, key } = clients
        .issue(CertificateNames::client("worker"), Validity::Valid)
        .write_as("client", directory.path());
    let wanted = [format!("tls.client_ca={}", ca.display())];
    let secured = Secured::with(&authority.issue_loopback(), &wanted);
    assert_says(secured.list(&["--ca", &secured.ca]), &["wants a client certificate", "--client-cert"]);
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let shown = secured.list(&["--ca", &secured.ca, "--client-cert", cert, "--client-key", key]);
    assert_eq!(shown.0, Some(0), "{}", shown.1);
}

#[test]
fn a_server_that_cannot_use_its_certificate_does_not_start() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let files = authority.issue_loopback().write_to(directory.path());
    std::fs::write(&files.key, authority.issue_loopback().key_pem).unwrap();
    let set = [format!("tls.cert={}", files.cert.display()), format!("tls.key={}", files.key.display())];
    let output = run(&["serve", "--listen", "127.0.0.1:0", "--set", &set[0], "--set", &set[1]]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("is not the key of"), "{}", stderr(&output));
}
