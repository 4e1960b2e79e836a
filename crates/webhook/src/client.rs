//! Sends one request and reads its answer, within bounds of time and bytes. Follows no redirect, asks no proxy of the
//! environment, and connects only to guarded addresses. Must not decide what an answer means.

use crate::{
    delivery::{ReceiverAnswer, Response},
    guard::GuardedResolver,
    request::Request,
};
use parking_lot::Mutex;
use reqwest::{header::RETRY_AFTER, redirect::Policy};
use std::{error::Error as _, sync::Arc, time::Duration};

/// The bytes of an answer's body that are read. A longer body is not stored.
const BODY_MAX_BYTES: usize = 1 << 20;
/// The same of an answer that is not a success: its beginning is enough for the error.
const ERROR_BODY_MAX_BYTES: usize = 4 << 10;
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// A connection is kept this long for the next delivery. Servers commonly end one after a minute.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// Two clients, so that a connection to a private address never serves a queue that may not have one. Each is made
/// when it is needed first: TLS needs the certificates of the machine, which an engine without webhooks does not.
#[derive(Debug, Default)]
pub(crate) struct GuardedClient {
    public: Mutex<Option<reqwest::Client>>,
    private: Mutex<Option<reqwest::Client>>,
}

impl GuardedClient {
    fn of(&self, allow_private: bool) -> Result<reqwest::Client, String> {
        let mut client = if allow_private { self.private.lock() } else { self.public.lock() };
        if let Some(client) = &*client {
            return Ok(client.clone());
        }
        // Has no effect if the program has installed one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let made = reqwest::Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .referer(false)
            .dns_resolver(Arc::new(GuardedResolver { allow_private }))
            .connect_timeout(CONNECT_WITHIN)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .user_agent(concat!("Punctual/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| format!("no HTTP client can be made: {}", causes(&error)))?;
        *client = Some(made.clone());
        Ok(made)
    }

    pub(crate) async fn send(&self, request: Request, within: Duration) -> Response {
        let client = match self.of(request.allow_private) {
            Ok(client) => client,
            Err(why) => return Response::Unanswered(why),
        };
        let Request { url, headers, body, .. } = request;
        // The limit counts until the last byte of the answer.
        match client.post(url).headers(headers).body(body).timeout(within).send().await {
            Ok(response) => answer(response).await,
            Err(error) => Response::Unanswered(causes(&error)),
        }
    }
}

async fn answer(mut response: reqwest::Response) -> Response {
    let status = response.status();
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after = retry_after.map(str::to_owned);
    let most = if status.is_success() { BODY_MAX_BYTES } else { ERROR_BODY_MAX_BYTES };
    let (mut body, mut is_whole) = (Vec::new(), true);
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() <= most => body.extend_from_slice(&chunk),
            Ok(Some(chunk)) => {
                body.extend(chunk.iter().take(most - body.len()));
                is_whole = false;
                break;
            }
            Ok(None) => break,
            // The status of an error is known, whatever happened to its text.
            Err(_) if !status.is_success() => break,
            Err(error) => return Response::Unanswered(causes(&error)),
        }
    }
    // A success that is too long has no result; an error has the beginning of its text.
    let body = (is_whole || !status.is_success()).then_some(body);
    Response::Answered(ReceiverAnswer { status: status.as_u16(), retry_after, body })
}

/// The error with its causes, without the address, which may have credentials in its query.
fn causes(error: &reqwest::Error) -> String {
    let what = if error.is_timeout() {
        "no answer in time"
    } else if error.is_connect() {
        "no connection"
    } else if error.is_body() || error.is_decode() {
        "the answer broke off"
    } else {
        "the request failed"
    };
    let mut text = what.to_owned();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
