//! The addresses of the console, and what each request passes: session, seal of the form, the page's handler. Holds what all
//! requests share; nothing of it must survive the process.

use crate::{
    api::Api,
    assets,
    context::{Context, Visit},
    fault::Fault,
    form::{self, Form},
    headers,
    kept::KeptPages,
    layout, live, login,
    options::Options,
    pages, preferences,
    session::{self, SealKey},
    shown::shown,
    view::{Act, Done, Page},
};
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header, request::Parts},
    middleware::from_fn,
    response::{IntoResponse as _, Response},
    routing::{MethodRouter, get, post},
};
use bytes::Bytes;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use std::{
    fmt,
    sync::{Arc, LazyLock},
    time::Duration,
};

/// Longest form, in bytes: a payload that is edited, as a form writes it.
const FORM_MAX_BYTES: usize = 8 << 20;
const FORM_TIMEOUT: Duration = Duration::from_secs(30);
const PRESENT: &str = "/console";

pub(crate) struct Site {
    api: Router,
    pub(crate) options: Options,
    /// Of forms where there are no tokens.
    pub(crate) key: SealKey,
    pub(crate) live: live::Live,
    pub(crate) kept: KeptPages,
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site").finish_non_exhaustive()
    }
}

/// Over the API as one router, layers and all.
///
/// # Panics
/// When the system has no random numbers.
pub fn router(api: Router, options: Options) -> Router {
    let site = Arc::new(Site {
        api,
        live: live::Live::new(options.streams_max, options.streams_of_one_max),
        kept: KeptPages::default(),
        options,
        key: SealKey::random().expect("the system gives random numbers"),
    });
    MADE.router.clone().layer(from_fn(headers::guarded)).with_state(site)
}

/// Each route, with a method that it takes. Nobody needs a permission for them: the calls behind them do.
#[must_use]
pub fn routes() -> Vec<(Method, &'static str)> {
    MADE.routes.clone()
}

static PAGES: LazyLock<Vec<Page>> = LazyLock::new(pages::all);
static MADE: LazyLock<Made> = LazyLock::new(made);

fn made() -> Made {
    let mut made = Made::default();
    for page in PAGES.iter() {
        made.route(Method::GET, page.path, get(shown));
        if page.act.is_some() {
            made.route(Method::POST, page.path, post(acted));
        }
    }
    made.route(Method::GET, login::PATH, get(login::shown));
    made.route(Method::POST, login::PATH, post(login::signed_in));
    made.route(Method::POST, login::LOGOUT_PATH, post(login::signed_out));
    made.route(Method::GET, preferences::PATH, get(preferences::shown));
    made.route(Method::POST, preferences::PATH, post(preferences::set));
    made.route(Method::GET, live::PATH, get(live::stream));
    made.route(Method::GET, JSON_PATH, get(json));
    made.route(Method::GET, assets::PATH, get(assets::asset));
    made.route(Method::GET, "/console/", get(unknown));
    made.route(Method::GET, "/console/{*rest}", get(unknown));
    made
}

/// The one table of routes.
#[derive(Default)]
struct Made {
    router: Router<Arc<Site>>,
    routes: Vec<(Method, &'static str)>,
}

impl Made {
    fn route(&mut self, method: Method, path: &'static str, handler: MethodRouter<Arc<Site>>) {
        self.router = std::mem::take(&mut self.router).route(path, handler);
        self.routes.push((method, path));
    }
}

impl Site {
    /// The API for one request.
    pub(crate) fn api(&self, parts: &Parts, token: Option<&str>, namespace: &str) -> Api {
        let mut extensions = axum::http::Extensions::new();
        (self.options.carry)(&parts.extensions, &mut extensions);
        let api = Api::new(self.api.clone(), token, namespace, extensions);
        match parts.headers.get("x-request-id").and_then(|x_request_id| x_request_id.to_str().ok()) {
            Some(id) => api.under(id),
            None => api,
        }
    }

    /// The page at this path, with what is in the path.
    pub(crate) fn find(&self, path: &str) -> Option<(&Page, Vec<(&'static str, String)>)> {
        PAGES.iter().find_map(|page| Some((page, params(page.path, path)?)))
    }
}

/// None: the path is not of this pattern.
fn params(pattern: &'static str, path: &str) -> Option<Vec<(&'static str, String)>> {
    let path = if path.len() > 1 { path.strip_suffix('/').unwrap_or(path) } else { path };
    if pattern.matches('/').count() != path.matches('/').count() {
        return None;
    }
    let mut found = Vec::new();
    for (wanted, given) in pattern.split('/').zip(path.split('/')) {
        match wanted.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            Some(name) => found.push((name, percent_decode_str(given).decode_utf8().ok()?.into_owned())),
            None if wanted == given => {}
            None => return None,
        }
    }
    Some(found)
}

async fn acted(State(site): State<Arc<Site>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let response = match act(&site, &parts, body).await {
        Ok(response) => response,
        Err(fault) => failed(&site, &parts, fault).await,
    };
    with_session(&site, &parts.headers, response)
}

async fn act(site: &Site, parts: &Parts, body: Body) -> Result<Response, Fault> {
    let (page, params) = site.find(parts.uri.path()).ok_or(Fault::NotFound)?;
    let act: Act = page.act.ok_or(Fault::NotFound)?;
    // Who is nobody is told so before anything is read of what they send.
    let context = Context::of(site, parts, &parts.uri, params).await?;
    let form = sealed_form(site, parts, body).await?;
    match act(&context, &form).await? {
        Done::To { address, said } => {
            let mut response = to(&address);
            if let Some(said) = said {
                let said = utf8_percent_encode(&said, NON_ALPHANUMERIC);
                let name = crate::context::FLASH_COOKIE;
                put_cookie(
                    &mut response,
                    &format!("{name}={said}; Path={PRESENT}; Max-Age=30; HttpOnly; SameSite=Strict"),
                );
            }
            Ok(response)
        }
        Done::Again(view) => Ok(layout::page(&context, *view, StatusCode::UNPROCESSABLE_ENTITY)),
        Done::Show(view) => Ok(layout::page(&context, *view, StatusCode::OK)),
    }
}

/// Reads a form that a page of ours has sent, and no other.
pub(crate) async fn sealed_form(site: &Site, parts: &Parts, body: Body) -> Result<Form, Fault> {
    let form = own_form(parts, body, FORM_MAX_BYTES).await?;
    let visit = Visit::of(site, &parts.headers);
    if visit.key.made_form_token(form.raw(form::TOKEN), visit.now_ms) {
        return Ok(form);
    }
    Err(Fault::Forged(
        "The form's CSRF token is missing, expired, or from another session. Reload the page and submit it again. Nothing was done.",
    ))
}

/// Reads a form that no page of another site has sent.
pub(crate) async fn own_form(parts: &Parts, body: Body, max_bytes: usize) -> Result<Form, Fault> {
    refuse_foreign(&parts.headers, &parts.uri)?;
    Ok(Form::parse(&read(body, max_bytes).await?))
}

async fn read(body: Body, max_bytes: usize) -> Result<Bytes, Fault> {
    let reading = axum::body::to_bytes(body, max_bytes);
    match tokio::time::timeout(FORM_TIMEOUT, reading).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(_)) => Err(Fault::Invalid(format!(
            "The form is longer than {max_bytes} bytes or incomplete. Nothing was done."
        ))),
        Err(_) => Err(Fault::Invalid("The form did not arrive within 30 s. Nothing was done.".to_owned())),
    }
}

/// Of a form without a seal, from somebody who is nobody yet: it says where it is from, as every browser does of a form. One that
/// says nothing could be anybody's, and sign its sender in as another.
pub(crate) fn demand_site(headers: &HeaderMap) -> Result<(), Fault> {
    if headers.contains_key("sec-fetch-site") || headers.contains_key(header::ORIGIN) {
        return Ok(());
    }
    Err(Fault::Forged(
        "The request says neither in Origin nor in Sec-Fetch-Site which page it is from, as browsers do; nothing was done. A \
         program needs no session: it sends its token to /v1 in the header Authorization.",
    ))
}

/// Browsers say where a form is from. Those that do not say which site, say which origin.
pub(crate) fn refuse_foreign(headers: &HeaderMap, uri: &Uri) -> Result<(), Fault> {
    const FOREIGN: Fault = Fault::Forged("Another site sent this form. Nothing was done.");
    let text = |name: &str| headers.get(name).and_then(|header| header.to_str().ok());
    match text("sec-fetch-site") {
        Some("same-origin" | "none") => return Ok(()),
        Some(_) => return Err(FOREIGN),
        None => {}
    }
    let Some(origin) = text("origin") else { return Ok(()) };
    let host =
        text("host").or_else(|| uri.authority().map(|authority| authority.as_str())).unwrap_or_default();
    let from = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    if from.is_some_and(|from| from.eq_ignore_ascii_case(host)) { Ok(()) } else { Err(FOREIGN) }
}

/// A whole page that says it; who is nobody is led to the login, and back afterwards.
pub(crate) async fn failed(site: &Site, parts: &Parts, fault: Fault) -> Response {
    if fault.is_sign_in() {
        let wanted = if parts.method == Method::GET {
            parts.uri.path_and_query().map_or(PRESENT, |path_and_query| path_and_query.as_str())
        } else {
            parts.uri.path()
        };
        let session = Visit::of(site, &parts.headers).session;
        let had_one = session::was_sent(&parts.headers);
        let why = match (session, had_one) {
            (session::Session::Of { .. }, _) => "refused",
            (_, true) => "ended",
            (_, false) => "",
        };
        let mut response = to(&login::address(wanted, why));
        if had_one {
            session::cleared().iter().for_each(|cookie| put_cookie(&mut response, cookie));
        }
        return response;
    }
    let status = fault.status();
    // With the menu around it, where the caller is known.
    match Context::of(site, parts, &parts.uri, Vec::new()).await {
        Ok(context) => layout::page(&context, layout::fault(&context, &fault), status),
        Err(_) => layout::bare_fault(&parts.headers, &fault, status),
    }
}

async fn unknown(State(site): State<Arc<Site>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    match parts.uri.path() {
        "/console/" => to(PRESENT),
        _ => failed(&site, &parts, Fault::NotFound).await,
    }
}

pub(crate) fn to(address: &str) -> Response {
    let location = HeaderValue::try_from(address).unwrap_or(HeaderValue::from_static(PRESENT));
    (StatusCode::SEE_OTHER, [(header::LOCATION, location)]).into_response()
}

pub(crate) fn put_cookie(response: &mut Response, cookie: &str) {
    if let Ok(cookie) = HeaderValue::try_from(cookie) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
}

/// Lengthens the session with its use.
pub(crate) fn with_session(site: &Site, headers: &HeaderMap, mut response: Response) -> Response {
    let visit = Visit::of(site, headers);
    let session::Session::Of { token, is_tls: came_over_tls, .. } = &visit.session else { return response };
    if !visit.session.slides(visit.now_ms) {
        return response;
    }
    if !response.headers().contains_key(header::SET_COOKIE) {
        put_cookie(
            &mut response,
            &session::written(
                token,
                visit.now_ms,
                *came_over_tls || site.options.is_tls || is_https(headers),
            ),
        );
    }
    response
}

/// The browser came over TLS, if only as far as a proxy.
pub(crate) fn is_https(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|header| header.to_str().ok()).unwrap_or_default();
    text(header::ORIGIN).starts_with("https://") || text(header::REFERER).starts_with("https://")
}

pub(crate) const JSON_PATH: &str = "/console/json";
/// What is longer is asked of the API itself.
const JSON_MAX_BYTES: usize = 8 << 20;

/// A GET of the API with the caller's session: what a page is on.
async fn json(State(site): State<Arc<Site>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let context = match Context::of(&site, &parts, &parts.uri, Vec::new()).await {
        Ok(context) => context,
        Err(fault) => return failed(&site, &parts, fault).await,
    };
    let call = context.query("call").filter(|query| query.starts_with("/v1/")).map(str::to_owned);
    let Some(call) = call else { return failed(&site, &parts, Fault::NotFound).await };
    match context.api.exactly().get_raw(&call, JSON_MAX_BYTES).await {
        // Byte for byte: numbers of 64 bits stay what they are.
        Ok(answer) => {
            (answer.status, [(header::CONTENT_TYPE, "application/json; charset=utf-8")], answer.body)
                .into_response()
        }
        Err(fault) => failed(&site, &parts, fault).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_matched_segment_by_segment_and_its_parameters_are_decoded() {
        assert_eq!(params("/console", "/console"), Some(vec![]));
        let found = params("/console/queues/{queue}/pause", "/console/queues/a%20%2Fb/pause");
        assert_eq!(found, Some(vec![("queue", "a /b".to_owned())]));
        assert_eq!(params("/console/queues/{queue}", "/console/queues"), None);
        assert_eq!(params("/console/queues/{queue}", "/console/tasks/a"), None);
        assert_eq!(params("/console/queues/{queue}", "/console/queues/%ff"), None);
    }

    #[test]
    fn a_form_of_another_site_is_refused() {
        let headers = |pairs: &[(&'static str, &'static str)]| {
            HeaderMap::from_iter(
                pairs.iter().map(|pair| (pair.0.parse().unwrap(), HeaderValue::from_static(pair.1))),
            )
        };
        let uri = Uri::from_static("/console");
        for good in [
            headers(&[]),
            headers(&[
                ("sec-fetch-site", "same-origin"),
                ("origin", "https://public.example"),
                ("host", "inner:1"),
            ]),
            headers(&[("origin", "http://a.example:7450"), ("host", "a.example:7450")]),
        ] {
            assert!(refuse_foreign(&good, &uri).is_ok(), "{good:?}");
        }
        for bad in [
            headers(&[("sec-fetch-site", "same-site")]),
            headers(&[("sec-fetch-site", "cross-site"), ("origin", "http://a"), ("host", "a")]),
            headers(&[("origin", "http://b.example"), ("host", "a.example")]),
            headers(&[("origin", "null"), ("host", "a.example")]),
        ] {
            assert!(refuse_foreign(&bad, &uri).is_err(), "{bad:?}");
        }
    }
}
