//! The client: sends a call, reads the answer, and retries where that is safe. A call that may have happened
//! is sent again only if the server can recognize it.

mod access;
mod bulk;
mod cluster;
mod executors;
mod limits;
mod log_filter;
mod namespaces;
mod queues;
mod schedules;
mod tasks;
mod workflows;

pub use schedules::{Synchronised, Vanished};

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use punctual_protocol::{Problem, headers};
use reqwest::Method;
use serde::de::DeserializeOwned;

use crate::backoff::Backoff;
use crate::error::Error;
use crate::tls::Tls;
use crate::transport::{Failure, Http, HttpRequest, Reply, Transport};

const DEFAULT_URL: &str = "http://127.0.0.1:7450";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const TRIES: u32 = 5;

/// Calls a Punctual server. Cheap to clone; clones share their connections.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<ClientState>,
}

#[derive(Debug)]
struct ClientState {
    transport: Arc<dyn Transport>,
    /// Sent with every call.
    headers: Vec<(&'static str, String)>,
    request_timeout: Duration,
    tries: u32,
}

/// States if a call with an unknown result may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeat {
    /// The server recognizes it, or the call changes nothing.
    Safe,
    /// Only after an answer that nothing was done.
    IfNotDone,
    /// Never: the caller has a patience of its own.
    Never,
}

impl Client {
    /// Creates a client with the settings of the environment (`PUNCTUAL_URL`, `PUNCTUAL_TOKEN`).
    pub fn from_env() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// Begins with the settings of the environment.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// The namespace of its calls.
    #[cfg(feature = "redis")]
    pub(crate) fn namespace(&self) -> &str {
        let mut said = self.inner.headers.iter().filter(|(name, _)| *name == headers::NAMESPACE);
        said.next_back().map_or("default", |(_, text)| text)
    }

    async fn fetch<T: DeserializeOwned>(&self, path: String) -> Result<T, Error> {
        self.call(self.new_call(Method::GET, path, Bytes::new()), Repeat::Safe).await
    }

    async fn post<T: DeserializeOwned>(&self, path: String, body: Bytes, repeat: Repeat) -> Result<T, Error> {
        self.call(self.new_call(Method::POST, path, body), repeat).await
    }

    fn new_call(&self, method: Method, path: String, body: Bytes) -> HttpRequest {
        HttpRequest {
            method,
            path,
            headers: self.inner.headers.clone(),
            body,
            timeout: self.inner.request_timeout,
        }
    }

    async fn call<T: DeserializeOwned>(&self, call: HttpRequest, repeat: Repeat) -> Result<T, Error> {
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));
        loop {
            let (error, after) = match self.once(call.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            let wait = backoff.next().max(after.unwrap_or_default());
            if backoff.tries() >= self.inner.tries || !may_repeat(&error, repeat) {
                return Err(error);
            }
            tracing::debug!(path = call.path, error = %error, wait_ms = wait.as_millis(), "call failed, trying again");
            tokio::time::sleep(wait).await;
        }
    }

    /// An answer that is text.
    async fn text(&self, path: String) -> Result<String, Error> {
        match self.inner.transport.send(self.new_call(Method::GET, path, Bytes::new())).await {
            Ok(reply) if (200..300).contains(&reply.status) => {
                Ok(String::from_utf8_lossy(&reply.body).into_owned())
            }
            Ok(reply) => Err(refused(&reply).0),
            Err(Failure::NotSent(source)) => Err(Error::Unreachable { source }),
            Err(Failure::Unanswered(source)) => Err(Error::Indeterminate { source }),
        }
    }

    async fn once<T: DeserializeOwned>(&self, call: HttpRequest) -> Result<T, (Error, Option<Duration>)> {
        match self.inner.transport.send(call).await {
            Ok(reply) if (200..300).contains(&reply.status) => serde_json::from_slice(&reply.body)
                .map_err(|e| (Error::Indeterminate { source: e.into() }, None)),
            Ok(reply) => Err(refused(&reply)),
            Err(Failure::NotSent(source)) => Err((Error::Unreachable { source }, None)),
            Err(Failure::Unanswered(source)) => Err((Error::Indeterminate { source }, None)),
        }
    }
}

fn may_repeat(error: &Error, repeat: Repeat) -> bool {
    match repeat {
        Repeat::Safe => error.may_pass(),
        Repeat::IfNotDone => error.may_pass() && !error.may_have_happened(),
        Repeat::Never => false,
    }
}

/// The error of an answer that is not 2xx, and when to try again.
fn refused(reply: &Reply) -> (Error, Option<Duration>) {
    let mut problem = serde_json::from_slice(&reply.body).unwrap_or_else(|_| foreign(reply));
    problem.status = reply.status;
    let after = problem.retry_after_ms.map(Duration::from_millis).or(reply.retry_after);
    (Error::from_problem(problem), after)
}

/// Something on the way answered that does not speak problem documents, a proxy for example.
fn foreign(reply: &Reply) -> Problem {
    let said = String::from_utf8_lossy(&reply.body).chars().take(200).collect::<String>();
    Problem {
        code: "foreign".into(),
        title: "The answer is not a problem document".into(),
        kind: "about:blank".into(),
        ..Problem::new(punctual_protocol::Code::Internal, said)
    }
}

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct ClientBuilder {
    url: String,
    token: Option<String>,
    namespace: Option<String>,
    connect_timeout: Duration,
    request_timeout: Duration,
    tries: u32,
    tls: Tls,
    transport: Option<Arc<dyn Transport>>,
}

impl Default for ClientBuilder {
    fn default() -> Self {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            url: set("PUNCTUAL_URL").unwrap_or_else(|| DEFAULT_URL.to_owned()),
            token: set("PUNCTUAL_TOKEN"),
            tls: Tls {
                ca: set("PUNCTUAL_CA_FILE").map(PathBuf::from),
                cert: set("PUNCTUAL_CLIENT_CERT").map(PathBuf::from),
                key: set("PUNCTUAL_CLIENT_KEY").map(PathBuf::from),
            },
            ..Self::without_environment()
        }
    }
}

impl ClientBuilder {
    /// Ignores the environment: for programs that use several servers.
    #[must_use]
    pub fn without_environment() -> Self {
        Self {
            url: DEFAULT_URL.to_owned(),
            token: None,
            namespace: None,
            connect_timeout: CONNECT_TIMEOUT,
            request_timeout: REQUEST_TIMEOUT,
            tries: TRIES,
            tls: Tls { ca: None, cert: None, key: None },
            transport: None,
        }
    }

    /// Address of the server, `http://host:port` or `https://host:port`; for several engines of one cluster,
    /// separated by commas. A call is sent to the one that answered last, and to the next if that is
    /// unreachable.
    #[must_use]
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.url = url.into();
        self
    }

    /// Bearer token.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// A file with the authorities whose servers are trusted, as PEM; those that the system trusts unless set.
    #[must_use]
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls.ca = Some(path.into());
        self
    }

    /// PEM files of the client certificate and its key, for servers that require one.
    #[must_use]
    pub fn client_certificate(mut self, cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        (self.tls.cert, self.tls.key) = (Some(cert.into()), Some(key.into()));
        self
    }

    /// Namespace of every call; the server's `default` unless set.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Sets the time limit for a connection. Default: 2 s.
    #[must_use]
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = connect_timeout;
        self
    }

    /// Sets the time limit for an answer, beyond the time of a long poll. Default: 10 s.
    #[must_use]
    pub fn request_timeout(mut self, request_timeout: Duration) -> Self {
        self.request_timeout = request_timeout;
        self
    }

    /// Sets the maximum number of times that a repeatable call is sent, the first time included. Default: 5.
    #[must_use]
    pub fn tries(mut self, tries: u32) -> Self {
        self.tries = tries;
        self
    }

    /// Another way to a server than HTTP: one in the same process, for tests. `url` and `connect_timeout` are then not used.
    #[must_use]
    pub fn transport(mut self, transport: Arc<dyn Transport>) -> Self {
        self.transport = Some(transport);
        self
    }

    /// The client. Does not connect yet.
    pub fn build(self) -> Result<Client, Error> {
        let headers = self.headers()?;
        let transport = match self.transport {
            Some(transport) => transport,
            None => Arc::new(http(&self.url, self.connect_timeout, &self.tls)?),
        };
        let (request_timeout, tries) = (self.request_timeout, self.tries);
        Ok(Client { inner: Arc::new(ClientState { transport, headers, request_timeout, tries }) })
    }

    fn headers(&self) -> Result<Vec<(&'static str, String)>, Error> {
        let bearer = self.token.as_ref().map(|token| ("authorization", format!("Bearer {token}")));
        let namespace = self.namespace.as_ref().map(|name| (headers::NAMESPACE, name.clone()));
        let all: Vec<_> = bearer.into_iter().chain(namespace).collect();
        match all.iter().find(|(_, value)| !value.bytes().all(|b| (b' '..=b'~').contains(&b))) {
            Some((name, _)) => Err(Error::configuration(format!(
                "the value for header {name} has characters that no header can carry"
            ))),
            None => Ok(all),
        }
    }
}

fn http(urls: &str, connect_timeout: Duration, tls: &Tls) -> Result<Http, Error> {
    let bases: Result<Vec<_>, _> = urls.split(',').map(|part| base(part.trim())).collect();
    Http::new(bases?, connect_timeout, tls)
}

/// An address without a trailing slash.
fn base(url: &str) -> Result<String, Error> {
    let url = url.trim_end_matches('/');
    match reqwest::Url::parse(url) {
        Ok(parsed)
            if matches!(parsed.scheme(), "http" | "https")
                && parsed.has_host()
                && parsed.query().is_none() =>
        {
            Ok(url.to_owned())
        }
        _ => Err(Error::configuration(format!(
            "url {url}: must be http://host:port or https://host:port, several with commas between"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_cannot_work_is_refused_at_once() {
        for url in [
            "https://",
            "https://x/?a=b",
            "ftp://x",
            "127.0.0.1:7450",
            "",
            "http://",
            "http://x/?a=b",
            "http://x,",
            "http://x,y",
        ] {
            assert!(matches!(Client::builder().url(url).build(), Err(Error::Configuration { .. })), "{url}");
        }
        for url in ["http://127.0.0.1:7450/", "https://example.org", "http://a:7450, http://b:7450/"] {
            assert!(Client::builder().url(url).build().is_ok(), "{url}");
        }
    }

    #[test]
    fn files_of_tls_that_cannot_be_used_are_named_and_not_read_for_plain_http() {
        let of = |url: &str| Client::builder().url(url).ca_file("/no/such/ca.pem").build();
        let error = of("https://example.org").unwrap_err().to_string();
        assert!(error.contains("/no/such/ca.pem"), "{error}");
        assert!(of("http://example.org").is_ok());
    }

    #[test]
    fn a_token_that_no_header_can_carry_is_refused_without_showing_it() {
        let error = Client::builder().token("secret\n").build().unwrap_err().to_string();
        assert!(error.contains("authorization") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn an_answer_that_is_no_problem_document_is_still_an_error_with_its_status() {
        let (error, after) =
            refused(&Reply { status: 502, body: "<html>".into(), retry_after: Some(Duration::from_secs(3)) });
        assert!(error.may_have_happened());
        assert_eq!(after, Some(Duration::from_secs(3)));
        let problem = error.problem().unwrap();
        assert_eq!(
            (problem.status, problem.code.as_ref(), problem.detail.as_str()),
            (502, "foreign", "<html>")
        );
    }
}
