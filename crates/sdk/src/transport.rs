//! How a call reaches a server: over HTTP, or straight into one that runs in the same process (tests). A failure
//! must say whether the request can have been sent, because retries rest on it; when in doubt, it was.

use std::error::Error as StdError;
use std::fmt::Debug;
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
pub struct Call {
    pub method: Method,
    /// Path and query, beginning with `/v1/`.
    pub path: String,
    /// Lower-case names and their values.
    pub headers: Vec<(&'static str, String)>,
    /// JSON; empty for none.
    pub body: Bytes,
    /// After this long without an answer it counts as unanswered.
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

/// No answer.
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
    fn send(&self, call: Call) -> BoxFuture<'_, Result<Reply, Failure>>;
}

/// HTTP with a pool of connections that are kept open.
#[derive(Debug)]
pub(crate) struct Http {
    base: String,
    http: reqwest::Client,
}

impl Http {
    /// `base` without a trailing slash.
    pub(crate) fn new(base: String, connect_timeout: Duration, tls: &Tls) -> Result<Self, Error> {
        // Without NODELAY a small request behind an unacknowledged one waits up to 40 ms.
        let http = tls.apply(reqwest::Client::builder(), base.starts_with("https:"))?;
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
        let http = http.map_err(|e| Error::configuration(format!("url {base}: {}", deepest(&e))))?;
        Ok(Self { base, http })
    }

    async fn exchange(&self, call: Call) -> Result<Reply, reqwest::Error> {
        let mut request =
            self.http.request(call.method, format!("{}{}", self.base, call.path)).timeout(call.timeout);
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
    fn send(&self, call: Call) -> BoxFuture<'_, Result<Reply, Failure>> {
        Box::pin(async move {
            self.exchange(call).await.map_err(|e| match tls::explained(e) {
                Ok(failure) => Failure::NotSent(failure.into()),
                Err(e) if e.is_connect() || e.is_builder() => Failure::NotSent(e.into()),
                Err(e) => Failure::Unanswered(e.into()),
            })
        })
    }
}

/// What it comes down to.
fn deepest(error: &dyn StdError) -> String {
    error.source().map_or_else(|| error.to_string(), deepest)
}
