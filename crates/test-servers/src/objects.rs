//! A private object store that speaks S3 (`moto_server`, installed by `scripts/install-clients`). It keeps
//! everything in memory, and checks no key until a test asks it to.

use super::{
    beside,
    process::Process,
    watchdog::{Watchdog, shown},
};
use crate::patience::HANG_LIMIT;
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    path::PathBuf,
    sync::Arc,
};

const REGION: &str = "us-east-1";

#[derive(Debug)]
pub struct ObjectServer {
    process: Arc<Process>,
}

impl ObjectServer {
    /// Accepts any key and secret.
    pub async fn open() -> Self {
        beside(|| Self::start(None)).await
    }

    /// Checks keys and secrets after this many requests.
    pub async fn closed_after(requests: u32) -> Self {
        beside(move || Self::start(Some(requests))).await
    }

    fn start(free: Option<u32>) -> Self {
        let server = shown(&moto_server());
        let command = move |port: u16| {
            let count = free.map_or_else(|| "inf".to_owned(), |free| free.to_string());
            let words = ["env", &format!("INITIAL_NO_AUTH_ACTION_COUNT={count}"), &server, "-H", "127.0.0.1"];
            let port = port.to_string();
            words.into_iter().chain(["-p", &port]).map(str::to_owned).collect()
        };
        Self { process: Process::start(&Arc::new(Watchdog::start()), "objects", command, answers) }
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.process.port()
    }

    /// `http://host:port`
    #[must_use]
    pub fn endpoint(&self) -> String {
        endpoint(self.port())
    }

    pub async fn make_bucket(&self, name: &str) {
        let answer = self.ask("PUT", &format!("/{name}"), "s3", "").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    /// The names of all objects of a bucket.
    pub async fn names(&self, bucket: &str) -> Vec<String> {
        let answer = self.ask("GET", &format!("/{bucket}?list-type=2"), "s3", "").await;
        let names = answer.split("<Key>").skip(1);
        names.filter_map(|name| Some(name.split_once("</Key>")?.0.to_owned())).collect()
    }

    /// One request to a service; its answer, head and body.
    pub async fn ask(&self, method: &'static str, path: &str, service: &str, form: &str) -> String {
        let (port, path, service, form) = (self.port(), path.to_owned(), service.to_owned(), form.to_owned());
        beside(move || ask(port, method, &path, &service, &form).unwrap_or_else(|error| panic!("{error}")))
            .await
    }

    /// kill -9: the process and its data are gone when this returns.
    pub fn kill(&self) {
        self.process.kill();
    }
}

/// A client's environment variables: a server at this port, and a key.
#[must_use]
pub fn variables(port: u16, key: &str, secret: &str) -> Vec<(&'static str, String)> {
    vec![
        ("AWS_ENDPOINT", endpoint(port)),
        ("AWS_ALLOW_HTTP", "true".to_owned()),
        ("AWS_REGION", REGION.to_owned()),
        ("AWS_ACCESS_KEY_ID", key.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", secret.to_owned()),
    ]
}

fn endpoint(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

/// Relative to the build directory.
fn moto_server() -> PathBuf {
    let this = std::env::current_exe().expect("a test knows where it is");
    let mut found = this.ancestors().map(|ancestor| ancestor.join("clients/venv/bin/moto_server"));
    found
        .find(|path| path.is_file())
        .expect("moto_server is missing: scripts/install-clients (scripts/test runs it)")
}

fn answers(process: &Process) -> bool {
    ask(process.port(), "GET", "/moto-api/", "s3", "").is_ok_and(|text| text.starts_with("HTTP/1.1 200"))
}

fn ask(port: u16, method: &str, path: &str, service: &str, form: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(HANG_LIMIT))?;
    let scope = format!("AWS4-HMAC-SHA256 Credential=test/20260101/{REGION}/{service}/aws4_request");
    let length = form.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\nAuthorization: {scope}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n{form}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
