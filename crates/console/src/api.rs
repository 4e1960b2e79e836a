//! The API, asked in this process as any client would ask it: an HTTP request to its router, with the caller's token,
//! namespace and address. Notes what a page has asked, for its footer.

use crate::fault::Fault;
use axum::{
    Router,
    body::Body,
    http::{Extensions, HeaderValue, Method, Request, StatusCode, header},
};
use bytes::Bytes;
use parking_lot::Mutex;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use punctual_protocol::{Problem, headers};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};
use tower::ServiceExt as _;

/// Longest answer that a page takes, in bytes.
const ANSWER_MAX_BYTES: usize = 64 << 20;
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

#[derive(Clone)]
pub(crate) struct Api {
    router: Router,
    token: Option<Arc<str>>,
    namespace: Arc<str>,
    /// The extensions of every call, which identify the caller.
    extensions: Extensions,
    request_id: Option<HeaderValue>,
    /// The maximum age in seconds of counts that the API may return.
    max_age_s: Option<u32>,
    calls: Arc<Mutex<Vec<String>>>,
    /// A database has not answered one of the calls.
    is_store_away: Arc<AtomicBool>,
}

/// The API's answer to a call that it did not refuse.
#[derive(Debug)]
pub(crate) struct ApiAnswer {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

impl ApiAnswer {
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        serde_json::from_slice(&self.body).map_err(|error| Fault::Unreadable(error.to_string()))
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl Api {
    pub(crate) fn new(router: Router, token: Option<&str>, namespace: &str, extensions: Extensions) -> Self {
        Self {
            router,
            token: token.map(Arc::from),
            namespace: namespace.into(),
            extensions,
            request_id: None,
            max_age_s: None,
            calls: Arc::default(),
            is_store_away: Arc::default(),
        }
    }

    /// The audit's entries of these calls show it.
    pub(crate) fn under(mut self, request_id: &str) -> Self {
        self.request_id = HeaderValue::try_from(format!("console-{request_id}")).ok();
        self
    }

    /// Accepts counts that are not counted anew for each page.
    pub(crate) const fn lately(mut self) -> Self {
        self.max_age_s = Some(10);
        self
    }

    /// Requests counts as they are now.
    pub(crate) fn exactly(&self) -> Self {
        Self { max_age_s: None, ..self.clone() }
    }

    /// The calls so far, once each, in the order of the page.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.calls.lock().clone()
    }

    /// True if a call was refused because a database did not answer.
    pub(crate) fn met_store_away(&self) -> bool {
        self.is_store_away.load(Relaxed)
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Fault> {
        self.get_answer(path).await?.read()
    }

    pub(crate) async fn get_with<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &impl Serialize,
    ) -> Result<T, Fault> {
        self.get(&with_query(path, query)?).await
    }

    pub(crate) async fn get_answer(&self, path: &str) -> Result<ApiAnswer, Fault> {
        self.note(path);
        let answer = refused(self.ask(Method::GET, path, None, None).await?);
        if answer.as_ref().is_err_and(Fault::is_store_away) {
            self.is_store_away.store(true, Relaxed);
        }
        answer
    }

    /// Returns the API's answer, refusals too.
    pub(crate) async fn get_raw(&self, path: &str, max_bytes: usize) -> Result<ApiAnswer, Fault> {
        let (status, body) = self.asked(Method::GET, path, None, None).await?;
        let too_long = |_| {
            Fault::Invalid(format!(
                "The answer is longer than {} MiB. Use the API with curl.",
                max_bytes >> 20
            ))
        };
        let body = axum::body::to_bytes(body, max_bytes).await.map_err(too_long)?;
        Ok(ApiAnswer { status, body })
    }

    /// The body is JSON, as a text: what was typed is sent letter for letter.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
        if_match: Option<&str>,
    ) -> Result<ApiAnswer, Fault> {
        refused(self.ask(method, path, body, if_match).await?)
    }

    pub(crate) async fn post(&self, path: &str, body: &serde_json::Value) -> Result<ApiAnswer, Fault> {
        self.send(Method::POST, path, Some(body.to_string()), None).await
    }

    fn note(&self, path: &str) {
        let mut calls = self.calls.lock();
        if path != "/v1/me" && !calls.iter().any(|text| text == path) {
            calls.push(path.to_owned());
        }
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
        if_match: Option<&str>,
    ) -> Result<ApiAnswer, Fault> {
        let (status, body) = self.asked(method, path, body, if_match).await?;
        let body = axum::body::to_bytes(body, ANSWER_MAX_BYTES).await;
        let body = body.map_err(|error| Fault::Unreadable(error.to_string()))?;
        Ok(ApiAnswer { status, body })
    }

    async fn asked(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
        if_match: Option<&str>,
    ) -> Result<(StatusCode, Body), Fault> {
        // The request that this call is made for has passed the check of hosts and origins.
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "localhost")
            .header(header::USER_AGENT, "punctual-console")
            .header(headers::NAMESPACE, &*self.namespace);
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some(if_match) = if_match {
            request = request.header(header::IF_MATCH, if_match);
        }
        if let Some(seconds) = self.max_age_s {
            request = request.header(header::CACHE_CONTROL, format!("max-age={seconds}"));
        }
        if let Some(id) = &self.request_id {
            request = request.header("x-request-id", id.clone());
        }
        let body = match body {
            Some(body) => {
                request = request.header(header::CONTENT_TYPE, "application/json");
                Body::from(body)
            }
            None => Body::empty(),
        };
        let mut request =
            request.body(body).map_err(|error| Fault::Invalid(format!("no such call: {error}")))?;
        request.extensions_mut().extend(self.extensions.clone());
        let Ok(response) = self.router.clone().oneshot(request).await;
        let (parts, body) = response.into_parts();
        Ok((parts.status, body))
    }
}

fn refused(answer: ApiAnswer) -> Result<ApiAnswer, Fault> {
    if answer.status.is_success() {
        return Ok(answer);
    }
    let unreadable = |error| Fault::Unreadable(format!("status {}: {error}", answer.status));
    let mut problem: serde_json::Value = serde_json::from_slice(&answer.body).map_err(unreadable)?;
    // The task that is in the way: pages show it themselves.
    if let Some(fields) = problem.as_object_mut() {
        fields.remove("existing");
    }
    let problem: Problem = serde_json::from_value(problem).map_err(unreadable)?;
    match answer.status {
        StatusCode::UNAUTHORIZED => Err(Fault::SignIn(problem.detail)),
        _ => Err(Fault::Refused(Box::new(problem))),
    }
}

/// One segment of a path.
pub(crate) fn segment(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

pub(crate) fn with_query(path: &str, query: &impl Serialize) -> Result<String, Fault> {
    let query = serde_urlencoded::to_string(query).map_err(|error| Fault::Unreadable(error.to_string()))?;
    Ok(if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") })
}
