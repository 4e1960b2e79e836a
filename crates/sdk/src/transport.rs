//! The transport of a call: over HTTP, or straight into a server that runs in the same process (tests). A failure
//! must state whether the request can have been sent, because retries depend on it; when in doubt, it was.

use std::error::Error as StdError;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use reqwest::{Method, header};

use crate::{
    error::Error,
    tls::{self, Tls},
};

/// One HTTP request.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    pub method: Method,
    /// Path and query, beginning with `/v1/`.
    pub path: String,
    /// Lower-case names and their values.
    pub headers: Vec<(&'static str, String)>,
    /// JSON; empty for none.
    pub body: Bytes,
    /// The time after which a request without an answer counts as unanswered.
    pub timeout: Duration,
}

/// One HTTP answer.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    pub status: u16,
    pub body: Bytes,
    /// The header `Retry-After`, if it was there, in seconds.
    pub retry_after: Option<Duration>,
}

/// The reasons why there is no answer.
#[derive(Debug)]
pub enum Failure {
    /// The request has certainly not been sent.
    NotSent(Box<dyn StdError + Send + Sync>),
    /// It may have been.
    Unanswered(Box<dyn StdError + Send + Sync>),
}

/// Carries calls to a server.
pub trait Transport: Debug + Send + Sync + 'static {
    /// Sends one request, once, and waits for the answer.
    fn send(&self, call: HttpRequest) -> BoxFuture<'_, Result<Reply, Failure>>;
}

/// HTTP with a pool of open connections, to one server or to several of one cluster.
#[derive(Debug)]
pub(crate) struct Http {
    bases: Vec<String>,
    /// The index of the server that is requested first: the one that answered last.
    current: AtomicUsize,
    http: reqwest::Client,
}

impl Http {
    /// `bases`: at least one, without trailing slashes.
    pub(crate) fn new(bases: Vec<String>, connect_timeout: Duration, tls: &Tls) -> Result<Self, Error> {
        // Without NODELAY a small request behind an unacknowledged one waits up to 40 ms.
        let secured = bases.iter().any(|base| base.starts_with("https:"));
        let http = tls.apply(reqwest::Client::builder(), secured)?;
        // As without TLS. Over HTTP/2 all calls would share one connection: a call would wait behind long polls when the
        // server's number of streams is reached, and why a server hung up would be lost (an alert of TLS among it).
        let http = http
            .http1_only()
            .tcp_nodelay(true)
            .tcp_keepalive(Duration::from_secs(30))
            .pool_max_idle_per_host(64)
            .pool_idle_timeout(Duration::from_secs(60))
            .connect_timeout(connect_timeout)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("punctual-sdk/", env!("CARGO_PKG_VERSION")))
            .build();
        let http =
            http.map_err(|e| Error::configuration(format!("url {}: {}", bases.join(","), deepest(&e))))?;
        Ok(Self { bases, current: AtomicUsize::new(0), http })
    }

    /// Tries each server until one accepts the call: a call that was not sent to one may be sent to the next.
    async fn send_to_any(&self, call: HttpRequest) -> Result<Reply, Failure> {
        let first = self.current.load(Ordering::Relaxed);
        let mut not_sent = None;
        for (nth, base) in self.bases.iter().enumerate().cycle().skip(first).take(self.bases.len()) {
            match self.exchange(base, call.clone()).await.map_err(failure) {
                Ok(reply) => {
                    if says_that_another_should_be_asked(reply.status) {
                        self.leave(nth);
                    }
                    return Ok(reply);
                }
                Err(Failure::Unanswered(error)) => {
                    self.leave(nth);
                    return Err(Failure::Unanswered(error));
                }
                Err(failure) => {
                    self.leave(nth);
                    not_sent = not_sent.or(Some(failure));
                }
            }
        }
        Err(not_sent.unwrap_or_else(|| Failure::NotSent("there is no server to ask".into())))
    }

    /// The next call uses the next server; of many calls that fail at one server, only the first changes it.
    fn leave(&self, nth: usize) {
        let next = (nth + 1) % self.bases.len();
        let _ = self.current.compare_exchange(nth, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    async fn exchange(&self, base: &str, call: HttpRequest) -> Result<Reply, reqwest::Error> {
        let mut request =
            self.http.request(call.method, format!("{base}{}", call.path)).timeout(call.timeout);
        for (name, value) in call.headers {
            request = request.header(name, value);
        }
        if !call.body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json").body(call.body);
        }
        let response = request.send().await?;
        let retry_after =
            response.headers().get(header::RETRY_AFTER).and_then(|v| v.to_str().ok()?.parse().ok());
        let status = response.status().as_u16();
        let body = response.bytes().await?;
        Ok(Reply { status, body, retry_after: retry_after.map(Duration::from_secs) })
    }
}

impl Transport for Http {
    fn send(&self, call: HttpRequest) -> BoxFuture<'_, Result<Reply, Failure>> {
        Box::pin(self.send_to_any(call))
    }
}

fn failure(error: reqwest::Error) -> Failure {
    match tls::explained(error) {
        Ok(explained) => Failure::NotSent(explained.into()),
        Err(e) if e.is_connect() || e.is_builder() => Failure::NotSent(e.into()),
        Err(e) => Failure::Unanswered(e.into()),
    }
}

/// The server stops, or cannot reach a back end, or a proxy cannot reach the server. The sender decides
/// whether this call is sent again.
fn says_that_another_should_be_asked(status: u16) -> bool {
    matches!(status, 502..=504)
}

/// The innermost cause.
fn deepest(error: &dyn StdError) -> String {
    error.source().map_or_else(|| error.to_string(), deepest)
}
